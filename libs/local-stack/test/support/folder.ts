import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new folder that every account may enter. */
export function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'local-stack-test-'));
  chmodSync(folder, 0o755);
  return folder;
}
