import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PayloadError, SnapshotValueError, decodeSnapshot, encodeSnapshot } from './snapshot.js';

const roundTrip = (value: unknown) => decodeSnapshot(encodeSnapshot({ value }))['value'];

// acceptance 382, 415; PAY-01, PAY-02
test.each<[string, unknown]>([
  ['a text', 'blobs/7.pdf'],
  ['an empty text', ''],
  ['a text with NUL and half a surrogate pair', 'a\0\ud800'],
  ['a decimal as a text', '12345678901234567890.0100'],
  ['a boolean', false],
  ['null', null],
  ['a number', 0.1],
  ['minus zero', -0],
  ['NaN', NaN],
  ['minus infinity', -Infinity],
  ['a bigint', -(2n ** 80n)],
  ['a Date', new Date('2026-06-30T12:00:00.001Z')],
  ['a Date before Christ', new Date(-8.64e15)],
  ['a Buffer', Buffer.from([0, 255, 1])],
  ['an empty Buffer', Buffer.alloc(0)],
  ['bytes', new Uint8Array([1, 2, 3])],
  ['a list', [1, 'a', [null, new Date(0)], []]],
  ['a plain object', { a: { b: [1n] }, ['__proto__']: 'own', constructor: 1 }],
])('%s comes back as it was', (_, value) => {
  const back = roundTrip(value);
  expect(back).toEqual(value);
  expect(Object.is(back, -0)).toBe(Object.is(value, -0));
  expect(Buffer.isBuffer(back)).toBe(Buffer.isBuffer(value));
});

// acceptance 382
test('whatever is taken comes back equal', () => {
  const scalar = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.double(),
    fc.bigInt(),
    fc.boolean(),
    fc.constant(null),
    fc.date({ noInvalidDate: true }),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof({ maxDepth: 4 }, scalar, fc.array(tie('tree')), fc.dictionary(fc.string(), tie('tree'))),
  }));
  fc.assert(fc.property(tree, (value) => expect(roundTrip(value)).toEqual(value)));
});

class Money {
  amount = 1;
}

// acceptance 415; PAY-03
test.each<[string, unknown, string]>([
  ['undefined', undefined, 'snapshot.value is undefined'],
  ['a function', () => 1, 'snapshot.value is a function'],
  ['a symbol', Symbol('s'), 'snapshot.value is a symbol'],
  ['an object of a class', new Money(), 'snapshot.value is an object of Money'],
  ['a Map', new Map(), 'snapshot.value is an object of Map'],
  ['a RegExp', /x/, 'snapshot.value is an object of RegExp'],
  ['floats', new Float64Array(1), 'snapshot.value is an object of Float64Array'],
  ['an invalid Date', new Date(NaN), 'snapshot.value is an invalid Date'],
  // eslint-disable-next-line no-sparse-arrays
  ['a list with holes', [1, , 2], 'snapshot.value is an array with holes'],
  ['something of these deep inside', { a: [{ b: undefined }] }, 'snapshot.value.a[0].b is undefined'],
  ['an object that passes for a wrapped one', { $cohortType: 'bigint', $cohortValue: '1' }, 'reserved'],
  ['an object with symbols', { [Symbol('s')]: 1 }, 'snapshot.value is an object with symbols'],
])('%s is refused, and named', (_, value, message) => {
  expect(() => roundTrip(value)).toThrow(SnapshotValueError);
  expect(() => roundTrip(value)).toThrow(message);
});

test('a circle is refused', () => {
  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  expect(() => roundTrip(circle)).toThrow('more than 32 levels deep');
});

// acceptance 413; PAY-04, PAY-05
describe('a payload that nobody encoded is refused:', () => {
  test.each([
    ['no JSON', '{'],
    ['no object', '[]'],
    ['null', 'null'],
    [
      'a wrapped value in the place of the snapshot',
      '{"$cohortType":"date","$cohortValue":"2020-01-01T00:00:00.000Z"}',
    ],
    ['a type that is on no list', '{"a":{"$cohortType":"process","$cohortValue":"1"}}'],
    ['a type that every object has', '{"a":{"$cohortType":"constructor","$cohortValue":"1"}}'],
    ['a wrapped value without a type', '{"a":{"$cohortValue":"1"}}'],
    ['a wrapped value without a value', '{"a":{"$cohortType":"bigint"}}'],
    ['a wrapped value with more', '{"a":{"$cohortType":"bigint","$cohortValue":"1","b":1}}'],
    ['a value that is no text', '{"a":{"$cohortType":"bigint","$cohortValue":1}}'],
    ['a value that its type does not have', '{"a":{"$cohortType":"bigint","$cohortValue":"1.5"}}'],
    ['a date that there is not', '{"a":{"$cohortType":"date","$cohortValue":"2020-13-01T00:00:00.000Z"}}'],
    ['a type that is no text', '{"a":{"$cohortType":["date"],"$cohortValue":"1"}}'],
  ])('%s', (_, payload) => {
    expect(() => decodeSnapshot(payload)).toThrow(PayloadError);
  });
});

// acceptance 73
test('what comes back is frozen', () => {
  const snapshot = decodeSnapshot(encodeSnapshot({ list: [{ a: 1 }] }));
  expect(() => Object.assign(snapshot, { b: 1 })).toThrow(TypeError);
  expect(() => (snapshot['list'] as unknown[]).push(1)).toThrow(TypeError);
  expect(() => Object.assign((snapshot['list'] as object[])[0]!, { a: 2 })).toThrow(TypeError);
});
