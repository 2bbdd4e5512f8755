/** Text that PostgreSQL can keep: no NUL and no half of a surrogate pair, both of which JSON carries. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
