/** A CSV file that cannot be loaded: where, what was seen, and what was wanted. */
export class CsvFileError extends Error {
  readonly code = 'csv-file';

  constructor(
    readonly at: { readonly file: string; readonly line?: number; readonly column?: string },
    seen: string,
    wanted?: string,
  ) {
    const place = [
      at.file,
      at.line !== undefined && `line ${at.line}`,
      at.column !== undefined && `column ${at.column}`,
    ].filter(Boolean);
    super(`${place.join(', ')}: ${[seen, wanted].filter(Boolean).join('; ')}`);
    this.name = 'CsvFileError';
  }
}
