import { runVariables, startTestServer, type TestServer } from './test-server.js';

const servers: TestServer[] = [];

/**
 * Starts a server for the tests; workers learn of it from the environment, which they inherit. `packageName`: of other
 * binaries than those that the environment asks for.
 */
export async function startServer(packageName?: string): Promise<void> {
  const env = packageName === undefined ? process.env : { ...process.env, TEST_POSTGRES_PACKAGE: packageName };
  const server = await startTestServer(env);
  servers.push(server);
  const variables = runVariables(packageName);
  process.env[variables.adminUrl] = server.adminUrl;
  process.env[variables.runId] = server.runId;
}

export async function stopServers(): Promise<void> {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
}
