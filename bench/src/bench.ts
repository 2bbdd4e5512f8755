import { RetentionRowDispatcher, RetentionSweep } from 'nestjs-cohort';
import { createTables, startCohortHost } from './cohort-host.js';
import { withClient, withDatabase } from './database.js';
import { NoHandler } from './jobs.js';
import type { BenchOptions } from './options.js';
import { type Report, isReached, toText } from './report.js';
import { measure } from './runner.js';

/** Runs the bench and returns the exit code: 1 when --check misses a figure. Throws when a contender gets a row wrong. */
export async function bench(
  options: BenchOptions,
  serverUrl: string | undefined,
  print: (text: string) => void,
): Promise<number> {
  const report = await withDatabase(serverUrl, (url) => measureAll(url, options));
  print(options.json ? JSON.stringify(report, null, 2) : toText(report));
  return options.check && !report.results.every((result) => result.passed) ? 1 : 0;
}

async function measureAll(url: string, options: BenchOptions): Promise<Report> {
  await createTables(url);
  const [host, twoLanes, withDetail, anonymising] = await Promise.all([
    startCohortHost(url),
    startCohortHost(url, { parallelism: 2 }),
    startCohortHost(url, { auditRowDetail: 'perRow' }),
    startCohortHost(url, { strategy: 'anonymise' }),
  ]);
  try {
    return await withClient(url, async (client) => {
      const { rows } = await client.query<{ server_version: string }>('show server_version');
      const world = {
        client,
        url,
        sweep: host.get(RetentionSweep),
        twoLanes: twoLanes.get(RetentionSweep),
        withDetail: withDetail.get(RetentionSweep),
        anonymising: anonymising.get(RetentionSweep),
        dispatcher: host.get(RetentionRowDispatcher),
        handler: host.get(NoHandler),
      };
      const results = [];
      for (const row of options.rows) {
        const measurement = await measure(row, world, options);
        results.push({ ...measurement, passed: isReached(measurement) });
      }
      return { server: rows[0]!.server_version, rows: options.tableRows, rounds: options.rounds, results };
    });
  } finally {
    await Promise.all([host, twoLanes, withDetail, anonymising].map((each) => each.close()));
  }
}
