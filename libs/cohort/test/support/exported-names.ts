import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const packageFile = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));

/** The committed list of the public names, a line each. */
export const EXPORTS_FILE = packageFile('exports.txt');

/** What nestjs-cohort exports now: `class X`, `function X`, `const X` or `type X`, by name; a const with its type is two lines. */
export function exportedNames(): string[] {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail };
  const project = ts.getParsedCommandLineOfConfigFile(packageFile('tsconfig.json'), undefined, host);
  const program = ts.createProgram([packageFile('src/index.ts')], project!.options);
  const checker = program.getTypeChecker();
  const door = checker.getSymbolAtLocation(program.getSourceFile(packageFile('src/index.ts'))!)!;
  return checker
    .getExportsOfModule(door)
    .flatMap((symbol) =>
      kindsOf(resolve(checker, symbol)).map((kind) => ({ name: symbol.name, line: `${kind} ${symbol.name}` })),
    )
    .sort((a, b) => compare(a.name, b.name) || compare(a.line, b.line))
    .map(({ line }) => line);
}

function resolve(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function kindsOf({ flags, name }: ts.Symbol): string[] {
  if (flags & ts.SymbolFlags.Class) return ['class'];
  const kinds = [
    ...(flags & ts.SymbolFlags.Function ? ['function'] : []),
    ...(flags & ts.SymbolFlags.Variable ? ['const'] : []),
    ...(flags & ts.SymbolFlags.Type ? ['type'] : []),
  ];
  if (kinds.length === 0)
    throw new Error(`src/index.ts exports "${name}", which leads to no class, function, const or type`);
  return kinds;
}

/** Not by locale: the file must be the same on every machine. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function fail(problem: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(problem.messageText, '\n'));
}

// `npm run exports:update`
if (import.meta.main) writeFileSync(EXPORTS_FILE, `${exportedNames().join('\n')}\n`);
