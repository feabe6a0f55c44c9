import { compareBytes } from '../../kube/text.ts';

const CONTEXT = 3;

/** A unified diff of two values as indented JSON, as the API server appends it to some refusals. */
export function lineDiff(before: unknown, after: unknown): string {
  const a = linesOf(before);
  const b = linesOf(after);
  const kept = commonLines(a, b);
  const lines = [...merge(a, b, kept)];
  return hunks(lines).join('');
}

type Line = readonly [mark: ' ' | '-' | '+', text: string];

function linesOf(value: unknown): readonly string[] {
  return JSON.stringify(inOrder(value), undefined, 1).split('\n');
}

/** The order of fields is no difference. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => compareBytes(a, b))
      .map(([field, part]) => [field, inOrder(part)]),
  );
}

/** The longest common subsequence, as pairs of line numbers. */
function commonLines(a: readonly string[], b: readonly string[]): readonly (readonly [number, number])[] {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = lengths[i];
      if (row) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return pairs;
}

function* merge(
  a: readonly string[],
  b: readonly string[],
  kept: readonly (readonly [number, number])[],
): Generator<Line> {
  let i = 0;
  let j = 0;
  for (const [nextA, nextB] of [...kept, [a.length, b.length] as const]) {
    while (i < nextA) yield ['-', a[i++] ?? ''];
    while (j < nextB) yield ['+', b[j++] ?? ''];
    if (nextA < a.length) yield [' ', a[i++] ?? ''];
    j += 1;
  }
}

function hunks(lines: readonly Line[]): string[] {
  const isNear = (index: number): boolean =>
    lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(([mark]) => mark !== ' ');
  const out: string[] = [];
  let numbers = { a: 1, b: 1 };
  let hunk: { a: number; b: number; lines: Line[] } | undefined;
  const flush = (): void => {
    if (hunk) out.push(print(hunk.a, hunk.b, hunk.lines));
    hunk = undefined;
  };
  for (const [index, line] of lines.entries()) {
    if (isNear(index)) (hunk ??= { ...numbers, lines: [] }).lines.push(line);
    else flush();
    numbers = { a: numbers.a + (line[0] === '+' ? 0 : 1), b: numbers.b + (line[0] === '-' ? 0 : 1) };
  }
  flush();
  return out;
}

function print(a: number, b: number, lines: readonly Line[]): string {
  const count = (without: string): number => lines.filter(([mark]) => mark !== without).length;
  const body = lines.map(([mark, text]) => `${mark}${text}\n`).join('');
  return `@@ -${a},${count('+')} +${b},${count('-')} @@\n${body}`;
}
