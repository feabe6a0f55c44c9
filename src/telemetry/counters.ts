/**
 * Counters and histograms for the hot path. They are plain numbers that are copied to the registry on each scrape. A
 * prom-client counter looks up a series by its labels on each increment, which takes longer than a decision.
 */
import { Counter, type Registry } from 'prom-client';
import { LIMITS } from '../kube/limits.ts';
import { countExceeded } from './limits.ts';

interface Description<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly registers: readonly Registry[];
}

export interface CounterSeries {
  count: number;
}

export interface Tally<Label extends string> {
  /**
   * Returns the series for the labels. The caller increments its `count`. If the counter already has the maximum number
   * of series, returns the series in which all labels are `other` instead of a new one.
   */
  cell(labels: Readonly<Record<Label, string>>): CounterSeries;
  /** Returns all series. */
  all(): Iterable<Readonly<CounterSeries> & { readonly labels: Readonly<Record<Label, string>> }>;
}

/** Label value in the series that counts everything beyond the maximum number of series. */
const OTHER = 'other';

interface Series<Labels> extends CounterSeries {
  readonly labels: Labels;
  scraped: number;
}

/** The series by label value. The tree has one level for each label. */
interface SeriesTree<Labels> {
  readonly children: Map<string, SeriesTree<Labels>>;
  series?: Series<Labels>;
}

/** Creates a counter whose series can be incremented directly. */
export function createCounterCells<Label extends string>(description: Description<Label>): Tally<Label> {
  type Labels = Readonly<Record<Label, string>>;
  const { labelNames } = description;
  const root: SeriesTree<Labels> = { children: new Map() };
  const all: Series<Labels>[] = [];
  const other = Object.fromEntries(labelNames.map((name) => [name, OTHER])) as Labels;
  const find = (labels: Labels): Series<Labels> | undefined => {
    let node: SeriesTree<Labels> | undefined = root;
    for (const name of labelNames) node = node?.children.get(labels[name]);
    return node?.series;
  };
  const add = (labels: Labels): Series<Labels> => {
    let node = root;
    for (const name of labelNames) {
      const child = node.children.get(labels[name]) ?? { children: new Map() };
      node.children.set(labels[name], child);
      node = child;
    }
    node.series = { labels, count: 0, scraped: 0 };
    all.push(node.series);
    return node.series;
  };
  const counter = new Counter({
    ...description,
    labelNames: [...labelNames],
    registers: [...description.registers],
    collect() {
      for (const series of all) {
        counter.inc({ ...series.labels }, series.count - series.scraped);
        series.scraped = series.count;
      }
    },
  });
  return {
    cell(labels) {
      const known = find(labels);
      if (known) return known;
      if (all.length < LIMITS.counterSeries) return add(labels);
      countExceeded('counterSeries');
      return find(other) ?? add(other);
    },
    all: () => all,
  };
}

interface Timing {
  /** Records a duration in seconds. */
  observe(seconds: number): void;
}

/** Creates a duration histogram with one label. */
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
  // The cast is safe because the registry only reads a metric's values. Its type declares classes that only prom-client
  // can create.
  for (const registry of registers) registry.registerMetric(metric as unknown as Counter);
  return (value) => {
    const histogram = series.get(value) ?? { counts: new Float64Array(buckets.length + 1), sum: 0 };
    series.set(value, histogram);
    return {
      observe(seconds) {
        let index = 0;
        while (index < buckets.length && seconds > (buckets[index] ?? Infinity)) index++;
        histogram.counts[index] = (histogram.counts[index] ?? 0) + 1;
        histogram.sum += seconds;
      },
    };
  };
}
