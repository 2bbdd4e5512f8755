import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Server, ServerCredentials } from '@grpc/grpc-js';
import type { PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import type { BeforeApplicationShutdown } from '@nestjs/common';
import { type GrpcOptions, Transport } from '@nestjs/microservices';
import { HealthImplementation } from 'grpc-health-check';
import { RETENTION_PROTO } from './retention-proto.js';
import type { Settings } from './settings.js';

const SERVICE = `${RETENTION_PROTO.package}.Retention`;
const MAX_MESSAGE_BYTES = 256 * 1024;
/** Calls that are under way may end; a stream that watches health, or a body that never ends, would go on for ever. */
export const DRAIN_MS = 5000;

/** The gRPC side of the application, with the standard health and reflection services beside ours. */
export class GrpcSide implements BeforeApplicationShutdown {
  private readonly health = new HealthImplementation({ '': 'SERVING', [SERVICE]: 'SERVING' });
  private server: Server | undefined;

  constructor(private readonly settings: Settings) {}

  options(): GrpcOptions {
    const { host, grpcPort } = this.settings;
    return {
      transport: Transport.GRPC,
      options: {
        package: RETENTION_PROTO.package,
        protoPath: RETENTION_PROTO.path,
        url: `${host}:${grpcPort}`,
        credentials: credentialsOf(this.settings),
        maxReceiveMessageLength: MAX_MESSAGE_BYTES,
        loader: RETENTION_PROTO.loader,
        onLoadPackageDefinition: (definition: PackageDefinition, server: Server) => {
          new ReflectionService(definition).addToServer(server);
          this.health.addToServer(server);
          this.server = server;
        },
      },
    };
  }

  async beforeApplicationShutdown(): Promise<void> {
    const { server } = this;
    if (!server) return;
    for (const service of ['', SERVICE]) this.health.setStatus(service, 'NOT_SERVING');
    const drained = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
    await Promise.race([drained, delay(DRAIN_MS, undefined, { ref: false })]);
    server.forceShutdown();
  }
}

/** TLS where a certificate is configured; with a client CA, clients must bring a certificate too. */
function credentialsOf({ grpcTlsCert, grpcTlsKey, grpcTlsClientCa }: Settings): ServerCredentials {
  if (!grpcTlsCert || !grpcTlsKey) return ServerCredentials.createInsecure();
  const pair = { cert_chain: readFileSync(grpcTlsCert), private_key: readFileSync(grpcTlsKey) };
  const clientCa = grpcTlsClientCa ? readFileSync(grpcTlsClientCa) : null;
  return ServerCredentials.createSsl(clientCa, [pair], clientCa !== null);
}
