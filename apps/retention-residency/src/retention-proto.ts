import { fileURLToPath } from 'node:url';
import { loadPackageDefinition, type makeClientConstructor } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** The messages of the service and how they are read, for the server and for clients of it. */
export const RETENTION_PROTO = {
  path: fileURLToPath(new URL('../../../proto/retention.proto', import.meta.url)),
  package: 'datafoundations.retention.v1',
  loader: { longs: Number, enums: String, defaults: true, arrays: true },
};

/** What makes clients, and names the methods to a server. */
export function retentionClient(): ReturnType<typeof makeClientConstructor> {
  const definition = loadSync(RETENTION_PROTO.path, RETENTION_PROTO.loader);
  const { datafoundations } = loadPackageDefinition(definition) as unknown as {
    datafoundations: { retention: { v1: { Retention: ReturnType<typeof makeClientConstructor> } } };
  };
  return datafoundations.retention.v1.Retention;
}
