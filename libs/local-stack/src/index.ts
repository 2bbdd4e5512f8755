export { startEmbeddedPostgres, type EmbeddedPostgres, type EmbeddedPostgresOptions } from './embedded-postgres.js';
export { DEVELOPMENT_CLIENTS, type DevelopmentClient } from './development-clients.js';
export {
  DEVELOPMENT_SECRET,
  startIdentityProvider,
  type IdentityProvider,
  type IdentityProviderOptions,
} from './identity-provider.js';
export {
  DataFolderInUseError,
  DevelopmentOnlyError,
  PortInUseError,
  PostgresBinariesMissingError,
  PostgresStartError,
} from './local-stack.errors.js';
export { fail } from './fail.js';
export { StoppedError, stopSignal, untilStopped } from './stop-signal.js';
export { findPostgresBinaries, type FindPostgresBinariesOptions, type PostgresBinaries } from './postgres-binaries.js';
