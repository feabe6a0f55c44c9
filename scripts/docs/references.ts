import { COMMANDS } from '../../src/cli/program.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { printFlagReference } from './flags.ts';
import { formatMetricReference } from './metrics.ts';

/** Returns the generated documents by their paths. */
export async function references(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/reference/commands.md', await printFlagReference(COMMANDS)],
    ['docs/reference/metrics.md', formatMetricReference(await createMetrics({ version: '' }).describe())],
  ]);
}
