/** Of a class of SQLSTATE, or of the system: nobody is there. */
const UNREACHABLE = /^(08|57P|53)|^(ECONNREFUSED|ECONNRESET|ENOTFOUND|ETIMEDOUT|EPIPE)$/;
/** Somebody else was faster, or it took too long: the same again may succeed. */
const PASSING = /^(40001|40P01|55P03|57014)$/;
/** Data exceptions, and limits of the server such as the size of an index row: the same again fails again. */
const UNACCEPTABLE = /^(22|54)[0-9A-Z]{3}$/;
const BROKEN =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/;

export function isUnreachable(error: unknown): boolean {
  return (
    codesOf(error).some((code) => UNREACHABLE.test(code)) || BROKEN.test((error as Error | undefined)?.message ?? '')
  );
}

export function isPassing(error: unknown): boolean {
  return codesOf(error).some((code) => PASSING.test(code));
}

/** The SQLSTATE of values that the database will never accept, or undefined. */
export function unacceptableCode(error: unknown): string | undefined {
  return codesOf(error).find((code) => UNACCEPTABLE.test(code));
}

/** MikroORM and the driver wrap what happened; several addresses of one host fail together. */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 3) return [];
  const { code, cause, previous, errors = [] } = error as Record<string, unknown>;
  const inner: unknown[] = [cause, previous, ...(Array.isArray(errors) ? (errors as unknown[]) : [])];
  return [...(typeof code === 'string' ? [code] : []), ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
