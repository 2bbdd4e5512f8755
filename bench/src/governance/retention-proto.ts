import { fileURLToPath } from 'node:url';
import { type makeClientConstructor, loadPackageDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const PROTO = fileURLToPath(new URL('../../../proto/retention.proto', import.meta.url));

/** The service's own messages, read as the service reads them. */
export function retentionClient(): ReturnType<typeof makeClientConstructor> {
  const definition = loadSync(PROTO, { longs: Number, enums: String, defaults: true, arrays: true });
  const { datafoundations } = loadPackageDefinition(definition) as unknown as {
    datafoundations: { retention: { v1: { Retention: ReturnType<typeof makeClientConstructor> } } };
  };
  return datafoundations.retention.v1.Retention;
}
