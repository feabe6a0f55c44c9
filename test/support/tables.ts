/** Tables with the measurements of tests, in the format of the documentation. */

/** The cells of a row. */
export type Row = readonly string[];

interface RowTable {
  readonly columns: readonly string[];
  /** Columns whose numbers are summed in the last row. */
  readonly summed: readonly string[];
}

/** The tables. A row belongs to the table with the same number of columns. */
const TABLES: readonly RowTable[] = [
  { columns: ['fault', 'reviews', 'failed', 'wrong', 'recovery'], summed: ['reviews', 'failed', 'wrong'] },
  {
    columns: ['attack', 'peak RSS', 'p99', 'p99 of CPU time', 'restart', 'admitted', 'ended'],
    summed: ['ended'],
  },
];

/** Returns the lines of all tables that have rows. */
export function formatTables(rows: readonly Row[]): readonly string[] {
  return TABLES.flatMap(({ columns, summed }) => {
    const own = rows.filter((row) => row.length === columns.length);
    if (own.length === 0) return [];
    const sum = (index: number): number => own.reduce((total, row) => total + Number(row[index]), 0);
    const all = columns.map((column, index) =>
      index === 0 ? 'all' : summed.includes(column) ? String(sum(index)) : '',
    );
    const lines = [columns, columns.map(() => '---'), ...own, all];
    return [...lines.map((line) => `| ${line.join(' | ')} |`), ''];
  });
}
