import { bench } from './bench.js';
import { type BenchOptions, USAGE, readOptions } from './options.js';

/** What was asked for, or undefined when that was no order to measure: then the usage has been said. */
function optionsOrUsage(argv: readonly string[]): BenchOptions | undefined {
  if (argv.includes('--help')) {
    console.log(USAGE);
    return undefined;
  }
  try {
    return readOptions(argv);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return undefined;
  }
}

const options = optionsOrUsage(process.argv.slice(2));
if (options) process.exitCode = await bench(options, process.env.DATABASE_URL, (text) => console.log(text));
