/** Schema of Cohort's tables in this run. One of the runs has a name that must be quoted. */
export const SCHEMA = (globalThis as { COHORT_SCHEMA?: string }).COHORT_SCHEMA ?? 'retention';

/** The schema as SQL writes it. */
export const OURS = `"${SCHEMA}"`;
