import { Injectable } from '@nestjs/common';
import { requireOptions, requireSignal } from '../domain/arguments.js';
import { requireInstant } from '../domain/instant.js';
import { type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { Readiness } from '../startup/readiness.js';
import { type RetentionPreviewResult, previewTenant } from '../engine/preview.js';

/** Counts what a sweep would do. Writes nothing, locks nothing, never sees the caller's own transaction. */
@Injectable()
export class RetentionPreview {
  constructor(private readonly readiness: Readiness) {}

  /** Throws the first entity's failure. */
  async preview(
    tenant: TenantContext,
    now: Date,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<RetentionPreviewResult> {
    requireTenant(tenant);
    const at = requireInstant(now, 'now');
    requireOptions(options, ['signal']);
    requireSignal(options.signal);
    return previewTenant(await this.readiness.context(), tenant, at, options.signal);
  }
}
