import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { PostgresStartError } from './local-stack.errors.js';

const run = promisify(execFile);

/** The account that runs the server's programs. Empty: this process's own. */
export interface ServerAccount {
  uid?: number;
  gid?: number;
  /** It cannot reach the programs or the data by itself, because they lie in a folder that only root may enter. */
  needsPassage?: boolean;
}

/** A program and how to spawn it under an account. */
export interface AccountCommand {
  file: string;
  args: string[];
  options: { uid?: number; gid?: number };
}

/**
 * PostgreSQL refuses to run as root: root runs it as the owner of the cluster, or as `postgres`, which is created when
 * missing, for a new one. Throws PostgresStartError when there is no such account or it cannot reach the data or the program.
 */
export async function serverAccount(dataDir: string, pgdata: string, program: string): Promise<ServerAccount> {
  if (process.getuid?.() !== 0) return {};
  const owner = await stat(pgdata).catch(() => undefined);
  const account = owner ? { uid: owner.uid, gid: owner.gid } : ((await lookUpAccount()) ?? (await createAccount()));
  if (!account) {
    const reason = 'root cannot run PostgreSQL, and the account "postgres" is missing and could not be created';
    throw new PostgresStartError(dataDir, reason, '');
  }
  for (const candidate of [account, { ...account, needsPassage: true }]) {
    if (await canReach(candidate, [dataDir, program])) return candidate;
  }
  const reason = `the account with uid ${account.uid} cannot enter the folder of the data or of ${program}`;
  throw new PostgresStartError(
    dataDir,
    reason,
    'Move them out of folders that only root may enter, or do not run as root.',
  );
}

/** Root may enter every folder; `needsPassage` hands just that on, so a checkout below /root works too. */
export function commandAs(account: ServerAccount, file: string, args: string[]): AccountCommand {
  const { uid, gid, needsPassage } = account;
  if (!needsPassage) return { file, args, options: { uid, gid } };
  const passage = ['--inh-caps=-all,+dac_override', '--ambient-caps=+dac_override', '--securebits=+no_setuid_fixup'];
  const asAccount = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...passage];
  return { file: 'setpriv', args: [...asAccount, file, ...args], options: {} };
}

async function canReach(account: ServerAccount, paths: string[]): Promise<boolean> {
  for (const path of paths) {
    const { file, args, options } = commandAs(account, 'test', ['-x', path]);
    const isReachable = await run(file, args, { ...options, cwd: '/' }).then(
      () => true,
      () => false,
    );
    if (!isReachable) return false;
  }
  return true;
}

async function lookUpAccount(): Promise<{ uid: number; gid: number } | undefined> {
  const ids = Promise.all([run('id', ['-u', 'postgres']), run('id', ['-g', 'postgres'])]);
  return ids.then(([uid, gid]) => ({ uid: Number(uid.stdout), gid: Number(gid.stdout) })).catch(() => undefined);
}

async function createAccount(): Promise<{ uid: number; gid: number } | undefined> {
  // Looked up again whatever came of it: a start in another process may have created it meanwhile.
  await run('useradd', ['--system', '--user-group', '--no-create-home', 'postgres']).catch(() => undefined);
  return lookUpAccount();
}
