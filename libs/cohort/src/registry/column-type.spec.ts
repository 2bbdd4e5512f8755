import { describe, expect, test } from '@jest/globals';
import { baseType, fitsType, isTenantType } from './column-type.js';

const UUID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';

describe('baseType', () => {
  test.each([
    ['uuid', 'uuid'],
    ['varchar(255)', 'varchar'],
    ['TIMESTAMPTZ(3)', 'timestamptz'],
    ['timestamp(3) with time zone', 'timestamp with time zone'],
    ['numeric (10, 2)', 'numeric'],
    ['text[]', 'text[]'],
  ])('of %s is %s', (type, base) => {
    expect(baseType(type)).toBe(base);
  });
});

describe('isTenantType', () => {
  test.each(['uuid', 'UUID', 'text', 'varchar(40)', 'character varying(40)', 'char(8)', 'citext'])(
    'takes %s',
    (type) => {
      expect(isTenantType(type)).toBe(true);
    },
  );

  test.each(['smallint', 'int2', 'int', 'integer', 'int4', 'bigint', 'int8'])('takes %s', (type) => {
    expect(isTenantType(type)).toBe(true);
  });

  test.each(['numeric', 'real', 'boolean', 'timestamptz', 'jsonb', 'uuid[]'])('refuses %s', (type) => {
    expect(isTenantType(type)).toBe(false);
  });

  test.each(['toString', 'constructor', 'valueOf', ''])('is not misled by a type that is called %j', (type) => {
    expect(isTenantType(type)).toBe(false);
    expect(fitsType(type, 'anything')).toBe(true);
  });
});

describe('fitsType', () => {
  // Boundary pairs: the last value that a type holds, and the next.
  test.each([
    ['smallint', '32767', '32768'],
    ['smallint', '-32768', '-32769'],
    ['int', '2147483647', '2147483648'],
    ['integer', '-2147483648', '-2147483649'],
    ['int4', '0', '1.0'],
    ['bigint', '9223372036854775807', '9223372036854775808'],
    ['int8', '-9223372036854775808', '-9223372036854775809'],
    ['bigint', ' 7 ', '7 7'],
    ['bigint', '+7', '--7'],
    ['int', '007', '0x7'],
    ['int', '-0', ''],
    ['uuid', UUID, UUID.slice(1)],
    ['uuid', UUID.toUpperCase(), `${UUID}0`],
  ])('of %s takes %j and not %j', (type, inside, outside) => {
    expect(fitsType(type, inside)).toBe(true);
    expect(fitsType(type, outside)).toBe(false);
  });

  test.each(['text', 'varchar(3)', 'numeric', 'citext'])('leaves %s to the database', (type) => {
    expect(fitsType(type, 'anything')).toBe(true);
  });
});
