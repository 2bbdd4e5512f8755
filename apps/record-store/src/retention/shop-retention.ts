import { EntityManager } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { type EntitySweepCount, RetentionPreview, RetentionSweep, TenantContext } from 'nestjs-cohort';
import { Customer } from '../customers/customer.js';

/** What happened, or would happen, to one entity of one tenant. */
export type RetentionRow = Pick<
  EntitySweepCount,
  'entity' | 'category' | 'strategy' | 'affected' | 'held' | 'skipped' | 'nullAnchor'
> & { readonly tenant: string };

export interface SweepOutcome {
  readonly rows: readonly RetentionRow[];
  /** One text for each run that did not succeed. */
  readonly failures: readonly string[];
}

/** Retention of the whole shop: every tenant that it has. */
@Injectable()
export class ShopRetention {
  constructor(
    private readonly em: EntityManager,
    private readonly previews: RetentionPreview,
    private readonly sweeps: RetentionSweep,
  ) {}

  async preview(now: Date, signal?: AbortSignal): Promise<RetentionRow[]> {
    const rows: RetentionRow[] = [];
    for (const tenant of await this.tenants()) {
      const { counts } = await this.previews.preview(tenant, now, { signal });
      rows.push(...counts.map(toRow));
    }
    return rows.sort(byTenantAndEntity);
  }

  async sweep(
    now: Date,
    options: { readonly actor: string; readonly dryRun?: boolean; readonly signal?: AbortSignal },
  ): Promise<SweepOutcome> {
    const rows: RetentionRow[] = [];
    const failures: string[] = [];
    for await (const result of this.sweeps.sweepMany(await this.tenants(), now, options)) {
      rows.push(...result.counts.map(toRow));
      if (result.status !== 'succeeded') {
        failures.push(
          [`${result.tenantId}: ${result.status}`, ...result.entityFailures.map((each) => each.error)].join('; '),
        );
      }
    }
    return { rows: rows.sort(byTenantAndEntity), failures };
  }

  /** Every representative with customers; invoices and lines are always those of a customer. */
  private async tenants(): Promise<TenantContext[]> {
    const representatives = await this.em
      .fork()
      .createQueryBuilder(Customer)
      .select('representative', true)
      .orderBy({ representative: 'asc' })
      .execute<{ representative: string }[]>();
    return representatives.map(({ representative }) => new TenantContext(representative));
  }
}

function toRow({
  tenantId,
  entity,
  category,
  strategy,
  affected,
  held,
  skipped,
  nullAnchor,
}: EntitySweepCount): RetentionRow {
  return { tenant: tenantId, entity, category, strategy, affected, held, skipped, nullAnchor };
}

function byTenantAndEntity(a: RetentionRow, b: RetentionRow): number {
  return a.tenant.localeCompare(b.tenant, 'en', { numeric: true }) || a.entity.localeCompare(b.entity, 'en');
}
