/**
 * Counters and histograms of the hot path: numbers in memory, which become metrics of the registry when they are scraped.
 * The registry's own look a series up by its labels each time, which costs more than the decision that is counted.
 */
import { Counter, type Registry } from 'prom-client';

interface Description<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly registers: readonly Registry[];
}

/** One series of a counter. */
export interface Cell {
  count: number;
}

export interface Tally<Label extends string> {
  /** Finds or makes the series with these labels; keep it, and raise its `count`. */
  cell(labels: Readonly<Record<Label, string>>): Cell;
}

/** Makes a counter whose series are cells. */
export function createTally<Label extends string>(description: Description<Label>): Tally<Label> {
  const cells = new Map<string, Cell & { readonly labels: Readonly<Record<Label, string>>; scraped: number }>();
  const counter = new Counter({
    ...description,
    labelNames: [...description.labelNames],
    registers: [...description.registers],
    collect() {
      for (const cell of cells.values()) {
        counter.inc({ ...cell.labels }, cell.count - cell.scraped);
        cell.scraped = cell.count;
      }
    },
  });
  return {
    cell(labels) {
      const key = JSON.stringify(description.labelNames.map((name) => labels[name]));
      const cell = cells.get(key) ?? { labels, count: 0, scraped: 0 };
      cells.set(key, cell);
      return cell;
    },
  };
}

export interface Timing {
  /** Counts one duration, in seconds. */
  observe(seconds: number): void;
}

/** Makes a histogram of durations, with one series for each value of its one label. */
export function createTimings<Label extends string>(
  { name, help, labelNames, registers }: Description<Label> & { readonly labelNames: readonly [Label] },
  buckets: readonly number[],
): (value: string) => Timing {
  const series = new Map<string, { readonly counts: Float64Array; sum: number }>();
  const [label] = labelNames;
  const metric = {
    name,
    help,
    labelNames,
    type: 'histogram',
    aggregator: 'sum',
    get: () =>
      Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values: [...series].flatMap(values) }),
    reset: () => series.clear(),
  };
  const values = ([value, { counts, sum }]: [string, { readonly counts: Float64Array; readonly sum: number }]) => {
    let total = 0;
    const lines = [...buckets, '+Inf'].map((le, index) => {
      total += counts[index] ?? 0;
      return { metricName: `${name}_bucket`, labels: { le, [label]: value }, value: total };
    });
    return [
      ...lines,
      { metricName: `${name}_sum`, labels: { [label]: value }, value: sum },
      { metricName: `${name}_count`, labels: { [label]: value }, value: total },
    ];
  };
  // The registry asks a metric for its values and nothing else; its type names the class that it would make itself.
  for (const registry of registers) registry.registerMetric(metric as unknown as Counter);
  return (value) => {
    const one = series.get(value) ?? { counts: new Float64Array(buckets.length + 1), sum: 0 };
    series.set(value, one);
    return {
      observe(seconds) {
        let index = 0;
        while (index < buckets.length && seconds > (buckets[index] ?? Infinity)) index++;
        one.counts[index] = (one.counts[index] ?? 0) + 1;
        one.sum += seconds;
      },
    };
  };
}
