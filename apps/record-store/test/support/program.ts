import { join } from 'node:path';
import { type Ended, type Program, startProgram as start } from 'local-stack/testing';

export type ProgramName = 'demo' | 'main';

export function programPath(name: ProgramName): string {
  return join(import.meta.dirname, '../../dist', `${name}.js`);
}

export function startProgram(name: ProgramName, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Program {
  return start(programPath(name), args, env);
}

export function runProgram(name: ProgramName, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return startProgram(name, args, env).ended;
}
