import { defineEntity, p } from '@mikro-orm/core';
import { Injectable } from '@nestjs/common';
import { type RetentionRowHandler, RowHandler, retain } from 'nestjs-cohort';

/** The table whose rows have a handler. */
export const Job = defineEntity({
  name: 'Job',
  tableName: 'jobs',
  properties: {
    id: p.integer().primary().autoincrement(false),
    tenantId: p.uuid(),
    createdAt: p.datetime().columnType('timestamptz'),
  },
});

retain(Job, { category: 'jobs', anchor: 'createdAt', entityId: 'b7316df4-7db5-46ad-aea7-f65c4b430f73' });

/** Does nothing, as often as it is called. */
@Injectable()
@RowHandler(Job)
export class NoHandler implements RetentionRowHandler {
  calls = 0;

  onAfter(): void {
    this.calls++;
  }
}
