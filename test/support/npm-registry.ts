import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * Why nothing can be installed here: the code of npm's error when it asks for a package that is there for sure. Undefined
 * where the registry answers, and where CI is set: what CI leaves out, nobody would ever run.
 */
export async function whyNoRegistry(env: NodeJS.ProcessEnv = process.env): Promise<string | undefined> {
  if (env.CI) return undefined;
  const ask = [
    'view',
    'typescript',
    'version',
    '--json',
    '--prefer-online',
    '--fetch-retries=0',
    '--fetch-timeout=10000',
  ];
  try {
    await promisify(execFile)('npm', ask, { env });
    return undefined;
  } catch (error) {
    const { stdout = '', code } = error as { stdout?: string; code?: unknown };
    return /"code": "(\w+)"/.exec(stdout)?.[1] ?? String(code);
  }
}
