import { Socket } from 'node:net';
import pg from 'pg';
import type { EngineContext } from '../engine/context.js';
import { listenStatement } from '../sql/wake.js';
import { Wake } from './wake.js';

/** Between two attempts to listen again. */
const RECONNECT_MS = 5000;

/**
 * Listens for word of new work, on a connection of its own, until it is stopped. It only makes things faster: whenever the
 * connection is not there, polling finds the work as well.
 */
export async function listenForWork(ctx: EngineContext, url: string, wake: Wake, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    await listenOnce(ctx, url, wake, stop).catch((error: unknown) => {
      if (!stop.aborted)
        ctx.logger.error('Listening for row handler work failed; the queue is polled meanwhile', error);
    });
    await new Wake().sleep(RECONNECT_MS, stop);
  }
}

/** Returns when the connection has ended. */
async function listenOnce(ctx: EngineContext, url: string, wake: Wake, stop: AbortSignal): Promise<void> {
  // A socket of our own: `end` of the client waits for a server that is frozen, and never settles while it connects.
  const socket = new Socket();
  const client = new pg.Client({
    connectionString: url,
    stream: () => socket,
    keepAlive: true,
    application_name: 'cohort listener',
  });
  const close = () => void socket.destroy();
  const ended = new Promise<void>((resolve, reject) => {
    client.on('end', resolve);
    client.on('error', reject);
  });
  client.on('notification', () => wake.call());
  stop.addEventListener('abort', close, { once: true });
  try {
    await client.connect();
    await client.query(listenStatement(ctx.registry.cohortSchema));
    // What was queued before we listened was told to nobody.
    wake.call();
    await ended;
  } finally {
    ended.catch(() => undefined);
    stop.removeEventListener('abort', close);
    close();
  }
}
