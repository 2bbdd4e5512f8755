/** Files that a document links to, without the place inside of them. */
export function linkedFiles(markdown: string): string[] {
  const prose = markdown.replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, '');
  const links = [...prose.matchAll(/\]\(([^)\s]+)[^)]*\)|^\[[^\]]+\]: (\S+)/gm)].map(
    ([, inline, listed]) => inline ?? listed!,
  );
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => link.replace(/#.*/, ''))
    .filter((link) => link !== '');
}
