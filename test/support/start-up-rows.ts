import { specFiles } from './specs.js';

/** A row, and whether the test is of what comes near it and passes. */
const MARK = /\b((?:VAL|READY)-\d\d)( near miss)?/g;

/** A comment of whole lines and the line below it. */
const COMMENTED = /((?:^[ \t]*\/\/.*\n)+)(.*)/gm;

/** A test, or one case of a table of them: an object or a tuple. One that is skipped proves nothing. */
const STARTS_TEST = /^\s*(?:test(?:\.each)?\b(?!\.)|[[{])/;

/** What tests say of rows in the comment directly above them: 'VAL-33' and 'VAL-33 near miss'. */
export function marksOf(text: string): string[] {
  return [...text.matchAll(COMMENTED)]
    .filter(([, , below]) => STARTS_TEST.test(below!))
    .flatMap(([, comment]) => [...comment!.matchAll(MARK)].map(([mark]) => mark));
}

export function marksInSpecs(): ReadonlySet<string> {
  return new Set(specFiles().flatMap(({ text }) => marksOf(text)));
}
