import { CreateCohortTables } from './create-cohort-tables.js';
import { CreateRecordShop } from './create-record-shop.js';

/** Migrations of the record store, oldest first. Append only: a name or a statement that was released never changes. */
export const recordStoreMigrations = [
  { name: '0001-create-record-shop', class: CreateRecordShop },
  { name: '0002-create-cohort-tables', class: CreateCohortTables },
];
