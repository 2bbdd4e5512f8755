import { Type } from '@mikro-orm/core';

/** Stands for encryption: what is stored is not what the application sees, and what is not stored this way cannot be read. */
export class Reversed extends Type<string, string> {
  override convertToDatabaseValue(value: string): string {
    return `r:${[...value].reverse().join('')}`;
  }

  override convertToJSValue(value: string): string {
    if (!value.startsWith('r:')) throw new Error('not a reversed text');
    return [...value.slice(2)].reverse().join('');
  }

  override getColumnType(): string {
    return 'text';
  }
}
