import { randomBytes, randomUUID } from 'node:crypto';

/** Where time, ids and salts come from. Tests give their own. */
export class TimeAndIds {
  now(): Date {
    return new Date();
  }

  newId(): string {
    return randomUUID();
  }

  newSalt(): string {
    return randomBytes(16).toString('hex');
  }
}
