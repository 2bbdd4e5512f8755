import { describe, expect, test } from '@jest/globals';
import { type SweepEvent, sweepEvent } from './sweep-event.js';

const ID = 'b7316df4-7db5-46ad-aea7-f65c4b430f73';
const ZERO = '00000000-0000-0000-0000-000000000000';
const run = { sweepId: ID, passId: ID, tenantId: 'acme', at: new Date(0) };
const entity = { ...run, entity: 'Note', entityId: ID, category: 'notes', strategy: 'purge' as const };
const end = { ...run, totalAffected: 0, durationMs: 0 };
const counts = { affected: 0, held: 0, skipped: 0, nullAnchor: 0 };

const EVENTS: Record<SweepEvent['type'], object> = {
  started: { ...run, trigger: 'manual', dryRun: false, subjectKind: null },
  rowDetail: { ...entity, recordId: '7' },
  entityProgress: { ...entity, affected: 0, skipped: 0 },
  entitySummary: { ...entity, ...counts, resolvedPeriod: 'P30D', skippedByCause: {} },
  completed: end,
  partiallyFailed: { ...end, error: 'type=Error' },
  failed: { ...end, error: 'type=Error' },
  cancelled: end,
};

describe.each(Object.entries(EVENTS))('the event %s', (type, event) => {
  const make = (change: object) => () => sweepEvent({ type, ...event, ...change } as SweepEvent);

  // acceptance 75-84
  test('takes every boundary, and is frozen', () => {
    expect(Object.isFrozen(make({})())).toBe(true);
  });

  // acceptance 75-84; DOM-09
  test('refuses what cannot be', () => {
    const wrong: Record<string, unknown[]> = {
      sweepId: [ZERO, '', null],
      passId: [ZERO],
      entityId: [ZERO, undefined],
      entity: ['', null],
      category: [' ', null],
      recordId: ['', null],
      tenantId: [''],
      error: [' ', null],
      resolvedPeriod: [''],
      strategy: ['delete', null],
      trigger: ['cron', null],
      subjectKind: ['', 7],
      at: [new Date(NaN), 0],
      affected: [-1, 0.5, NaN, '1'],
      held: [-1],
      skipped: [-1],
      nullAnchor: [-1],
      totalAffected: [-1, null],
      durationMs: [-1],
    };
    const changes = Object.entries(wrong)
      .filter(([key]) => key in event)
      .flatMap(([key, values]) => values.map((value) => ({ key, value })));
    expect(changes.length).toBeGreaterThan(3);
    for (const { key, value } of changes) expect(make({ [key]: value })).toThrow(`event.${key}`);
  });
});
