import { type ArgumentMetadata, ValidationPipe } from '@nestjs/common';
import { ValidateBy, ValidateIf, type ValidationError } from 'class-validator';
import { type Fault, Problem, pointerTo } from '../problem.js';
import { isStorable } from './storable-text.js';

/** Faults of shape: the request is not what the document says it is. Others are values that are understood and refused. */
const SHAPE = new Set([
  'whitelistValidation',
  'isDefined',
  'isString',
  'isInt',
  'isBoolean',
  'isArray',
  'isObject',
  'nestedValidation',
  'shape',
]);

/** Checks bodies and queries against their classes; unknown members are refused. */
class RequestPipe extends ValidationPipe {
  constructor(private readonly pointerOf: (path: string) => string) {
    super({
      transform: true,
      whitelist: true,
      forbidNonWhitelisted: true,
      forbidUnknownValues: true,
      validationError: { target: false, value: false },
      exceptionFactory: (errors) => problemOf(errors, pointerOf),
    });
  }

  override transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    const path = inheritedName(value);
    if (path === undefined) return super.transform(value, metadata) as Promise<unknown>;
    const fault = { pointer: this.pointerOf(path), detail: UNKNOWN_MEMBER };
    throw new Problem('validation', UNKNOWN_MEMBER, { faults: [fault], isMalformed: true });
  }
}

export const bodyPipe = new RequestPipe((path) => path);
export const queryPipe = new RequestPipe((path) => `query:${path.slice(1)}`);

const UNKNOWN_MEMBER = 'This member is not known.';

/** Where a member has a name that every object inherits, `toString` for one: the library drops it before the check of names. */
function inheritedName(value: unknown, path = ''): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, member] of Object.entries(value)) {
    const pointer = pointerTo(path, name);
    const found = name in Object.prototype ? pointer : inheritedName(member, pointer);
    if (found !== undefined) return found;
  }
  return undefined;
}

interface FoundFault extends Fault {
  readonly isShape: boolean;
}

function problemOf(errors: readonly ValidationError[], pointerOf: (path: string) => string): Problem {
  const found = errors.flatMap((error) => faultsOf(error, ''));
  const faults = found.map(({ pointer, detail }) => ({ pointer: pointerOf(pointer), detail }));
  const first = faults[0]?.detail ?? 'The request is not valid.';
  return new Problem('validation', first, { faults, isMalformed: found.some(({ isShape }) => isShape) });
}

function faultsOf({ property, constraints = {}, children = [] }: ValidationError, path: string): FoundFault[] {
  const pointer = pointerTo(path, property);
  // Of several faults of one value the first one that says what shape it should have.
  const broken = Object.keys(constraints);
  const name = broken.find((each) => SHAPE.has(each)) ?? broken.at(-1);
  const own = name === undefined ? [] : [{ pointer, detail: detailOf(name, constraints), isShape: SHAPE.has(name) }];
  return [...own, ...children.flatMap((child) => faultsOf(child, pointer))];
}

function detailOf(name: string, constraints: Readonly<Record<string, string>>): string {
  if (name === 'whitelistValidation') return UNKNOWN_MEMBER;
  return `${constraints[name]}.`.replace(/\.\.$/, '.');
}

/** Text that says something and that the database can keep. */
export function IsPlainText(min: number, max: number): PropertyDecorator {
  const isPlainText = (value: unknown) =>
    typeof value === 'string' && value.trim().length >= min && value.length <= max && isStorable(value);
  const message = `$property must be text of ${min} to ${max} characters, without NUL and halves of letters`;
  return ValidateBy({ name: 'plainText', validator: { validate: isPlainText, defaultMessage: () => message } });
}

/** What is not there is not checked. Null is there: it is no default. */
export function MayBeLeftOut(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

/** The version in If-Match: `"3"`, or nothing for `*` and where there is none. Throws a Problem. */
export function versionIn(ifMatch: string | undefined): number | undefined {
  if (ifMatch === undefined || ifMatch.trim() === '*') return undefined;
  const version = /^\s*(?:W\/)?"?(\d{1,9})"?\s*$/.exec(ifMatch)?.[1];
  if (version) return Number(version);
  const detail = 'If-Match must be an ETag of this resource, such as "3", or *.';
  throw new Problem('validation', detail, { faults: [{ pointer: 'header:If-Match', detail }], isMalformed: true });
}
