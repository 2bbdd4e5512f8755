import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { type CryptoKey, type JWK, SignJWT, exportJWK, generateKeyPair } from 'jose';
import { findFreePort } from 'local-stack/testing';

interface Key {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

async function newKey(): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const kid = randomUUID();
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: 'RS256', use: 'sig' } };
}

/** An issuer that signs whatever a test wants, and that may be down. */
export async function openIssuer() {
  const port = await findFreePort();
  const issuer = `http://127.0.0.1:${port}`;
  let keys = [await newKey()];
  let server: Server | undefined;
  let fetches = 0;
  let spoiled: ((keys: readonly JWK[]) => unknown) | undefined;
  let gate = Promise.resolve();
  let onAsked: () => void = () => undefined;
  const sign = (claims: Record<string, unknown>, header: Record<string, unknown> = {}, key = keys[0] as Key) => {
    const now = Math.floor(Date.now() / 1000);
    const usual = { iss: issuer, aud: 'retention-residency', sub: 'test', client_id: 'test', iat: now, exp: now + 600 };
    const all = Object.entries({ ...usual, ...claims }).filter(([, value]) => value !== undefined);
    return new SignJWT(Object.fromEntries(all))
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: key.kid, ...header })
      .sign(key.privateKey);
  };
  const answer = ({ url }: IncomingMessage, response: ServerResponse) => {
    response.setHeader('content-type', 'application/json');
    if (url === '/.well-known/openid-configuration') {
      response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks` }));
    } else {
      fetches++;
      const jwks = keys.map(({ jwk }) => jwk);
      response.end(JSON.stringify(spoiled ? spoiled(jwks) : { keys: jwks }));
    }
  };
  return {
    issuer,
    sign,
    token: (client: string) => sign({ client_id: client }),
    strangersKey: newKey,
    get fetches() {
      return fetches;
    },
    async rotate() {
      keys = [await newKey()];
    },
    /** From now on it answers this where its keys are asked for. */
    spoil(answer: typeof spoiled) {
      spoiled = answer;
    },
    /** Answers nobody until `release`; `asked` settles with the first who waits. */
    hold() {
      const held = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      gate = held.promise;
      onAsked = asked.resolve;
      return { asked: asked.promise, release: held.resolve };
    },
    async start() {
      server = createServer((request, response) => {
        onAsked();
        void gate.then(() => answer(request, response));
      });
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    async stop() {
      server?.closeAllConnections();
      server?.close();
      server = undefined;
    },
  };
}
