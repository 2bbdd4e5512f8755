import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type INestApplicationContext, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { type CohortOptions, RetentionHealthIndicator } from 'nestjs-cohort';
import { longestOverdue } from '../../src/engine/overdue.js';
import { type Host, openHost } from '../support/host.js';
import { ACME, NOW, notesHost } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { addNotes } from '../support/seed.js';
import { workerOf } from '../support/worker.js';

const open = (options: Partial<CohortOptions> = {}) =>
  openHost({
    ...notesHost,
    options: { ...notesHost.options, schedule: '0 2 * * *', tenants: [ACME], ...options },
  });

const DAY = 86_400_000;
/** The last slot of the schedule, and the ones before it. */
const slotsBefore = (now: Date) =>
  [0, 1, 2, 3].map((day) => new Date(Math.floor((now.getTime() - 7_200_000) / DAY) * DAY + 7_200_000 - day * DAY));

const look = async (host: Host) => (await new RetentionHealthIndicator(host.readiness).check('retention')).retention;

async function sweepSlots(host: Host, slots: readonly Date[]) {
  for (const slot of slots) {
    const { tickAt } = workerOf(host, slot);
    await tickAt(new Date(slot.getTime() - 3_600_000));
    await tickAt(slot);
  }
}

beforeAll(() => Logger.overrideLogger(false));
afterAll(() => Logger.overrideLogger(true));

describe('the health of scheduled sweeps', () => {
  test('is up after a slot was swept, down when the next one was missed', async () => {
    const host = await open();
    const [last, before, earlier] = slotsBefore(new Date());
    await sweepSlots(host, [earlier!]);
    expect(await look(host)).toMatchObject({ status: 'down', missedSlot: before!.toISOString(), failures: 0 });
    await sweepSlots(host, [last!]);
    expect(await look(host)).toEqual({
      status: 'up',
      schedule: '0 2 * * *',
      killSwitch: false,
      lastSlot: last!.toISOString(),
      missedSlot: null,
      failures: 0,
    });
  });

  // field case C20 (b)
  test('is down after three days without a worker, and what is overdue grows', async () => {
    const host = await open();
    const now = new Date();
    await sweepSlots(host, [slotsBefore(now)[3]!]);
    await addNotes(host, [{ days: 31 + (now.getTime() - NOW.getTime()) / -DAY }]);
    expect(await look(host)).toMatchObject({ status: 'down', missedSlot: slotsBefore(now)[2]!.toISOString() });
    const ctx = await host.readiness.context();
    const days = await Promise.all(
      [0, 1, 2, 3].map(async (day) => {
        const overdue = await longestOverdue(ctx, new Date(now.getTime() + day * DAY), AbortSignal.timeout(10_000));
        return Math.round((overdue.get('SessionNote')! * 1000) / DAY);
      }),
    );
    expect(days).toEqual([1, 2, 3, 4]);
  });

  test('is down when slots keep failing, up again after one that did not', async () => {
    const host = await open();
    const [last, ...earlier] = slotsBefore(new Date());
    await sweepSlots(host, [...earlier].reverse());
    await host.query(`update ${OURS}.sweep_run set status = 'partiallyFailed'`);
    await sweepSlots(host, [last!]);
    expect(await look(host)).toMatchObject({ status: 'up', failures: 0 });
    await host.query(`update ${OURS}.sweep_run set status = 'partiallyFailed'`);
    expect(await look(host)).toMatchObject({ status: 'down', failures: 3, missedSlot: null });
  });

  test.each<[string, Partial<CohortOptions>, Partial<CohortOptions>]>([
    ['the schedule became a denser one', { schedule: '0 2 1 1 *' }, { schedule: '0 2 * * *' }],
    ['the kill switch was lifted', { killSwitch: true }, { killSwitch: false }],
    ['dry runs became real ones', { dryRun: true }, { dryRun: false }],
  ])('is up until the first slot after %s', async (_, before, change) => {
    const host = await open();
    await sweepSlots(host, [slotsBefore(new Date())[3]!]);
    expect(await look(host)).toMatchObject({ status: 'down' });
    host.readiness.settings.update(before);
    const indicator = new RetentionHealthIndicator(host.readiness);
    host.readiness.settings.update(change);
    expect((await indicator.check('retention')).retention).toMatchObject({ status: 'up', missedSlot: null });
  });

  test('is up where nobody wants sweeps', async () => {
    const host = await open();
    host.readiness.settings.update({ killSwitch: true });
    expect(await look(host)).toMatchObject({ status: 'up', killSwitch: true });
    host.readiness.settings.update({ killSwitch: false, schedule: null });
    expect(await look(host)).toMatchObject({ status: 'up', schedule: null });
  });

  test('is down, and says no more, where the tables are out of reach', async () => {
    const host = await open();
    await host.query(`alter table ${OURS}.sweep_occurrence rename to away`);
    expect(await look(host)).toMatchObject({
      status: 'down',
      message: expect.not.stringContaining('sweep_occurrence'),
    });
  });

  test('is what terminus takes', async () => {
    const host = await open();
    const [, , earlier] = slotsBefore(new Date());
    await sweepSlots(host, [earlier!]);
    const indicator = new RetentionHealthIndicator(host.readiness);

    @Module({ imports: [TerminusModule.forRoot({ logger: false })] })
    class HealthModule {}
    const app: INestApplicationContext = await NestFactory.createApplicationContext(HealthModule, { logger: false });
    try {
      const failed = app.get(HealthCheckService).check([() => indicator.check('retention')]);
      await expect(failed).rejects.toMatchObject({
        response: { status: 'error', error: { retention: { status: 'down' } } },
      });
      await sweepSlots(host, [slotsBefore(new Date())[0]!]);
      const passed = await app.get(HealthCheckService).check([() => indicator.check('retention')]);
      expect(passed).toMatchObject({ status: 'ok', info: { retention: { status: 'up' } } });
    } finally {
      await app.close();
    }
  });
});
