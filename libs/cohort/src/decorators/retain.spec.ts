import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { readAnnotations } from './annotation-store.js';
import { ExemptFromRetention, Retain, RetentionEntityId, RetentionTenantless } from './retain.js';

const ID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';

describe('@Retain', () => {
  // acceptance 49, META-01, META-02
  test('keeps category and anchor, and leaves row detail to the rule', () => {
    @Retain('session-notes', 'createdAt')
    class Note {
      createdAt!: Date;
    }
    expect(readAnnotations(Note)?.retain).toEqual({
      category: 'session-notes',
      anchor: 'createdAt',
      auditRowDetail: 'inherit',
    });
  });

  // META-02
  test.each(['summaryOnly', 'perRow', 'inherit'] as const)('keeps the row detail %s', (auditRowDetail) => {
    @Retain('session-notes', 'createdAt', { auditRowDetail })
    class Note {
      createdAt!: Date;
    }
    expect(readAnnotations(Note)?.retain?.auditRowDetail).toBe(auditRowDetail);
  });

  // acceptance 49, META-01
  test.each([
    ['category', '', 'createdAt'],
    ['category', ' ', 'createdAt'],
    ['category', null, 'createdAt'],
    ['category', undefined, 'createdAt'],
    ['category', 7, 'createdAt'],
    ['anchor', 'notes', ''],
    ['anchor', 'notes', '\n'],
    ['anchor', 'notes', null],
    ['anchor', 'notes', undefined],
  ])('refuses a blank %s: %p, %p', (argument, category, anchor) => {
    const attempt = () => Retain(category as string, anchor as string);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(`Retain ${argument} is `);
  });

  // acceptance 50, META-02
  test.each(['all', '', 'PerRow', 1, true])('refuses the row detail %p', (auditRowDetail) => {
    const attempt = () => Retain('notes', 'createdAt', { auditRowDetail } as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow('Retain auditRowDetail is ');
  });

  // META-01: single use; what is nearest to the class wins
  test('counts once: written twice, the upper one is in force', () => {
    @Retain('upper', 'createdAt')
    @Retain('lower', 'createdAt')
    class Note {
      createdAt!: Date;
    }
    expect(readAnnotations(Note)?.retain?.category).toBe('upper');
  });

  test('takes anchors that are dates, nullable or optional', () => {
    @Retain('a', 'createdAt')
    class Required {
      createdAt!: Date;
    }
    @Retain('a', 'closedAt')
    class Nullable {
      closedAt: Date | null = null;
    }
    @Retain('a', 'seenAt')
    class Optional {
      seenAt?: Date;
    }
    abstract class Base {
      createdAt!: Date;
    }
    @Retain('a', 'createdAt')
    class Inherited extends Base {
      body = '';
    }
    const anchors = [Required, Nullable, Optional, Inherited].map((each) => readAnnotations(each)?.retain?.anchor);
    expect(anchors).toEqual(['createdAt', 'closedAt', 'seenAt', 'createdAt']);
  });

  // acceptance 98: the type check of tsconfig.check.json fails when one of these lines compiles
  test('is a compile error for an anchor that is not a date property of the class', () => {
    // @ts-expect-error a text is no date
    @Retain('a', 'createdAt')
    class Text {
      createdAt = '';
    }
    // @ts-expect-error a number is no date
    @Retain('a', 'createdAt')
    class Milliseconds {
      createdAt = 0;
    }
    // @ts-expect-error half a date is no date
    @Retain('a', 'createdAt')
    class Either {
      createdAt!: Date | string;
    }
    // @ts-expect-error the class has no such property
    @Retain('a', 'createdat')
    class Misspelt {
      createdAt!: Date;
    }
    // @ts-expect-error others cannot see it
    @Retain('a', 'createdAt')
    class Hidden {
      private createdAt!: Date;
      read = () => this.createdAt;
    }
    // @ts-expect-error static, hence not of a row
    @Retain('a', 'createdAt')
    class Static {
      static createdAt: Date;
      body = '';
    }
    expect([Text, Milliseconds, Either, Misspelt, Hidden, Static]).toHaveLength(6);
  });
});

describe('@RetentionEntityId', () => {
  // acceptance 48, META-03
  test.each([ID, ID.toUpperCase()])('keeps %s in lower case', (id) => {
    @RetentionEntityId(id)
    class Note {}
    expect(readAnnotations(Note)?.entityId).toBe(ID);
  });

  // acceptance 48, 30, META-03
  test.each([
    '00000000-0000-0000-0000-000000000000',
    '',
    'notes',
    `{${ID}}`,
    ID.replaceAll('-', ''),
    ` ${ID}`,
    null,
    undefined,
    7,
  ])('refuses %p', (id) => {
    const attempt = () => RetentionEntityId(id as string);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/^RetentionEntityId is .*; wanted: a UUID such as .*, not the zero UUID\.$/);
  });
});

describe('@ExemptFromRetention', () => {
  // acceptance 53, META-04
  test('keeps its reason and needs nothing else', () => {
    @ExemptFromRetention('reference data')
    class Country {}
    expect(readAnnotations(Country)).toMatchObject({ exempt: { reason: 'reference data' } });
  });

  // acceptance 53, META-04
  test.each(['', ' ', null, undefined, 7])('refuses the reason %p', (reason) => {
    const attempt = () => ExemptFromRetention(reason as string);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow('ExemptFromRetention reason is ');
  });
});

// acceptance 49, 53, META-01, META-04
test('class markers are not inherited', () => {
  @Retain('notes', 'createdAt')
  @RetentionEntityId(ID)
  @RetentionTenantless()
  class Base {
    createdAt!: Date;
  }
  @ExemptFromRetention('reference data')
  class ExemptBase {}
  class Derived extends Base {}
  class DerivedExempt extends ExemptBase {}

  expect(readAnnotations(Base)).toMatchObject({ entityId: ID, tenantless: true });
  for (const derived of [readAnnotations(Derived), readAnnotations(DerivedExempt)]) {
    expect(derived?.retain).toBeUndefined();
    expect(derived?.entityId).toBeUndefined();
    expect(derived?.tenantless).toBeUndefined();
    expect(derived?.exempt).toBeUndefined();
  }
});

// META-05
test('a class without a marker has no annotations', () => {
  expect(readAnnotations(class Plain {})).toBeUndefined();
});
