import { Injectable } from '@nestjs/common';
import {
  type EntityErasureCount,
  type ErasureIdentifier,
  ErasureScope,
  type EntitySweepCount,
  RetentionErasure,
  RetentionPreview,
  RetentionSweep,
  type RetentionSweepResult,
} from 'nestjs-cohort';
import { ShopTenants } from './shop-tenants.js';

/** What happened, or would happen, to one entity of one tenant. */
export type RetentionRow = Pick<
  EntitySweepCount,
  'entity' | 'category' | 'strategy' | 'affected' | 'held' | 'skipped' | 'nullAnchor'
> & { readonly tenant: string };

/** What an erasure did with one entity of one tenant, and what keeps the rest. */
export type ErasureRow = RetentionRow & { readonly legallyKept: number; readonly until: string | null };

export interface ErasureOutcome {
  readonly rows: readonly ErasureRow[];
  /** One text for each run that did not succeed. */
  readonly failures: readonly string[];
}

export interface SweepOutcome {
  readonly rows: readonly RetentionRow[];
  /** One text for each run that did not succeed. */
  readonly failures: readonly string[];
}

/** Retention of the whole shop: every tenant that it has. */
@Injectable()
export class ShopRetention {
  constructor(
    private readonly shop: ShopTenants,
    private readonly previews: RetentionPreview,
    private readonly sweeps: RetentionSweep,
    private readonly erasures: RetentionErasure,
  ) {}

  async preview(now: Date, signal?: AbortSignal): Promise<RetentionRow[]> {
    const rows: RetentionRow[] = [];
    for (const tenant of await this.shop.tenants()) {
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
    for await (const result of this.sweeps.sweepMany(await this.shop.tenants(), now, options)) {
      rows.push(...result.counts.map(toRow));
      failures.push(...failureOf(result));
    }
    return { rows: rows.sort(byTenantAndEntity), failures };
  }

  /** Erases a person everywhere: a customer may have bought from several representatives. */
  async erase(
    identifiers: readonly ErasureIdentifier[],
    now: Date,
    options: { readonly actor: string; readonly dryRun?: boolean; readonly signal?: AbortSignal },
  ): Promise<ErasureOutcome> {
    const rows: ErasureRow[] = [];
    const failures: string[] = [];
    const { dryRun = false, ...rest } = options;
    for (const tenant of await this.shop.tenants()) {
      const result = await this.erasures.erase(tenant, new ErasureScope(identifiers, { dryRun }), now, rest);
      rows.push(...result.counts.map(toErasureRow));
      failures.push(...failureOf(result));
    }
    return { rows: rows.sort(byTenantAndEntity), failures };
  }
}

function failureOf({ tenantId, status, entityFailures }: RetentionSweepResult): string[] {
  if (status === 'succeeded') return [];
  return [[`${tenantId}: ${status}`, ...entityFailures.map((each) => each.error)].join('; ')];
}

function toErasureRow({ blockedBy, ...count }: EntityErasureCount): ErasureRow {
  const until = blockedBy.legalMinimumEnds?.toISOString() ?? null;
  return { ...toRow(count), legallyKept: blockedBy.legalMinimum, until };
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
