import type { IncomingMessage } from 'node:http';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { SwaggerModule } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Logger } from 'nestjs-pino';
import { AppModule } from './app.module.js';
import { DRAIN_MS, GrpcSide } from './grpc.js';
import { openApiOf } from './open-api.js';
import { Database } from './platform/database.js';
import { refuseDeep } from './platform/json-depth.js';
import { TimeAndIds } from './platform/time-and-ids.js';
import { traceIdOf } from './platform/trace.js';
import { seedPlatformRules } from './rules/seed-platform-rules.js';
import type { Settings } from './settings.js';

const BODY_LIMIT_BYTES = 64 * 1024;
/** For a request to arrive whole. */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Makes the application on a migrated database and seeds platform rules. It listens nowhere yet: `listen` does.
 * Throws what Database.open throws. Close it when done.
 */
export async function createApp(settings: Settings, timeAndIds = new TimeAndIds()): Promise<NestFastifyApplication> {
  const database = await Database.open({
    urls: { app: settings.databaseUrl, platform: settings.platformDatabaseUrl },
    pool: settings.databasePool,
  });
  try {
    const differences = await seedPlatformRules(database, settings.platformDefaults, timeAndIds);
    const adapter = new FastifyAdapter({
      bodyLimit: BODY_LIMIT_BYTES,
      requestTimeout: REQUEST_TIMEOUT_MS,
      genReqId: ({ headers }: IncomingMessage) => traceIdOf(headers.traceparent, () => timeAndIds.newId()),
    });
    const fastify = adapter.getInstance();
    fastify.addHook('preValidation', async ({ body }: FastifyRequest) => refuseDeep(body));
    // A server that closes watches over requestTimeout no more, and would wait for a body that never ends.
    fastify.addHook(
      'preClose',
      async () => void setTimeout(() => fastify.server.closeAllConnections(), DRAIN_MS).unref(),
    );
    // JSON alone is read.
    fastify.removeContentTypeParser('text/plain');
    const grpc = new GrpcSide(settings);
    const module = AppModule.of({ settings, database, grpc, timeAndIds });
    const app = await NestFactory.create<NestFastifyApplication>(module, adapter, {
      bufferLogs: true,
      bodyParser: false,
      abortOnError: false,
    });
    const logger = app.get(Logger);
    app.useLogger(logger);
    for (const { storeClass, classification, stored, configured } of differences) {
      // Somebody configured days that do nothing.
      logger.warn(
        `The stored rule for ${storeClass}, ${classification} is ${stored} days and stays; configured are ${configured}.`,
      );
    }
    app.connectMicroservice(grpc.options(), { inheritAppConfig: true });
    SwaggerModule.setup('docs', app, openApiOf(app));
    app.enableShutdownHooks();
    return app;
  } catch (error) {
    await database.onApplicationShutdown();
    throw error;
  }
}

/** Serves gRPC, then REST, so that readiness on REST speaks for both. Returns the url of REST. Throws ListenError. */
export async function listen(app: NestFastifyApplication, { host, port, grpcPort }: Settings): Promise<string> {
  await app.init();
  await app.startAllMicroservices().catch((error: unknown) => {
    throw new ListenError('gRPC', `${host}:${grpcPort}`, error);
  });
  // Fastify's own: the promise of Nest's `listen` never settles when the port is taken.
  const fastify = app.getHttpAdapter().getInstance();
  return fastify.listen({ host, port }).catch((error: unknown) => {
    throw new ListenError('REST', `${host}:${port}`, error);
  });
}

/** An address cannot be listened on. */
class ListenError extends Error {
  readonly code = 'listen';

  constructor(side: string, address: string, cause: unknown) {
    const why = /EADDRINUSE|address already in use|No address added/.test((cause as Error).message)
      ? 'it is taken. Free it, or name another one'
      : (cause as Error).message;
    super(`${side} cannot listen on ${address}: ${why}.`, { cause });
    this.name = 'ListenError';
  }
}
