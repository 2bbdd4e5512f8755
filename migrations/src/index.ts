export { recordStoreMigrations } from './record-store/migrations.js';
export { retentionResidencyMigrations } from './retention-residency/migrations.js';
