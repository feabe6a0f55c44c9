import type { Registry } from 'prom-client';

/** What a metric is, apart from its values. */
export interface MetricDescription {
  readonly name: string;
  /** `counter`, `gauge`, `histogram` or `summary`. */
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

/** Describes the metrics of a registry, in the order in which they were made. */
export async function describeMetrics(registry: Registry): Promise<readonly MetricDescription[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type }) => {
    // The types of the package hide the labels, and have numbers for what it has words for.
    const { labelNames = [] } = registry.getSingleMetric(name) as unknown as { labelNames?: readonly string[] };
    return { name, type: String(type), labels: labelNames, help };
  });
}
