import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Every spec of the repository, by its path from the root, with its text. */
export function specFiles(): { readonly spec: string; readonly text: string }[] {
  return globSync('{libs,apps,migrations,bench,test}/**/*.spec.ts', {
    cwd: ROOT,
    exclude: (name) => /node_modules|dist/.test(name),
  })
    .sort()
    .map((spec) => ({ spec, text: readFileSync(ROOT + spec, 'utf8') }));
}
