import { describe, expect, test } from '@jest/globals';
import type { DispatchPhase } from '../domain/row-handler.js';
import { RowHandler, readRowHandlers } from './row-handler.js';

class Note {}
class Memo {}
const IDENTITY = 'B7316DF4-7db5-46ad-aea7-f65c4b430f73';

describe('@RowHandler', () => {
  // acceptance 1, 74, 370
  test('keeps what each class says of each entity', () => {
    @RowHandler(Note, { phase: 'afterSweepSettled' })
    @RowHandler(Memo, { identity: IDENTITY, priority: -1 })
    class Blobs {
      onAfter() {}
    }
    expect(readRowHandlers(Blobs)).toEqual([
      { entity: Memo, identity: IDENTITY.toLowerCase(), phase: 'immediate', priority: -1 },
      { entity: Note, identity: undefined, phase: 'afterSweepSettled', priority: Number.MAX_SAFE_INTEGER },
    ]);
  });

  // acceptance 2
  test('may say the same twice', () => {
    @RowHandler(Note, { priority: 1 })
    @RowHandler(Note, { priority: 1 })
    class Blobs {
      onAfter() {}
    }
    expect(readRowHandlers(Blobs)).toHaveLength(1);
  });

  // acceptance 3
  test.each([{ phase: 'afterSweepSettled' as const }, { identity: IDENTITY }, { priority: 2 }])(
    'does not take other options for the same entity: %j',
    (other) => {
      expect(() => {
        @RowHandler(Note, other)
        @RowHandler(Note)
        class Blobs {
          onAfter() {}
        }
        return Blobs;
      }).toThrow('RowHandler options');
    },
  );

  test('is not inherited', () => {
    @RowHandler(Note)
    class Blobs {
      onAfter() {}
    }
    class Others extends Blobs {}
    expect(readRowHandlers(Others)).toEqual([]);
  });

  // acceptance 6, HREG-01, HREG-04
  test.each<[string, object]>([
    ['RowHandler phase', { phase: 'later' as DispatchPhase }],
    ['RowHandler identity', { identity: 'blobs' }],
    ['RowHandler identity', { identity: '00000000-0000-0000-0000-000000000000' }],
    ['RowHandler priority', { priority: 1.5 }],
    ['RowHandler priority', { priority: NaN }],
    ['RowHandler options', { order: 1 }],
    ['RowHandler options', null as never],
  ])('refuses a wrong %s', (argument, options) => {
    expect(() => RowHandler(Note, options)).toThrow(argument);
  });

  test.each([undefined, null, 'Note', 1])('refuses %p for an entity', (entity) => {
    expect(() => RowHandler(entity as never)).toThrow('RowHandler entity');
  });
});
