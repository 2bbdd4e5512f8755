/** `static`: once a batch. `perRow`: once a row. `perRowWithOriginalValue`: once a row, with the value it replaces. */
export type AnonymiseFactoryMode = 'static' | 'perRow' | 'perRowWithOriginalValue';

export interface AnonymiseFactoryContext {
  readonly entity: string;
  readonly property: string;
  readonly originalValue: unknown;
  readonly now: Date;
  readonly tenantId: string;
}

/** Makes the value that replaces a personal one. Synchronous; null writes SQL NULL. Default mode: static. */
export interface AnonymiseFactory {
  readonly mode?: AnonymiseFactoryMode;
  create(context: AnonymiseFactoryContext): unknown;
}

export type AnonymiseFactoryClass = abstract new (...args: never[]) => AnonymiseFactory;
