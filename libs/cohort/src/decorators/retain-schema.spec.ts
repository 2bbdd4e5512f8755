import { describe, expect, test } from '@jest/globals';
import { EntitySchema } from '@mikro-orm/core';
import { InvalidArgumentError } from '../cohort.errors.js';
import { AnonymiseMethod } from '../domain/strategy.js';
import { readAnnotations } from './annotation-store.js';
import {
  Anonymise,
  AnonymiseWith,
  ErasureSubject,
  RetentionAnonymisedAt,
  RetentionDeletedAt,
  RetentionRecordId,
  RetentionSoftDelete,
  RetentionTenant,
} from './properties.js';
import { Retain, RetentionEntityId, RetentionTenantless } from './retain.js';
import { type RetainOptionsOf, retain } from './retain-schema.js';

const ID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';

class Pseudonym {
  create = () => 'someone';
}

class Contact {
  key!: string;
  owner!: string;
  createdAt!: Date;
  hidden!: boolean;
  hiddenAt!: Date | null;
  scrubbedAt!: Date | null;
  email!: string | null;
  name!: string;
  phone!: string;
  nick!: string;
  personId!: string;
}

const options = {
  category: 'contacts',
  anchor: 'createdAt',
  entityId: ID,
  auditRowDetail: 'perRow',
  recordId: 'key',
  tenant: 'owner',
  softDelete: 'hidden',
  deletedAt: 'hiddenAt',
  anonymisedAt: 'scrubbedAt',
  anonymise: { email: 'null', name: 'emptyString', phone: ['fixedLiteral', 'x'], nick: Pseudonym },
  erasureSubjects: { personId: 'person' },
} satisfies RetainOptionsOf<Contact>;

const schemaOf = () => new EntitySchema<Contact>({ name: 'Contact', properties: {} as never });
const retainWith = (change: object) => () => retain(schemaOf(), { ...options, ...change } as RetainOptionsOf<Contact>);

describe('retain()', () => {
  test('says the same as the decorators', () => {
    @Retain('contacts', 'createdAt', { auditRowDetail: 'perRow' })
    @RetentionEntityId(ID)
    class Decorated {
      @RetentionRecordId() key!: string;
      @RetentionTenant() owner!: string;
      createdAt!: Date;
      @RetentionSoftDelete() hidden!: boolean;
      @RetentionDeletedAt() hiddenAt!: Date | null;
      @RetentionAnonymisedAt() scrubbedAt!: Date | null;
      @Anonymise(AnonymiseMethod.Null) email!: string | null;
      @Anonymise(AnonymiseMethod.EmptyString) name!: string;
      @Anonymise(AnonymiseMethod.FixedLiteral, 'x') phone!: string;
      @AnonymiseWith(Pseudonym) nick!: string;
      @ErasureSubject('person') personId!: string;
    }
    class Undecorated extends Contact {}
    const schema = schemaOf();
    retain(Undecorated, options);
    retain(schema, options);
    expect(readAnnotations(Undecorated)).toEqual(readAnnotations(Decorated));
    expect(readAnnotations(schema)).toEqual(readAnnotations(Decorated));
  });

  test('marks a tenantless entity as the decorator does', () => {
    @Retain('signals', 'seenAt')
    @RetentionEntityId(ID)
    @RetentionTenantless()
    class Decorated {
      seenAt!: Date;
    }
    class Signal {
      seenAt!: Date;
    }
    retain(Signal, { category: 'signals', anchor: 'seenAt', entityId: ID, tenantless: true });
    expect(readAnnotations(Signal)).toEqual(readAnnotations(Decorated));
  });

  test.each([
    ['category', { category: '' }, 'Retain category is an empty string'],
    ['category', { category: undefined }, 'Retain category is undefined'],
    ['anchor', { anchor: ' ' }, "Retain anchor is ' '"],
    ['entityId', { entityId: undefined }, 'RetentionEntityId is undefined'],
    ['entityId', { entityId: 'contacts' }, "RetentionEntityId is 'contacts'"],
    ['auditRowDetail', { auditRowDetail: 'all' }, "Retain auditRowDetail is 'all'"],
    ['anonymise', { anonymise: { name: 'hash' } }, "Anonymise method is 'hash'"],
    ['anonymise', { anonymise: { name: undefined } }, 'Anonymise method is undefined'],
    ['anonymise', { anonymise: { name: 'fixedLiteral' } }, 'Anonymise literal is undefined'],
    ['anonymise', { anonymise: { name: ['fixedLiteral', ''] } }, 'Anonymise literal is an empty string'],
    ['anonymise', { anonymise: { name: ['null', 'x'] } }, "Anonymise literal is 'x'"],
    ['erasureSubjects', { erasureSubjects: { personId: '' } }, 'ErasureSubject kind is an empty string'],
    ['recordId', { recordId: '' }, 'retain recordId is an empty string'],
    ['tenant', { tenant: 7 }, 'retain tenant is 7'],
  ])('makes the checks of the decorators: %s', (_, change, problem) => {
    expect(retainWith(change)).toThrow(InvalidArgumentError);
    expect(retainWith(change)).toThrow(problem);
  });

  test('leaves no trace of an entity that it refused', () => {
    const schema = schemaOf();
    expect(() => retain(schema, { ...options, erasureSubjects: { personId: '' } })).toThrow(InvalidArgumentError);
    expect(readAnnotations(schema)).toBeUndefined();
  });

  test.each([null, undefined, 'Contact', 7])('refuses %p in place of an entity', (entity) => {
    const attempt = () => retain(entity as never, options as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow('retain entity is ');
  });

  test.each([null, undefined, 'contacts'])('refuses %p in place of its options', (wrong) => {
    const attempt = () => retain(schemaOf(), wrong as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow('retain options is ');
  });

  test('is a compile error for an anchor or a marker date that is not a date property', () => {
    const attempts = [
      // @ts-expect-error a text is no date
      () => retain(Contact, { ...options, anchor: 'name' }),
      // @ts-expect-error there is no such property
      () => retain(Contact, { ...options, anchor: 'createdat' }),
      // @ts-expect-error a flag is no date
      () => retain(Contact, { ...options, deletedAt: 'hidden' }),
      // @ts-expect-error there is no such property
      () => retain(Contact, { ...options, tenant: 'tenantId' }),
    ];
    expect(attempts).toHaveLength(4);
  });
});
