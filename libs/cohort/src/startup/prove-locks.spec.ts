import { expect, test } from '@jest/globals';
import {
  type DatabaseConnection,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely';
import type { EngineContext } from '../engine/context.js';
import { lockProblems } from './prove-locks.js';

/** A server that answers every question for a lock in the same way. */
function answering(granted: boolean): EngineContext {
  const connection = { executeQuery: () => Promise.resolve({ rows: [{ granted }] }) } as unknown as DatabaseConnection;
  class Server extends DummyDriver {
    override acquireConnection = () => Promise.resolve(connection);
  }
  const client = new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new Server(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  const orm = { em: { getDriver: () => ({ getConnection: () => ({ getClient: () => client }) }) } };
  return { orm, newId: () => 'one' } as unknown as EngineContext;
}

// design 4.1: some poolers and distributed servers have advisory locks that do not lock
test('a server that grants one lock to two connections is refused', async () => {
  expect(await lockProblems(answering(true))).toEqual([
    expect.stringMatching(/^Advisory locks do not lock: .* connect past the pooler/),
  ]);
});

test('one that does not is taken', async () => {
  expect(await lockProblems(answering(false))).toEqual([]);
});
