import { startEmbeddedPostgres } from 'local-stack';
import pg from 'pg';
import { migrate, openRoles } from '../../src/platform/migrate.js';

/** A server of its own with the service's tables, which a test may freeze: it takes connections and says nothing more. */
export async function openFreezableServer() {
  const server = await startEmbeddedPostgres();
  await migrate(server.url);
  const urls = await openRoles(server.url);
  const watcher = new pg.Client(server.url);
  watcher.on('error', () => undefined);
  await watcher.connect();
  const stopped = new Set<number>();
  const stop = (pid: number) => {
    process.kill(pid, 'SIGSTOP');
    stopped.add(pid);
  };
  const freeze = async () => {
    // The postmaster first: after that nobody is added to those who are asked for.
    stop(server.pid);
    const { rows } = await watcher.query<{ pid: number }>('select pid from pg_stat_activity');
    for (const { pid } of rows) stop(pid);
  };
  const thaw = () => {
    for (const pid of stopped) process.kill(pid, 'SIGCONT');
    stopped.clear();
  };
  return {
    urls,
    freeze,
    thaw,
    stop: async () => {
      thaw();
      await watcher.end();
      await server.stop();
    },
  };
}
