/** A row of the results. */
export interface Row {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Upper or lower bound for the value, in the same unit. */
  readonly target?: { readonly atMost: number } | { readonly atLeast: number };
}

/** Returns whether the value is within its bound, or `undefined` without a bound. */
export function isWithinTarget({ value, target }: Row): boolean | undefined {
  if (!target) return undefined;
  return 'atMost' in target ? value <= target.atMost : value >= target.atLeast;
}

export function formatTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => [row.name, formatValue(row.value), row.unit, formatTarget(row)]);
  const widths = [0, 1, 2].map((column) => Math.max(...cells.map((line) => (line[column] ?? '').length)));
  return cells
    .map(([name = '', value = '', unit = '', target = '']) =>
      `${name.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)} ${unit.padEnd(widths[2] ?? 0)}  ${target}`.trimEnd(),
    )
    .join('\n');
}

function formatValue(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString('en');
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function formatTarget(row: Row): string {
  if (!row.target) return '';
  const bound = 'atMost' in row.target ? `at most ${row.target.atMost}` : `at least ${row.target.atLeast}`;
  return `${bound} ${row.unit}: ${isWithinTarget(row) ? 'yes' : 'NO'}`;
}
