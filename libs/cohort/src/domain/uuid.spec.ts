import { describe, expect, test } from '@jest/globals';
import { isIdentity, isUuid } from './uuid.js';

const ZERO = '00000000-0000-0000-0000-000000000000';

describe('isUuid and isIdentity', () => {
  test.each(['a3f467fe-c5d0-4f17-9897-83c373cc1dc8', 'A3F467FE-C5D0-4F17-9897-83C373CC1DC8'])('take %s', (value) => {
    expect(isUuid(value)).toBe(true);
    expect(isIdentity(value)).toBe(true);
  });

  test('tell the zero UUID from an identity', () => {
    expect(isUuid(ZERO)).toBe(true);
    expect(isIdentity(ZERO)).toBe(false);
  });

  test.each([
    null,
    undefined,
    0,
    {},
    '',
    'a3f467fe',
    'a3f467fec5d04f17989783c373cc1dc8',
    '{a3f467fe-c5d0-4f17-9897-83c373cc1dc8}',
    ' a3f467fe-c5d0-4f17-9897-83c373cc1dc8',
    'a3f467fe-c5d0-4f17-9897-83c373cc1dc8\n',
    'g3f467fe-c5d0-4f17-9897-83c373cc1dc8',
    'a3f467fe-c5d0-4f17-9897-83c373cc1dc80',
  ])('refuse %p', (value) => {
    expect(isUuid(value)).toBe(false);
    expect(isIdentity(value)).toBe(false);
  });
});
