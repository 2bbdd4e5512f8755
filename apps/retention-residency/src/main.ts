import 'reflect-metadata';
import { StoppedError, fail, stopSignal, untilStopped } from 'local-stack';
import { createApp, listen } from './create-app.js';
import { openDevelopmentStack } from './development/development-stack.js';
import { migrate } from './platform/migrate.js';
import { type Settings, readSettings } from './settings.js';

/** `npm start`: the governance service, with stand-ins for what the environment does not name, until it is told to stop. */
async function start(environment: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  const stack = await openDevelopmentStack(environment);
  try {
    signal.throwIfAborted();
    const settings = readSettings(stack.env);
    if (settings.migrationDatabaseUrl) {
      for (const name of await migrate(settings.migrationDatabaseUrl)) console.log(`Applied migration ${name}.`);
    }
    const app = await createApp(settings);
    try {
      await listen(app, settings);
      console.log(welcome(settings, stack.places));
      await untilStopped(signal);
    } finally {
      await app.close();
    }
  } finally {
    await stack.close();
  }
}

function welcome({ host, port, grpcPort, oidcIssuer, isProduction }: Settings, places: readonly string[]): string {
  const lines = [
    `The governance service is running.`,
    `REST           http://${host}:${port} (documentation at /docs)`,
    `gRPC           ${host}:${grpcPort} (datafoundations.retention.v1.Retention)`,
    ...places,
  ];
  if (isProduction) return lines.join('\n');
  const form = '-d grant_type=client_credentials -d client_id=acme-admin -d client_secret=dev-secret';
  return [...lines, 'A token:', `curl -s ${form} ${oidcIssuer}/token`, 'Ctrl-C stops all of it.'].join('\n');
}

try {
  await start(process.env, stopSignal());
} catch (error) {
  if (!(error instanceof StoppedError)) fail(error);
}
