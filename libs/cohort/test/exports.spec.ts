import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { EXPORTS_FILE, exportedNames } from './support/exported-names.js';

// acceptance 87
it('exports the names that exports.txt lists; a change meant so: npm run exports:update, and commit the file', () => {
  const committed = readFileSync(EXPORTS_FILE, 'utf8').trimEnd().split('\n');
  expect(exportedNames()).toEqual(committed);
});
