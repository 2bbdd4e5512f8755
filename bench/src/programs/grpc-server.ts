import 'reflect-metadata';
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js';
import { createApp, listen } from 'retention-residency/create-app';
import { retentionClient } from 'retention-residency/retention-proto';
import { readSettings } from 'retention-residency/settings';

/** One of the two servers, in a process of its own; it tells its parent where it listens, and ends with it. */
async function governance(): Promise<object> {
  const settings = readSettings(process.env);
  const app = await createApp(settings);
  return { rest: await listen(app, settings), grpc: `${settings.host}:${settings.grpcPort}` };
}

/** Answers every call with the same decision, and looks at nothing. */
async function echo(): Promise<object> {
  const evaluatedAt = { seconds: Math.floor(Date.now() / 1000), nanos: 0 };
  const decision = {
    decisionId: '00000000-0000-4000-8000-000000000000',
    allowed: true,
    reasons: [],
    ruleVersion: 1,
    evaluatedAt,
    ttlSeconds: 30,
  };
  const server = new Server();
  server.addService(retentionClient().service, {
    EvaluateResidency: (_: unknown, answer: sendUnaryData<object>) => answer(null, decision),
    EvaluateResidencyBatch: (_: unknown, answer: sendUnaryData<object>) => answer(null, { results: [decision] }),
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return { grpc: `127.0.0.1:${port}` };
}

process.once('disconnect', () => process.exit());
process.send!(await (process.argv[2] === 'echo' ? echo() : governance()));
