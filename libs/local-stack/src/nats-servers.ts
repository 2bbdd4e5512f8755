import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findFreePort } from './free-port.js';

const BINARY = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  .map((folder) => join(folder, 'nats-server'))
  .find((path) => existsSync(path));

/** Why tests that want one skip; undefined: they run. With CI=true a missing server is a failure. */
export const NATS_MISSING =
  BINARY === undefined && process.env.CI !== 'true' ? 'nats-server is not installed' : undefined;

export interface NatsNode {
  readonly url: string;
  start(): Promise<void>;
  /** As kill -9 does. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** Servers with JetStream on loopback: one, or several that are a cluster. What they store is removed at `stop`. */
export async function openNats(size = 1): Promise<NatsNode[]> {
  if (BINARY === undefined) throw new Error('nats-server is not installed: apt-get install nats-server');
  const ports = await Promise.all(
    Array.from({ length: size }, async () => [await findFreePort(), await findFreePort()]),
  );
  const routes = ports.map(([, cluster]) => `nats-route://127.0.0.1:${cluster}`).join(',');
  return Promise.all(
    ports.map(async ([port, cluster], index) => {
      const store = await mkdtemp(join(tmpdir(), 'nats-'));
      const clustered = ['--cluster_name', 'test', '--cluster', `nats://127.0.0.1:${cluster}`, '--routes', routes];
      const args = ['-js', '-a', '127.0.0.1', '-p', String(port), '-sd', store, '-n', `n${index}`];
      let child: ChildProcess | undefined;
      const end = async (signal: NodeJS.Signals) => {
        if (!child || child.exitCode !== null || child.signalCode !== null) return;
        child.kill(signal);
        await once(child, 'exit');
      };
      return {
        url: `nats://127.0.0.1:${port}`,
        start: async () => {
          child = spawn(BINARY, size > 1 ? [...args, ...clustered] : args, { stdio: 'ignore' });
          while (!(await isOpen(port!))) {
            if (child.exitCode !== null) throw new Error(`${BINARY} ended with ${child.exitCode} before it listened.`);
            await delay(5);
          }
        },
        kill: () => end('SIGKILL'),
        stop: async () => {
          await end('SIGTERM');
          await rm(store, { recursive: true, force: true });
        },
      };
    }),
  );
}

async function isOpen(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
