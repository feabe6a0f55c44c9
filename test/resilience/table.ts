/** A reporter for `node --test` that prints the rows of the tests as tables in the format of the documentation. */
import type { TestEvent } from 'node:test/reporters';

interface RowTable {
  readonly columns: readonly string[];
  /** Columns whose numbers are added in a last row. */
  readonly summed: readonly string[];
}

/** The tables. A row belongs to the table with its number of columns. */
const TABLES: readonly RowTable[] = [
  { columns: ['fault', 'reviews', 'failed', 'wrong', 'recovery'], summed: ['reviews', 'failed', 'wrong'] },
  {
    columns: ['attack', 'peak RSS', 'p99', 'p99 of CPU time', 'restart', 'admitted', 'ended'],
    summed: ['ended'],
  },
];

export default async function* formatRows(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const rows: string[][] = [];
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.message.startsWith('| ')) rows.push(data.message.slice(2, -2).split(' | '));
  }
  for (const { columns, summed } of TABLES) {
    const own = rows.filter((row) => row.length === columns.length);
    if (own.length === 0) continue;
    const sum = (index: number): number => own.reduce((total, row) => total + Number(row[index]), 0);
    const all = columns.map((column, index) =>
      index === 0 ? 'all' : summed.includes(column) ? String(sum(index)) : '',
    );
    const lines = [columns, columns.map(() => '---'), ...own, all];
    yield `${lines.map((line) => `| ${line.join(' | ')} |`).join('\n')}\n\n`;
  }
}
