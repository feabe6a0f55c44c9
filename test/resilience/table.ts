/** A reporter for `node --test` that prints the rows of all faults as one table in the format of the documentation. */
import type { TestEvent } from 'node:test/reporters';

const HEADER = ['| fault | reviews | failed | wrong | recovery |', '|---|---|---|---|---|'];

export default async function* formatRows(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const rows: string[] = [];
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.message.startsWith('| ')) rows.push(data.message);
  }
  const sums = [1, 2, 3].map((column) => rows.reduce((sum, row) => sum + Number(row.split('|')[column + 1]), 0));
  yield `${[...HEADER, ...rows, `| all | ${sums.join(' | ')} | |`].join('\n')}\n`;
}
