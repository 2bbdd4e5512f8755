import { CreateGovernanceTables } from './create-governance-tables.js';

/** Migrations of the governance service, oldest first. Append only: a name or a statement that was released never changes. */
export const retentionResidencyMigrations = [{ name: '0001-create-governance-tables', class: CreateGovernanceTables }];
