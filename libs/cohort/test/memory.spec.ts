import { readFileSync, readdirSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import ts from 'typescript';

const ENGINE = new URL('../src/engine/', import.meta.url);
/** These read the model, the rules and the catalog, never a row. */
const WITHOUT_ROWS = ['plan.ts', 'rule-book.ts', 'table-facts.ts'];

const files = readdirSync(ENGINE)
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts') && !WITHOUT_ROWS.includes(file))
  .sort();
const sourceOf = (file: string) => readFileSync(new URL(file, ENGINE), 'utf8');

/**
 * Collections that begin empty, and so grow while something runs, by their names. A bare [] in an object is no variable,
 * but what a call is told.
 */
function growingIn(text: string): string[] {
  const names: string[] = [];
  const visit = (node: ts.Node): void => {
    const isVariable = ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node);
    if ((isVariable || ts.isPropertyAssignment(node)) && node.initializer && grows(node.initializer, isVariable))
      names.push(node.name.getText());
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('a.ts', text, ts.ScriptTarget.Latest, true));
  return names;
}

function grows(node: ts.Expression, isVariable: boolean): boolean {
  if (ts.isAsExpression(node)) return grows(node.expression, true);
  if (ts.isArrayLiteralExpression(node)) return isVariable && node.elements.length === 0;
  return ts.isNewExpression(node) && /^(Set|Map|Array)$/.test(node.expression.getText()) && !node.arguments?.length;
}

test('the source check finds what grows', () => {
  const planted = `
    const ids: string[] = [];
    let seen = new Set<string>();
    const state = { byId: new Map<string, number>(), list: [] as string[], affected: 0 };
    count(tx, { refused: [] });
    const fixed = ['a'];
    const copy = new Map(rows.map((row) => [row.id, row]));`;
  expect(growingIn(planted)).toEqual(['ids', 'seen', 'byId', 'list']);
});

// acceptance 21: a table has more rows than a process has memory
test('nothing grows with the rows of a pass', () => {
  const growing = files.flatMap((file) => growingIn(sourceOf(file)).map((name) => `${file} ${name}`));
  expect(growing).toEqual([
    // One a target of the call.
    'deletion.ts locked',
    'deletion.ts gone',
    // One an entity.
    'erasure.ts tooYoung',
    'erasure.ts matches',
    // One a column and identifier.
    'erasure.ts found',
    // The limit on rows that are left out; refusals.spec.ts proves that the next one fails the entity.
    'limit-walk.ts refused',
    'limit-walk.ts busy',
    // One a run, where an observer is told.
    'limit-walk.ts affectedByRun',
    // One a tenant.
    'list-tenants.ts all',
    'list-tenants.ts byId',
    'list-tenants.ts conflicting',
    // One an entity.
    'overdue.ts seconds',
    // One an entity and run.
    'pass.ts failures',
    // One an entity.
    'preview.ts counts',
  ]);
});
