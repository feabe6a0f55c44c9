import { diffLines } from 'diff';

/** Prints the diff of two texts in a format that `git apply` and `patch` accept. Returns `''` if they are equal. */
export function printDiff(
  { from, to }: Readonly<Record<'from' | 'to', string>>,
  before: string,
  after: string,
): string {
  return before === after ? '' : `--- ${from}\n+++ ${to}\n${formatHunks(diffDocuments(before, after))}`;
}

/**
 * Returns the lines of both texts, each prefixed with its marker. Compares documents separately, because the comparison
 * time is quadratic in the number of changes.
 */
function diffDocuments(before: string, after: string): readonly string[] {
  const [old, changed] = [before, after].map((text) => text.split(/(?<=\n)(?=---)/)) as [string[], string[]];
  if (old.length !== changed.length) return diffTexts(before, after);
  return old.flatMap((part, index) => diffTexts(part, changed[index] ?? ''));
}

function diffTexts(before: string, after: string): readonly string[] {
  const parts = before === after ? [{ value: before, added: false, removed: false }] : diffLines(before, after);
  return parts.flatMap(({ value, added, removed }) => {
    const mark = added ? '+' : removed ? '-' : ' ';
    return (value.match(/[^\n]*\n|[^\n]+$/g) ?? []).map((line) => mark + line);
  });
}

/** Number of unchanged context lines around a change. */
const CONTEXT = 4;

function formatHunks(lines: readonly string[]): string {
  const hunks: { start: number; end: number }[] = [];
  for (const [index, line] of lines.entries()) {
    const last = hunks.at(-1);
    if (line.startsWith(' ')) continue;
    const end = Math.min(index + 1 + CONTEXT, lines.length);
    if (last && index - CONTEXT <= last.end) last.end = end;
    else hunks.push({ start: Math.max(index - CONTEXT, 0), end });
  }
  const counts = { old: 0, new: 0 };
  let position = 0;
  const count = (side: 'old' | 'new', from: number, to: number): number =>
    lines.slice(from, to).filter((line) => !line.startsWith(side === 'old' ? '+' : '-')).length;
  return hunks
    .map(({ start, end }) => {
      const ranges = (['old', 'new'] as const).map((side) => {
        const first = counts[side] + count(side, position, start);
        const length = count(side, start, end);
        counts[side] = first + length;
        return `${length === 0 ? first : first + 1},${length}`;
      });
      position = end;
      const text = lines.slice(start, end).map((line) => (line.endsWith('\n') ? line : `${line}\n${NO_LINE_END}\n`));
      return `@@ -${ranges.join(' +')} @@\n${text.join('')}`;
    })
    .join('');
}

const NO_LINE_END = '\\ No newline at end of file';
