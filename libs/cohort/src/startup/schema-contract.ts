import { type EntityMetadata, type EntityProperty, ReferenceKind } from '@mikro-orm/core';
import { COHORT_TABLES, entityName } from '../schema/cohort-entities.js';
import type { InstalledTable } from '../sql/own-tables.js';

type Role = keyof typeof COHORT_TABLES;

/** What Cohort needs of one of its tables: read from the very definitions that the host's migrations are made of. */
interface TableContract {
  readonly name: string;
  readonly columns: readonly {
    readonly name: string;
    readonly type: string;
    readonly nullable: boolean;
    readonly numbered: boolean;
  }[];
  readonly primaryKey: readonly string[];
  readonly uniques: readonly IndexContract[];
  readonly indexes: readonly IndexContract[];
  readonly checks: readonly string[];
  readonly keys: readonly {
    readonly columns: readonly string[];
    readonly table: string;
    readonly targetColumns: readonly string[];
    readonly action: string;
  }[];
  readonly privileges: readonly string[];
}
interface IndexContract {
  readonly columns: readonly string[];
  readonly predicate: string | null;
}

/** What the engine does with each table. */
const PRIVILEGES: Readonly<Record<Role, readonly string[]>> = {
  holds: ['select', 'insert', 'update'],
  pass: ['select', 'insert', 'update'],
  lane: ['select', 'insert', 'update'],
  progress: ['select', 'insert', 'delete'],
  run: ['select', 'insert', 'update'],
  summary: ['select', 'insert', 'update', 'delete'],
  rowDetail: ['select', 'insert', 'update'],
  handlerStatus: ['select', 'insert', 'update'],
  occurrence: ['select', 'insert', 'update', 'delete'],
  cursor: ['select'],
};
/** What pruning needs besides. Handler work goes with its row detail by the foreign key, which asks nobody. */
export const PRUNED: readonly Role[] = ['holds', 'pass', 'lane', 'run', 'rowDetail'];
const ACTIONS: Readonly<Record<string, string>> = { restrict: 'r', cascade: 'c' };
const ACTION_NAMES: Readonly<Record<string, string>> = {
  a: 'NO ACTION',
  r: 'RESTRICT',
  c: 'CASCADE',
  n: 'SET NULL',
  d: 'SET DEFAULT',
};
/** As format_type prints them. */
const TYPES: Readonly<Record<string, string>> = {
  int: 'integer',
  bigserial: 'bigint',
  timestamptz: 'timestamp with time zone',
};

export interface ContractFindings {
  readonly problems: readonly string[];
  /** What only makes things slow. */
  readonly warnings: readonly string[];
}

/** Compares the installed tables with what their definitions say. Expressions are not compared: their text depends on settings. */
export function checkContract(
  model: readonly EntityMetadata[],
  schema: string,
  installed: readonly InstalledTable[],
  isPruned: boolean,
): ContractFindings {
  const problems: string[] = [];
  const warnings: string[] = [];
  for (const contract of contractsOf(model, isPruned)) {
    const table = `Table "${schema}"."${contract.name}"`;
    const found = installed.find((each) => each.name === contract.name);
    // A table that is not there at all is told of elsewhere.
    if (!found) continue;
    const missing = [
      ...columnProblems(contract, found),
      ...indexProblems(contract, found),
      ...keyProblems(contract, found, schema, installed),
      ...checkProblems(contract, found),
    ];
    problems.push(...missing.map((problem) => `${table}: ${problem}; apply the pending migrations.`));
    if (!found.logged) problems.push(`${table} is not logged: a crash would empty it; ALTER TABLE … SET LOGGED.`);
    problems.push(...privilegeProblems(contract, found).map((problem) => `${table}: ${problem}.`));
    warnings.push(
      ...contract.indexes
        .filter((index) => !found.indexes.some((each) => serves(each, index)))
        .map((index) => `${table} has no index that leads with (${index.columns.join(', ')}); it is slow without.`),
    );
  }
  return { problems, warnings };
}

function contractsOf(model: readonly EntityMetadata[], isPruned: boolean): TableContract[] {
  return (Object.keys(COHORT_TABLES) as Role[]).map((role) => {
    const meta = model.find((each) => each.className === entityName(role))!;
    const properties = Object.values(meta.properties) as EntityProperty[];
    const columnsFor = (names: unknown) =>
      [names as string | string[]].flat().flatMap((name) => meta.properties[name as never]!['fieldNames'] as string[]);
    const asIndex = (index: { properties?: unknown; where?: unknown }): IndexContract => ({
      columns: columnsFor(index.properties),
      predicate: (index.where as string | undefined) ?? null,
    });
    const own = properties.filter((property) => property.kind === ReferenceKind.SCALAR || property.primary);
    const references = properties.filter((property) => property.kind === ReferenceKind.MANY_TO_ONE);
    return {
      name: meta.tableName,
      columns: [...own, ...references.filter((property) => !property.primary)].flatMap((property) =>
        property.fieldNames.map((name, index) => ({
          name,
          type: TYPES[property.columnTypes[index]!] ?? property.columnTypes[index]!,
          nullable: property.nullable === true,
          numbered: property.autoincrement === true,
        })),
      ),
      primaryKey: columnsFor(meta.primaryKeys),
      uniques: meta.uniques.map(asIndex),
      indexes: meta.indexes.map(asIndex),
      checks: meta.checks.map((check) => check.name!),
      keys: references.map((property) => ({
        columns: property.joinColumns,
        table: property.targetMeta!.tableName,
        targetColumns: property.referencedColumnNames,
        action: ACTIONS[property.deleteRule!]!,
      })),
      privileges: [...PRIVILEGES[role], ...(isPruned && PRUNED.includes(role) ? ['delete'] : [])],
    };
  });
}

function columnProblems(contract: TableContract, found: InstalledTable): string[] {
  const wanted = contract.columns.flatMap((column) => {
    const seen = found.columns.find((each) => each.name === column.name);
    if (!seen) return [`has no column ${column.name}`];
    // A text without a length by another name.
    const type = seen.type === 'character varying' ? 'text' : seen.type;
    return [
      ...(type === column.type ? [] : [`column ${column.name} is ${seen.type}; wanted: ${column.type}`]),
      ...(seen.nullable === column.nullable
        ? []
        : [`column ${column.name} ${seen.nullable ? 'takes NULL' : 'is NOT NULL'}; wanted: the opposite`]),
      ...(seen.computed ? [`column ${column.name} is generated and cannot be written`] : []),
      ...(column.numbered && !seen.numbered
        ? [`column ${column.name} is not numbered by an identity or a sequence`]
        : []),
    ];
  });
  const inTheWay = found.columns
    .filter((column) => !column.nullable && !column.hasDefault)
    .filter((column) => !contract.columns.some((each) => each.name === column.name))
    .map((column) => `column ${column.name} is not Cohort's and NOT NULL without a default`);
  return [...wanted, ...inTheWay];
}

function indexProblems(contract: TableContract, found: InstalledTable): string[] {
  const hasPrimaryKey = found.indexes.some(
    (index) => index.primary && !index.deferrable && isSame(index.columns, contract.primaryKey),
  );
  const uniques = contract.uniques.filter(
    (unique) =>
      !found.indexes.some(
        (index) =>
          index.unique &&
          !index.deferrable &&
          isSame(index.columns, unique.columns) &&
          bare(index.predicate) === bare(unique.predicate),
      ),
  );
  return [
    ...(hasPrimaryKey ? [] : [`has no primary key (${contract.primaryKey.join(', ')}) that is checked at once`]),
    ...uniques.map(
      ({ columns, predicate }) =>
        `has no unique index (${columns.join(', ')})${predicate ? ` where ${predicate}` : ''} that is checked at once`,
    ),
  ];
}

function keyProblems(
  contract: TableContract,
  found: InstalledTable,
  schema: string,
  installed: readonly InstalledTable[],
): string[] {
  const targets = contract.keys.filter((key) => installed.some((table) => table.name === key.table));
  const foreign = found.keys.filter(
    (seen) =>
      'cnd'.includes(seen.action) &&
      !contract.keys.some((key) => seen.table === key.table && isSame(seen.columns, key.columns)),
  );
  const reaching = foreign.map(
    (seen) =>
      `foreign key (${seen.columns.join(', ')}) to ${seen.schema}.${seen.table} is ON DELETE ${ACTION_NAMES[seen.action]!}, which would change rows of Cohort's own; make it RESTRICT or drop it`,
  );
  const missing = targets.flatMap((key) => {
    const name = `foreign key (${key.columns.join(', ')}) to ${key.table} (${key.targetColumns.join(', ')})`;
    const seen = found.keys.find(
      (each) =>
        each.schema === schema &&
        each.table === key.table &&
        isSame(each.columns, key.columns) &&
        isSame(each.targetColumns, key.targetColumns),
    );
    if (!seen) return [`has no ${name}`];
    if (!seen.validated) return [`${name} is not validated`];
    return seen.action === key.action
      ? []
      : [`${name} is ON DELETE ${ACTION_NAMES[seen.action]!}; wanted: ${ACTION_NAMES[key.action]!}`];
  });
  return [...reaching, ...missing];
}

function checkProblems(contract: TableContract, found: InstalledTable): string[] {
  return contract.checks.flatMap((name) => {
    const check = found.checks.find((each) => each.name === name);
    if (!check) return [`has no check ${name}`];
    return check.validated ? [] : [`check ${name} is not validated`];
  });
}

function privilegeProblems(contract: TableContract, found: InstalledTable): string[] {
  const missing = contract.privileges.filter((privilege) => !found.privileges.includes(privilege));
  const sequences = contract.columns.filter(
    (column) => column.numbered && found.columns.some((each) => each.name === column.name && !each.sequenceUsable),
  );
  return [
    ...(missing.length > 0 ? [`this role may not ${missing.join(', ')}; grant it`] : []),
    ...(contract.privileges.includes('insert') ? sequences : []).map(
      (column) => `this role may not use the sequence of ${column.name}; grant it USAGE`,
    ),
  ];
}

/** A partial index serves where it is the very part that is asked for. */
function serves(found: InstalledTable['indexes'][number], wanted: IndexContract): boolean {
  const isWhole = found.predicate === null || bare(found.predicate) === bare(wanted.predicate);
  return isWhole && startsWith(found.columns, wanted.columns);
}

function isSame(a: readonly (string | null)[], b: readonly string[]): boolean {
  return a.length === b.length && startsWith(a, b);
}

function startsWith(a: readonly (string | null)[], b: readonly string[]): boolean {
  return b.every((column, index) => a[index] === column);
}

function bare(predicate: string | null): string {
  return (predicate ?? '').replace(/^\((.*)\)$/, '$1');
}
