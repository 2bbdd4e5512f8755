import { Command, InvalidArgumentError, Option } from 'commander';
import type { ErasureIdentifier } from 'nestjs-cohort';
import { type ShopOptions, withShopOptions } from '../loading/shop-source.js';
import { HOLD_KINDS, type HoldOption } from './hold-option.js';

export interface DemoOptions extends ShopOptions {
  readonly now: Date;
  readonly hold: readonly HoldOption[];
  readonly erase: readonly ErasureIdentifier[];
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** The options of `npm run demo`. Ends the program with one line on standard error when one is wrong. */
export function parseDemoOptions(argv: readonly string[]): DemoOptions {
  return withShopOptions(new Command('npm run demo --'))
    .description(
      'Preview, holds, sweep, erasure and ledger of a record shop, on a database that is made for it and dropped.',
    )
    .addOption(
      new Option('--now <instant>', 'the instant at which rows are due, such as 2026-11-30T00:00:00Z')
        .argParser(parseInstant)
        .default(new Date(), 'the current instant'),
    )
    .addOption(
      new Option('--hold <kind:id>', 'keep a row: invoice:ID, invoice-line:ID or customer:ID; may be repeated')
        .argParser(addHold)
        .default([], 'none'),
    )
    .addOption(
      new Option('--erase <kind:value>', 'erase a person: customer:ID or email:ADDRESS; may be repeated for one person')
        .argParser(addIdentifier)
        .default([], 'nobody'),
    )
    .option('--dry-run', 'sweep and erase without changing anything')
    .option('--json', 'print one JSON object and nothing else')
    .parse(argv)
    .opts<DemoOptions>();
}

const ISO_INSTANT = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

function parseInstant(text: string): Date {
  const day = ISO_INSTANT.exec(text)?.[1];
  const date = new Date(text);
  // JavaScript takes 31 February for a day in March.
  if (day && !Number.isNaN(date.getTime()) && new Date(day).toISOString().startsWith(day)) return date;
  throw new InvalidArgumentError('Wanted: an ISO-8601 instant with its zone, such as 2026-11-30T00:00:00Z.');
}

function addHold(text: string, before: readonly HoldOption[]): HoldOption[] {
  const [, kind, id] = /^([a-z-]+):(\d{1,10})$/.exec(text) ?? [];
  const isKind = HOLD_KINDS.find((each) => each === kind);
  if (isKind && Number(id) < 2 ** 31) return [...before, { kind: isKind, id: Number(id) }];
  throw new InvalidArgumentError(`Wanted: ${HOLD_KINDS.map((each) => `${each}:ID`).join(', ')}, ID a whole number.`);
}

function addIdentifier(text: string, before: readonly ErasureIdentifier[]): ErasureIdentifier[] {
  const [, id] = /^customer:(\d{1,10})$/.exec(text) ?? [];
  if (id !== undefined && Number(id) < 2 ** 31) return [...before, { kind: 'customer', value: Number(id) }];
  const [, email] = /^email:(\S+@\S+)$/.exec(text) ?? [];
  if (email !== undefined) return [...before, { kind: 'email', value: email }];
  throw new InvalidArgumentError('Wanted: customer:ID, ID a whole number, or email:ADDRESS.');
}
