/** Text as it stands, in a cell of a table. */
export function cell(text: string): string {
  return text.replaceAll(/[\\`*_<>|[\]]/g, '\\$&').replaceAll('\n', ' ');
}

/** Text as code, in a cell of a table; nothing for nothing. */
export function code(text: string): string {
  return text === '' ? '' : `\`${text.replaceAll('|', '\\|')}\``;
}

/** A table; columns that are empty in every row are left out. */
export function printMarkdownTable(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = titles.map((_, index) => rows.some((row) => row[index] !== ''));
  const line = (cells: readonly string[]): string => `| ${cells.filter((_, index) => used[index]).join(' | ')} |\n`;
  return [titles, titles.map(() => '---'), ...rows].map(line).join('');
}
