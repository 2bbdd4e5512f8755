import type { IncomingMessage } from 'node:http';
import type { Params } from 'nestjs-pino';
import type { Settings } from '../settings.js';

/** One JSON line a request with its trace id: neither headers, nor bodies, nor queries, which may name people. */
export function logging({ logLevel }: Pick<Settings, 'logLevel'>): Params {
  return {
    pinoHttp: {
      level: logLevel,
      genReqId: (request) => (request as IncomingMessage & { id: string }).id,
      autoLogging: { ignore: ({ url = '' }) => url.startsWith('/health') || url.startsWith('/metrics') },
      quietReqLogger: true,
      customAttributeKeys: { reqId: 'traceId' },
      wrapSerializers: false,
      serializers: {
        req: ({ method, url = '' }: IncomingMessage) => ({ method, path: url.split('?')[0] }),
        res: ({ statusCode }: { statusCode: number }) => ({ statusCode }),
      },
    },
  };
}
