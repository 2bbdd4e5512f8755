import { describe, expect, test } from '@jest/globals';
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

class Pseudonym {
  create = () => 'someone';
}

// acceptance 51, META-07, META-13, META-14, META-15
test('each marker keeps its role and its property', () => {
  class Contact {
    @RetentionRecordId() key!: string;
    @RetentionTenant() owner!: string;
    @RetentionSoftDelete() hidden!: boolean;
    @RetentionDeletedAt() hiddenAt!: Date;
    @RetentionAnonymisedAt() scrubbedAt!: Date;
    @Anonymise(AnonymiseMethod.Null) email!: string;
    @AnonymiseWith(Pseudonym) nick!: string;
    @ErasureSubject() personId!: string;
    @ErasureSubject('household') householdId!: string;
  }
  expect(readAnnotations(Contact)).toEqual({
    roles: [
      { role: 'recordId', property: 'key' },
      { role: 'tenant', property: 'owner' },
      { role: 'softDelete', property: 'hidden' },
      { role: 'deletedAt', property: 'hiddenAt' },
      { role: 'anonymisedAt', property: 'scrubbedAt' },
    ],
    scrubs: [
      { property: 'email', method: 'null', literal: undefined },
      { property: 'nick', factory: Pseudonym },
    ],
    subjects: [
      { property: 'personId', kind: 'default' },
      { property: 'householdId', kind: 'household' },
    ],
  });
});

describe('@Anonymise', () => {
  // acceptance 52, META-12
  test.each([
    [AnonymiseMethod.Null, undefined],
    [AnonymiseMethod.EmptyString, undefined],
    [AnonymiseMethod.FixedLiteral, '[redacted]'],
  ])('keeps method %s and literal %p', (method, literal) => {
    class Contact {
      @Anonymise(method, literal) name!: string;
    }
    expect(readAnnotations(Contact)?.scrubs).toEqual([{ property: 'name', method, literal }]);
  });

  // acceptance 52, META-12
  test.each([
    ['fixedLiteral', undefined, 'Anonymise literal is undefined'],
    ['fixedLiteral', '', 'Anonymise literal is an empty string'],
    ['fixedLiteral', '  ', "Anonymise literal is '  '"],
    ['fixedLiteral', null, 'Anonymise literal is null'],
    ['fixedLiteral', 7, 'Anonymise literal is 7'],
    ['null', 'x', "Anonymise literal is 'x'; wanted: no literal with method 'null'"],
    ['null', null, "Anonymise literal is null; wanted: no literal with method 'null'"],
    ['emptyString', '', "Anonymise literal is an empty string; wanted: no literal with method 'emptyString'"],
    ['hash', undefined, "Anonymise method is 'hash'; wanted: one of null, emptyString, fixedLiteral"],
    [undefined, undefined, 'Anonymise method is undefined'],
    [null, undefined, 'Anonymise method is null'],
    [0, undefined, 'Anonymise method is 0'],
  ])('refuses method %p with literal %p', (method, literal, problem) => {
    const attempt = () => Anonymise(method as AnonymiseMethod, literal as string);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(problem);
  });
});

// META-13
test.each([null, undefined, {}, 'Pseudonym'])('@AnonymiseWith refuses %p in place of a class', (factory) => {
  const attempt = () => AnonymiseWith(factory as never);
  expect(attempt).toThrow(InvalidArgumentError);
  expect(attempt).toThrow('AnonymiseWith factory is ');
});

// META-15
test.each(['', ' ', null, 7])('@ErasureSubject refuses the kind %p', (kind) => {
  const attempt = () => ErasureSubject(kind as string);
  expect(attempt).toThrow(InvalidArgumentError);
  expect(attempt).toThrow('ErasureSubject kind is ');
});

describe('in a subclass', () => {
  class Base {
    @RetentionTenant() tenant!: string;
    @Anonymise(AnonymiseMethod.EmptyString) name!: string;
    @Anonymise(AnonymiseMethod.EmptyString) email!: string;
    @ErasureSubject('person') personId!: string;
  }

  // META-07, META-09
  test('markers of properties are inherited', () => {
    class Plain extends Base {}
    class Marked extends Base {
      @RetentionRecordId() key!: string;
    }
    expect(readAnnotations(Plain)).toEqual(readAnnotations(Base));
    expect(readAnnotations(Marked)?.roles).toEqual([
      { role: 'recordId', property: 'key' },
      { role: 'tenant', property: 'tenant' },
    ]);
  });

  // META-09, acceptance 47
  test('a property that is marked again replaces what its base said of it, and nothing else', () => {
    class Derived extends Base {
      @Anonymise(AnonymiseMethod.FixedLiteral, 'x') declare name: string;
      @ErasureSubject('household') declare personId: string;
    }
    class Again extends Derived {
      @Anonymise(AnonymiseMethod.Null) declare email: string;
    }
    expect(readAnnotations(Derived)?.scrubs).toEqual([
      { property: 'name', method: 'fixedLiteral', literal: 'x' },
      { property: 'email', method: 'emptyString', literal: undefined },
    ]);
    expect(readAnnotations(Derived)?.subjects).toEqual([{ property: 'personId', kind: 'household' }]);
    expect(readAnnotations(Again)?.scrubs).toEqual([
      { property: 'email', method: 'null', literal: undefined },
      { property: 'name', method: 'fixedLiteral', literal: 'x' },
    ]);
  });

  test('the base keeps what it had', () => {
    class Derived extends Base {
      @RetentionRecordId() key!: string;
    }
    expect(readAnnotations(Derived)?.roles).toHaveLength(2);
    expect(readAnnotations(Base)?.roles).toEqual([{ role: 'tenant', property: 'tenant' }]);
  });

  test('two markers on one property of one class are both kept, for start-up to refuse', () => {
    class Contact {
      @Anonymise(AnonymiseMethod.Null)
      @AnonymiseWith(Pseudonym)
      name!: string;
    }
    expect(readAnnotations(Contact)?.scrubs).toHaveLength(2);
  });
});
