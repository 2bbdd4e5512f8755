import { type StaticRules, Strategy } from 'nestjs-cohort';

/**
 * How long the shop keeps what. Lines go with their invoices, three years after the invoice's date, which the law wants
 * kept: a customer who asks for erasure does not make them go sooner.
 */
export const shopRules = {
  'invoice-lines': { period: 'P3Y', legalMin: 'P3Y', strategy: Strategy.Purge },
  invoices: { period: 'P3Y', legalMin: 'P3Y', strategy: Strategy.Purge },
  customers: { period: 'P1Y', strategy: Strategy.Anonymise },
} satisfies StaticRules;
