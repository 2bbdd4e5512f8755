import ts from 'typescript';

export const SCENARIOS = 462;
export const NUMBERS = /\d+(?:-\d+)?(?:, ?\d+(?:-\d+)?)*/.source;

/** What the text of one spec says of the acceptance list. */
export interface Claims {
  /** Named beside, or inside of, a test that runs. */
  readonly proved: readonly number[];
  /** Named by tests alone that are skipped whatever happens, so nothing proves them. */
  readonly skipped: readonly number[];
  /** Names that say nothing, each with its line. */
  readonly malformed: readonly string[];
}

/** Numbers that a text names: '7, 9-11' is 7, 9, 10 and 11. Throws RangeError where there is no such scenario. */
export function numbersIn(text: string): number[] {
  return text.split(',').flatMap((part) => {
    const [from, to = from] = part.trim().split('-').map(Number) as [number, number?];
    if (to < from) throw new RangeError(`${part.trim()} runs backwards`);
    if (from < 1 || to > SCENARIOS) throw new RangeError(`${part.trim()} is outside of 1-${SCENARIOS}`);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });
}

export function claimsIn(text: string): Claims {
  const spec = readSpec(text);
  const claims = { proved: new Set<number>(), skipped: new Set<number>(), malformed: [] as string[] };
  for (const { index, 0: named, 1: numbers } of text.matchAll(
    new RegExp(`acceptance (${NUMBERS})|// acceptance(?! \\d)`, 'g'),
  )) {
    const complain = (why: string) =>
      claims.malformed.push(`line ${text.slice(0, index).split('\n').length}: '${named}' ${why}`);
    const standing = standingOf(spec, index);
    if (numbers === undefined) complain('names no scenario');
    else if (standing === 'stray') complain('stands beside no test');
    else
      try {
        for (const number of numbersIn(numbers)) claims[standing].add(number);
      } catch (error) {
        complain((error as Error).message);
      }
  }
  return {
    proved: [...claims.proved],
    skipped: [...claims.skipped].filter((number) => !claims.proved.has(number)),
    malformed: claims.malformed,
  };
}

type Standing = 'proved' | 'skipped' | 'stray';

interface TestCall {
  readonly node: ts.CallExpression;
  readonly isSuite: boolean;
  readonly isSkipped: boolean;
}

interface Spec {
  readonly calls: readonly TestCall[];
  /** Tables of cases and the like: what is declared outside of tests, by its name. */
  readonly declarations: readonly { readonly node: ts.Node; readonly name: string }[];
  readonly identifiers: readonly ts.Identifier[];
}

function readSpec(text: string): Spec {
  const spec = {
    calls: [] as TestCall[],
    declarations: [] as { node: ts.Node; name: string }[],
    identifiers: [] as ts.Identifier[],
  };
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) spec.calls.push(...testCall(node));
    if (ts.isVariableStatement(node))
      for (const { name } of node.declarationList.declarations) spec.declarations.push({ node, name: name.getText() });
    if (ts.isFunctionDeclaration(node) && node.name) spec.declarations.push({ node, name: node.name.text });
    if (ts.isIdentifier(node)) spec.identifiers.push(node);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('a.spec.ts', text, ts.ScriptTarget.Latest, true));
  return spec;
}

/** A call of test, it, describe, or what is named after them (`describeWithChinook`). */
function testCall(node: ts.CallExpression): TestCall[] {
  const callee = /^[\w.]*/.exec(node.expression.getText())![0];
  const [, kind] = /^[xf]?(test|it|describe)(?![a-z])/.exec(callee) ?? [];
  if (kind === undefined || isCallee(node)) return [];
  const isSkipped = /^x|\.(skip|todo|failing)\b/.test(callee) && !isConditional(node);
  return [{ node, isSuite: kind === 'describe', isSkipped }];
}

/** `test.each(cases)`, which is called in its turn. */
function isCallee(node: ts.CallExpression): boolean {
  return ts.isCallExpression(node.parent) && node.parent.expression === node;
}

function isConditional(node: ts.Node): boolean {
  for (let at = node.parent; at; at = at.parent)
    if (ts.isIfStatement(at) || ts.isConditionalExpression(at)) return true;
  return false;
}

/** With the comments in front of it. */
const holds = (node: ts.Node, position: number) => node.getFullStart() <= position && position < node.end;

function standingOf(spec: Spec, position: number, seen: readonly string[] = []): Standing {
  const around = spec.calls.filter(({ node }) => holds(node, position));
  if (around.some(({ isSkipped }) => isSkipped)) return 'skipped';
  if (around.some(({ isSuite }) => !isSuite)) return 'proved';
  const declared = spec.declarations.filter(({ node, name }) => holds(node, position) && !seen.includes(name));
  if (declared.length > 0) return standingOfUses(spec, declared, seen);
  const suite = around.at(-1);
  if (!suite || position >= suite.node.arguments[0]!.end) return 'stray';
  return strongest(
    spec.calls
      .filter(({ node, isSuite }) => !isSuite && holds(suite.node, node.getStart()))
      .map(({ node }) => standingOf(spec, node.getStart())),
  );
}

/** A declaration stands where it is used. */
function standingOfUses(spec: Spec, declared: Spec['declarations'], seen: readonly string[]): Standing {
  const names = declared.map(({ name }) => name);
  const uses = spec.identifiers.filter(
    (identifier) => names.includes(identifier.text) && !declared.some(({ node }) => holds(node, identifier.getStart())),
  );
  return strongest(uses.map((use) => standingOf(spec, use.getStart(), [...seen, ...names])));
}

function strongest(standings: readonly Standing[]): Standing {
  return (['proved', 'skipped'] as const).find((standing) => standings.includes(standing)) ?? 'stray';
}
