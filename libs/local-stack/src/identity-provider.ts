import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type Server, createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type Adapter, Provider } from 'oidc-provider';
import { DEVELOPMENT_CLIENTS, type DevelopmentClient } from './development-clients.js';
import { DevelopmentOnlyError, PortInUseError } from './local-stack.errors.js';

/** Of every development client. */
export const DEVELOPMENT_SECRET = 'dev-secret';

const TOKEN_SECONDS = 3600;
const SCOPES = 'factory.data.read factory.data.admin factory.data.acknowledge';

/** Options of startIdentityProvider. */
export interface IdentityProviderOptions {
  /** TCP port on 127.0.0.1. Default: a free one. */
  port?: number;
  /** Audience of the tokens. */
  audience: string;
}

/** A running issuer. */
export interface IdentityProvider {
  /** As tokens name it, such as http://127.0.0.1:3001. */
  issuer: string;
  stop(): Promise<void>;
}

/**
 * Starts a real OpenID provider (oidc-provider) that gives the development clients their tokens: `POST /token` with the grant
 * client_credentials, by basic authentication or in the body; no `scope` means all that the client has. Its keys are made
 * anew at each start. Throws DevelopmentOnlyError with NODE_ENV=production, and PortInUseError.
 */
export async function startIdentityProvider({
  port = 0,
  audience,
}: IdentityProviderOptions): Promise<IdentityProvider> {
  if (process.env.NODE_ENV === 'production') throw new DevelopmentOnlyError('the identity provider');
  const server = await listen(port);
  const address = server.address() as { port: number };
  const issuer = `http://127.0.0.1:${address.port}`;
  const handle = providerFor(issuer, audience).callback();
  server.on('request', (request, response) => {
    completeTokenRequest(request).then(
      (completed) => handle(completed, response),
      () => response.writeHead(400).end(),
    );
  });
  return {
    issuer,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };
}

async function listen(port: number): Promise<Server> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') throw new PortInUseError(port);
    throw error;
  }
  return server;
}

function providerFor(issuer: string, audience: string): Provider {
  const provider = new Provider(issuer, {
    adapter: Forgetful,
    clients: DEVELOPMENT_CLIENTS.map(({ clientId, scopes }) => ({
      client_id: clientId,
      client_secret: DEVELOPMENT_SECRET,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
      scope: scopes.join(' '),
    })),
    scopes: SCOPES.split(' '),
    jwks: { keys: [signingKey()] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => `urn:${audience}`,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: SCOPES,
          audience,
          accessTokenTTL: TOKEN_SECONDS,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    extraTokenClaims: (_context, token) => claimsOf(token.clientId),
    ttl: { ClientCredentials: TOKEN_SECONDS },
  });
  provider.on('server_error', (_context, error) => process.emitWarning(error));
  return provider;
}

/** Tokens are JWTs, which nobody looks up. */
class Forgetful implements Adapter {
  async upsert(): Promise<void> {}
  async find(): Promise<undefined> {}
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<void> {}
  async destroy(): Promise<void> {}
  async revokeByGrantId(): Promise<void> {}
}

function claimsOf(clientId: string | undefined): Record<string, unknown> {
  const client = DEVELOPMENT_CLIENTS.find((each) => each.clientId === clientId);
  const { tenantId, roles = [] } = client ?? {};
  return { ...(tenantId && { tenantId }), ...(roles.length > 0 && { roles }) };
}

function signingKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' } as { kty: 'RSA'; e: string; n: string };
}

/** Fills in what a developer left out: the scope, and credentials in the body instead of the header. */
async function completeTokenRequest(request: IncomingMessage): Promise<IncomingMessage> {
  if (request.method !== 'POST' || request.url !== '/token') return request;
  const form = new URLSearchParams(await text(request));
  const headers = { ...request.headers };
  const clientId = form.get('client_id');
  const secret = form.get('client_secret');
  if (!headers.authorization && clientId && secret) {
    const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(secret)}`;
    headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`;
    form.delete('client_id');
    form.delete('client_secret');
  }
  if (!form.has('scope')) {
    const client = clientOf(headers.authorization);
    if (client) form.set('scope', client.scopes.join(' '));
  }
  const body = Buffer.from(form.toString());
  headers['content-length'] = String(body.length);
  const { method, url, socket, httpVersion } = request;
  return Object.assign(Readable.from([body]), {
    method,
    url,
    socket,
    httpVersion,
    headers,
  }) as unknown as IncomingMessage;
}

function clientOf(authorization = ''): DevelopmentClient | undefined {
  const [, encoded = ''] = authorization.split(' ');
  const [clientId = ''] = Buffer.from(encoded, 'base64').toString('utf8').split(':');
  return DEVELOPMENT_CLIENTS.find((client) => client.clientId === decodeURIComponent(clientId));
}
