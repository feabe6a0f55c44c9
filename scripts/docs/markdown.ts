/** Escapes text for a table cell. */
export function cell(text: string): string {
  return text.replaceAll(/[\\`*_<>|[\]]/g, '\\$&').replaceAll('\n', ' ');
}

/** Formats text as code for a table cell. Empty text stays empty. */
export function code(text: string): string {
  return text === '' ? '' : `\`${text.replaceAll('|', '\\|')}\``;
}

/** Formats a table, omitting columns that are empty in every row. */
export function formatMarkdownTable(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = titles.map((_, index) => rows.some((row) => row[index] !== ''));
  const line = (cells: readonly string[]): string => `| ${cells.filter((_, index) => used[index]).join(' | ')} |\n`;
  return [titles, titles.map(() => '---'), ...rows].map(line).join('');
}
