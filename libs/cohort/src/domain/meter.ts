import type { Strategy } from './strategy.js';

export interface MeteredEntity {
  readonly entity: string;
  readonly strategy: Strategy;
}

export interface MeteredRest {
  readonly held: number;
  readonly skippedByCause: Readonly<Record<string, number>>;
}

export interface MeteredRun {
  readonly trigger: string;
  readonly dryRun: boolean;
  readonly status: string;
  readonly tenantId: string;
  readonly seconds: number;
}

/** Is told what the engine did, once it is committed. */
export interface Meter {
  /** Whether it wants to know the tenants of a batch's rows. */
  readonly byTenant: boolean;
  /** Rows changed by tenant; one entry for all of them where nobody asked. */
  batch(of: MeteredEntity, rows: ReadonlyMap<string, number>, seconds: number): void;
  /** What a walk left, and why, for one tenant. */
  leftOver(of: MeteredEntity, tenantId: string, rest: MeteredRest): void;
  run(run: MeteredRun): void;
}
