import { defineEntity, p } from '@mikro-orm/core';
import { retain } from 'nestjs-cohort';

export const NOTE_ID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';
const DAY_MS = 86_400_000;
export const PERIOD_DAYS = 400;
export const NOW = new Date('2026-01-01T00:00:00.000Z');
export const CUTOFF = new Date(NOW.getTime() - PERIOD_DAYS * DAY_MS);
/** Of a thousand days of rows, evenly spread, the oldest 600 are due: 60 %. */
export const DAYS = 1000;
export const FIRST_DAY = new Date(NOW.getTime() - DAYS * DAY_MS);

/** The table that is purged, or anonymised. */
export const Note = defineEntity({
  name: 'Note',
  tableName: 'notes',
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    createdAt: p.datetime().columnType('timestamptz'),
    author: p.text(),
    body: p.text(),
    anonymisedAt: p.datetime().columnType('timestamptz').nullable(),
  },
});

export const REDACTED = '[redacted]';

retain(Note, {
  category: 'notes',
  anchor: 'createdAt',
  entityId: NOTE_ID,
  anonymise: { author: ['fixedLiteral', REDACTED] },
});
