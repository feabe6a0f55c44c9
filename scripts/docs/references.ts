import { COMMANDS } from '../../src/cli/program.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { printFlagReference } from './flags.ts';
import { printMetricReference } from './metrics.ts';

/** The documents that are made from the sources, by their paths. */
export async function references(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/flags.md', await printFlagReference(COMMANDS)],
    ['docs/metrics.md', printMetricReference(await createMetrics({ version: '' }).describe())],
  ]);
}
