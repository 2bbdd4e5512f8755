export { startEmbeddedPostgres, type EmbeddedPostgres, type EmbeddedPostgresOptions } from './embedded-postgres.js';
export {
  DataFolderInUseError,
  PortInUseError,
  PostgresBinariesMissingError,
  PostgresStartError,
} from './local-stack.errors.js';
export { findPostgresBinaries, type FindPostgresBinariesOptions, type PostgresBinaries } from './postgres-binaries.js';
