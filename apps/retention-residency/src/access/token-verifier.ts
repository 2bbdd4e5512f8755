import { Inject, Injectable } from '@nestjs/common';
import { type JWTPayload, type JWTVerifyGetKey, createRemoteJWKSet, errors, jwtVerify } from 'jose';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { Problem } from '../problem.js';
import { Settings } from '../settings.js';
import { type Principal, ROLES, isTenantId } from './principal.js';

/** Asymmetric ones alone: with a shared secret whoever verifies could sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
const SKEW_SECONDS = 60;
const MAX_TOKEN_LENGTH = 8192;
/** A verified token is not verified again for so long. */
const REMEMBERED_MS = 60_000;
const REMEMBERED_TOKENS = 10_000;
const ISSUER_TIMEOUT_MS = 5000;
/** After a failed discovery, before the next one. */
const DISCOVERY_PAUSE_MS = 1000;

interface Remembered {
  readonly principal: Principal;
  readonly until: number;
}

/** Verifies access tokens (JWT, RFC 9068) of the configured issuer, whose keys are found by discovery and fetched when needed. */
@Injectable()
export class TokenVerifier {
  private readonly remembered = new Map<string, Remembered>();
  private keys: JWTVerifyGetKey | undefined;
  private discovering: Promise<JWTVerifyGetKey> | undefined;
  private discoveryFailedAt = Number.NEGATIVE_INFINITY;

  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'oidcIssuer' | 'oidcAudience'>,
    private readonly timeAndIds: TimeAndIds,
  ) {}

  /** The principal of a token that was verified within the last minute, without waiting. */
  recall(token: string): Principal | undefined {
    const found = this.remembered.get(token);
    if (!found) return undefined;
    if (found.until > this.timeAndIds.now().getTime()) return found.principal;
    this.remembered.delete(token);
    return undefined;
  }

  /** Throws `unauthorized`, or `dependency-unavailable` while the issuer cannot be reached or has no keys that can be used. */
  async verify(token: string): Promise<Principal> {
    const known = this.recall(token);
    if (known) return known;
    if (token.length > MAX_TOKEN_LENGTH) throw unauthorized('The token is too long.');
    const claims = await this.claimsOf(token);
    const principal = principalOf(claims);
    this.remember(token, principal, claims.exp as number);
    return principal;
  }

  private async claimsOf(token: string): Promise<JWTPayload> {
    try {
      const { payload } = await jwtVerify(token, await this.keySet(), {
        issuer: this.settings.oidcIssuer,
        audience: this.settings.oidcAudience,
        algorithms: ALGORITHMS,
        typ: 'at+jwt',
        clockTolerance: SKEW_SECONDS,
        requiredClaims: ['exp', 'iss', 'aud', 'client_id'],
        currentDate: this.timeAndIds.now(),
      });
      return payload;
    } catch (error) {
      if (error instanceof Problem) throw error;
      // The key is none that this algorithm can be verified with.
      if (error instanceof TypeError) throw issuerUnavailable(error);
      throw unauthorized(reasonOf(error), error);
    }
  }

  private async keySet(): Promise<JWTVerifyGetKey> {
    if (this.keys) return this.keys;
    const now = this.timeAndIds.now().getTime();
    if (now - this.discoveryFailedAt < DISCOVERY_PAUSE_MS) throw issuerUnavailable();
    this.discovering ??= this.discover().finally(() => {
      this.discovering = undefined;
    });
    this.keys = await this.discovering;
    return this.keys;
  }

  private async discover(): Promise<JWTVerifyGetKey> {
    const { oidcIssuer } = this.settings;
    const url = `${oidcIssuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(ISSUER_TIMEOUT_MS), redirect: 'error' });
      if (!answer.ok) throw new Error(`discovery was answered with ${answer.status}`);
      const { issuer, jwks_uri: keysUrl } = (await answer.json()) as { issuer?: unknown; jwks_uri?: unknown };
      if (issuer !== oidcIssuer) throw new Error('discovery names another issuer');
      return issuersFaultsApart(createRemoteJWKSet(new URL(String(keysUrl)), { timeoutDuration: ISSUER_TIMEOUT_MS }));
    } catch (error) {
      this.discoveryFailedAt = this.timeAndIds.now().getTime();
      throw issuerUnavailable(error);
    }
  }

  private remember(token: string, principal: Principal, expiresAt: number): void {
    const oldest = this.remembered.keys().next();
    if (this.remembered.size >= REMEMBERED_TOKENS && !oldest.done) this.remembered.delete(oldest.value);
    const until = Math.min(this.timeAndIds.now().getTime() + REMEMBERED_MS, (expiresAt + SKEW_SECONDS) * 1000);
    this.remembered.set(token, { principal, until });
  }
}

function principalOf(claims: JWTPayload): Principal {
  const { client_id: clientId, tenantId = null, roles = [], scope = '' } = claims;
  if (typeof clientId !== 'string' || clientId === '') throw unauthorized('The claim client_id is no text.');
  if (tenantId !== null && (typeof tenantId !== 'string' || !isTenantId(tenantId))) {
    throw unauthorized('The claim tenantId is no tenant id.');
  }
  const named: unknown[] = Array.isArray(roles) ? roles : [roles];
  return {
    clientId,
    tenantId,
    roles: ROLES.filter((role) => named.includes(role)),
    isService: named.length === 0 && tenantId === null,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
  };
}

function unauthorized(detail: string, cause?: unknown): Problem {
  return new Problem('unauthorized', detail, { cause });
}

function issuerUnavailable(cause?: unknown): Problem {
  const detail = 'The issuer of access tokens cannot be reached, or has no keys that can be used.';
  return new Problem('dependency-unavailable', detail, { retryAfterSeconds: 5, cause });
}

/** Of what may go wrong with keys, the token is to blame for naming none of them; all else is the issuer's fault. */
function issuersFaultsApart(keys: JWTVerifyGetKey): JWTVerifyGetKey {
  return async (header, token) => {
    try {
      return await keys(header, token);
    } catch (error) {
      const isOfToken = error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      throw isOfToken ? error : issuerUnavailable(error);
    }
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'The token has expired.';
  if (error instanceof errors.JWTClaimValidationFailed) return `The claim ${error.claim} of the token is not accepted.`;
  if (error instanceof errors.JOSEAlgNotAllowed) return 'The algorithm of the token is not accepted.';
  if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey) {
    return 'The signature of the token is not of the issuer.';
  }
  return 'The token is no access token in JWT format.';
}
