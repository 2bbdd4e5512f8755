import { ADMIN_URL_VARIABLE, RUN_VARIABLE, startTestServer, type TestServer } from './test-server.js';

let server: TestServer | undefined;

/** Starts the run's server; workers learn of it from the environment, which they inherit. */
export default async function startServerOfRun(): Promise<void> {
  server = await startTestServer();
  process.env[ADMIN_URL_VARIABLE] = server.adminUrl;
  process.env[RUN_VARIABLE] = server.runId;
}

export function serverOfRun(): TestServer | undefined {
  return server;
}
