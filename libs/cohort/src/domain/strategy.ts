/** What happens to a row whose time is over. */
export const Strategy = {
  Purge: 'purge',
  SoftDelete: 'softDelete',
  Anonymise: 'anonymise',
  Exempt: 'exempt',
} as const;
export type Strategy = (typeof Strategy)[keyof typeof Strategy];

/** How much the ledger keeps of each row. An entity's `inherit` follows its rule. */
export const AuditRowDetail = {
  SummaryOnly: 'summaryOnly',
  PerRow: 'perRow',
  Inherit: 'inherit',
} as const;
export type AuditRowDetail = (typeof AuditRowDetail)[keyof typeof AuditRowDetail];

/** What replaces a personal value. */
export const AnonymiseMethod = {
  Null: 'null',
  EmptyString: 'emptyString',
  FixedLiteral: 'fixedLiteral',
} as const;
export type AnonymiseMethod = (typeof AnonymiseMethod)[keyof typeof AnonymiseMethod];

/** Whether `value` is one of the values of `enumeration`. */
export function isOneOf<T extends string>(enumeration: Readonly<Record<string, T>>, value: unknown): value is T {
  return Object.values(enumeration).includes(value as T);
}
