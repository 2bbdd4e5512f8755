import { type Command, InvalidArgumentError } from 'commander';
import { generateShop } from './generate-shop.js';
import { readShopFolder } from './read-shop-folder.js';
import type { ShopRecords } from './shop-records.js';

/** Where a shop comes from: a folder of CSV files, or made up. */
export interface ShopOptions {
  readonly data?: string;
  readonly customers: number;
  readonly seed: number;
}

const MAX_CUSTOMERS = 1_000_000;

/** Adds `--data`, `--customers` and `--seed` to a command. */
export function withShopOptions(command: Command): Command {
  return command
    .option('--data <folder>', 'load customer.csv, invoice.csv, invoice_line.csv and employee.csv of this folder')
    .option('--customers <n>', 'without --data: size of the shop that is made up', wholeNumber(1, MAX_CUSTOMERS), 60)
    .option('--seed <n>', 'without --data: the same seed makes the same shop', wholeNumber(0, 2 ** 31 - 1), 1);
}

/** The shop that the options name. A folder is read and checked at once, before anything is stored. */
export async function openShop({ data, customers, seed }: ShopOptions, now: Date): Promise<Iterable<ShopRecords>> {
  return data === undefined ? generateShop({ customers, seed, now }) : [await readShopFolder(data)];
}

function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Wanted: a whole number from ${min} to ${max}.`);
  };
}
