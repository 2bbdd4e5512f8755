import { type ChannelCredentials, Metadata, type ServiceError, credentials } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { retentionClient } from '../../src/retention-proto.js';

export interface GrpcAnswer {
  readonly code: number;
  /** Of ErrorInfo; undefined where there is none. */
  readonly reason: string | undefined;
  readonly details: string;
  readonly message: Readonly<Record<string, unknown>>;
}

const { root } = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; }
`);

function reasonOf(error: ServiceError): string | undefined {
  const [details] = error.metadata.get('grpc-status-details-bin');
  if (!Buffer.isBuffer(details)) return undefined;
  const status = root.lookupType('Status').decode(details) as unknown as { details: { value: Uint8Array }[] };
  const info = root.lookupType('ErrorInfo').decode(status.details[0]!.value);
  return (info as unknown as { reason: string }).reason;
}

/** A client of the service's gRPC side. */
export function openGrpc(address: string, channel: ChannelCredentials = credentials.createInsecure()) {
  const client = new (retentionClient())(address, channel);
  const call = (method: string, request: object, headers: Record<string, string> = {}): Promise<GrpcAnswer> => {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    return new Promise((resolve) => {
      const done = (error: ServiceError | null, message: Record<string, unknown> = {}) =>
        resolve({
          code: error?.code ?? 0,
          reason: error ? reasonOf(error) : undefined,
          details: error?.details ?? '',
          message,
        });
      const bound = client[method] as unknown as (...args: unknown[]) => void;
      bound.call(client, request, metadata, { deadline: Date.now() + 10_000 }, done);
    });
  };
  const withToken = (token: string | undefined): Record<string, string> =>
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  return {
    call,
    evaluate: (request: object, token?: string, headers: Record<string, string> = {}) =>
      call('EvaluateResidency', request, { ...withToken(token), ...headers }),
    evaluateBatch: (candidates: object[], token?: string) =>
      call('EvaluateResidencyBatch', { candidates }, withToken(token)),
    close: () => client.close(),
  };
}
