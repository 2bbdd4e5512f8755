/** Column types and checks as PostgreSQL prints them, so that the model and the migrations compare equal. */

export const SCHEMA = 'data_foundations';

export const uuid = { type: 'uuid', columnType: 'uuid' } as const;
export const text = { type: 'string', columnType: 'text' } as const;
export const integer = { type: 'integer', columnType: 'int' } as const;
export const bigint = { type: 'bigint', columnType: 'bigint' } as const;
export const bool = { type: 'boolean', columnType: 'boolean' } as const;
export const json = { type: 'json', columnType: 'jsonb' } as const;
export const instant = { type: 'Date', columnType: 'timestamptz' } as const;

export const nullable = <T extends object>(column: T) => ({ ...column, nullable: true as const });
export const primary = <T extends object>(column: T) => ({ ...column, primary: true as const });

export const check = (name: string, expression: string) => ({ name, expression });
export const oneOf = (column: string, values: readonly string[]) =>
  `${column} = ANY (ARRAY[${values.map((value) => `'${value}'::text`).join(', ')}])`;
