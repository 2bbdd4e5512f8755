import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Server, ServerCredentials } from '@grpc/grpc-js';
import type { PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { type GrpcOptions, Transport } from '@nestjs/microservices';
import { HealthImplementation } from 'grpc-health-check';
import type { Settings } from './settings.js';

const PACKAGE = 'datafoundations.retention.v1';
const PROTO = fileURLToPath(new URL('../../../proto/retention.proto', import.meta.url));
const MAX_MESSAGE_BYTES = 256 * 1024;

/** The gRPC side of the application, with the standard health and reflection services beside ours. */
export function grpcOptions(settings: Settings): GrpcOptions {
  return {
    transport: Transport.GRPC,
    options: {
      package: PACKAGE,
      protoPath: PROTO,
      url: `${settings.host}:${settings.grpcPort}`,
      credentials: credentialsOf(settings),
      maxReceiveMessageLength: MAX_MESSAGE_BYTES,
      loader: { longs: Number, enums: String, defaults: true, arrays: true },
      gracefulShutdown: true,
      onLoadPackageDefinition: (definition: PackageDefinition, server: Server) => {
        new ReflectionService(definition).addToServer(server);
        new HealthImplementation({ '': 'SERVING', [`${PACKAGE}.Retention`]: 'SERVING' }).addToServer(server);
      },
    },
  };
}

/** TLS where a certificate is configured; with a client CA, clients must bring a certificate too. */
function credentialsOf({ grpcTlsCert, grpcTlsKey, grpcTlsClientCa }: Settings): ServerCredentials {
  if (!grpcTlsCert || !grpcTlsKey) return ServerCredentials.createInsecure();
  const pair = { cert_chain: readFileSync(grpcTlsCert), private_key: readFileSync(grpcTlsKey) };
  const clientCa = grpcTlsClientCa ? readFileSync(grpcTlsClientCa) : null;
  return ServerCredentials.createSsl(clientCa, [pair], clientCa !== null);
}
