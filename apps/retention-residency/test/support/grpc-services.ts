import {
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  type makeClientConstructor,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { protoPath } from 'grpc-health-check';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface Services {
  readonly listServicesResponse: { readonly service: { readonly name: string }[] };
}

type Constructor = ReturnType<typeof makeClientConstructor>;

function openHealth(address: string) {
  const loaded = loadPackageDefinition(loadSync(protoPath, { enums: String })) as unknown as {
    grpc: { health: { v1: { Health: Constructor } } };
  };
  return new loaded.grpc.health.v1.Health(address, credentials.createInsecure());
}

/** Follows what the standard health service says of a service, the last word last. */
export function watchHealth(address: string, service: string) {
  const client = openHealth(address);
  const watch = client.watch as unknown as (request: object) => ClientReadableStream<{ status: string }>;
  const stream = watch.call(client, { service });
  const said: string[] = [];
  stream.on('data', ({ status }: { status: string }) => said.push(status));
  stream.on('error', () => undefined);
  const close = () => {
    stream.cancel();
    client.close();
  };
  return { said, close };
}

/** What the standard health service says of a service. */
export async function checkHealth(address: string, service: string): Promise<unknown> {
  const client = openHealth(address);
  try {
    const check = client.check as unknown as (
      request: object,
      done: (error: unknown, answer: { status: unknown }) => void,
    ) => void;
    return await new Promise((resolve, reject) => {
      check.call(client, { service }, (error, answer) => (error ? reject(error as Error) : resolve(answer.status)));
    });
  } finally {
    client.close();
  }
}

/** The standard reflection service. */
export class GrpcReflection {
  constructor(private readonly address: string) {}

  async services(): Promise<string[]> {
    const folder = dirname(createRequire(import.meta.url).resolve('@grpc/reflection/package.json'));
    const proto = join(folder, 'build/proto/grpc/reflection/v1/reflection.proto');
    const loaded = loadPackageDefinition(loadSync(proto)) as unknown as {
      grpc: { reflection: { v1: { ServerReflection: Constructor } } };
    };
    const client = new loaded.grpc.reflection.v1.ServerReflection(this.address, credentials.createInsecure());
    try {
      const open = client.serverReflectionInfo as unknown as () => ClientDuplexStream<object, Services>;
      const stream = open.call(client);
      return await new Promise((resolve, reject) => {
        stream.on('data', (answer: Services) => resolve(answer.listServicesResponse.service.map(({ name }) => name)));
        stream.on('error', reject);
        stream.write({ listServices: '' });
        stream.end();
      });
    } finally {
      client.close();
    }
  }
}
