export { recordStoreMigrations } from './record-store/migrations.js';
