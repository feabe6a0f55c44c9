import { printable } from './text.ts';

/** A table as kubectl writes them: a header in capitals, and as many blanks between columns as it takes. */
export function printColumns(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows.map((row) => row.map(printable))];
  const widths = header.map((_title, column) => longest(lines, column));
  return lines
    .map(
      (cells) =>
        `${cells
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('   ')
          .trimEnd()}\n`,
    )
    .join('');
}

function longest(lines: readonly (readonly string[])[], column: number): number {
  return lines.reduce((width, cells) => Math.max(width, cells[column]?.length ?? 0), 0);
}
