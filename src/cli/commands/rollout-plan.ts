import { defineCommand, EXIT } from '../command.ts';
import { selectedNamespace, selectionOptions } from '../inventory/inventory.ts';
import { assumptionBlocks, printReport } from '../output/print.ts';
import {
  countNamespaces,
  gatherRollout,
  namespaceBlocks,
  planNamespaces,
  printNamespaceCounts,
  printNamespaceTable,
  rolloutOptions,
} from '../rollout.ts';

const DETAILS = `
Shows the current level of each namespace, the level with enforcement, the workloads that would be refused,
the reasons and the next steps. The command changes nothing.

A namespace with its own label keeps its level and is not evaluated. The level of other namespaces follows
from the security context constraints (SCCs) that their service accounts may use, if the server manages
their labels. Otherwise it is restricted.

Exit codes:
  0  no workload would be refused
  1  some workloads would be refused, or an evaluation failed
  2  wrong usage, or the input cannot be read

Examples:
  portcullis rollout plan
  portcullis rollout plan -n shop -o json
  portcullis rollout plan -f exported/ --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...selectionOptions },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const facts = await gatherRollout(options, io, new Date());
    const { assumptions } = facts;
    const namespaces = await planNamespaces(facts, io, only);
    const counts = countNamespaces(namespaces);
    printReport(io, options.output, { summary: counts, namespaces, assumptions }, (style) => [
      ...assumptionBlocks(assumptions),
      ...(namespaces.length === 0 ? [] : [printNamespaceTable(namespaces)]),
      ...namespaceBlocks(namespaces, style),
      `${style('bold', printNamespaceCounts(counts))}\n`,
    ]);
    return counts.violating + counts.inconclusive === 0 ? EXIT.passed : EXIT.violations;
  },
});
