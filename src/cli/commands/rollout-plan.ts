import { defineCommand, EXIT } from '../command.ts';
import { findNamespace, selectedNamespace, selectionOptions } from '../inventory/inventory.ts';
import { assumptionBlocks } from '../output/print.ts';
import { printData, styleOf } from '../output/print.ts';
import { gatherRollout, rolloutOptions } from '../rollout/gather.ts';
import {
  countNamespaces,
  planNamespaces,
  namespaceBlocks,
  printCounts,
  printNamespaceTable,
} from '../rollout/namespaces.ts';

const DETAILS = `
Says of each namespace which level of the Pod Security Standards it is held to today and which one
enforcement would bring, what would then be refused, why, and what to do about it. Nothing is written.

A namespace with a level of its own keeps it; what it would refuse is not looked at. The level of others
follows from the security context constraints (SCCs) that their service accounts may use, where the
server keeps their labels; it is restricted elsewhere.

Exit codes:
  0  nothing would be refused
  1  something would be refused, or cannot be judged
  2  wrong usage, or what cannot be read

Examples:
  portcullis rollout plan
  portcullis rollout plan -n shop -o json
  portcullis rollout plan -f exported/ --scc-mode enforce
`;

/** Plans the rollout of enforcement namespace by namespace. */
export const command = defineCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...selectionOptions },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const facts = await gatherRollout(options, io, new Date());
    if (only !== undefined) findNamespace(facts.store, only);
    const namespaces = await planNamespaces(facts, io, only);
    const counts = countNamespaces(namespaces);
    const { assumptions } = facts;
    const { output } = options;
    if (output === 'table') {
      const style = styleOf(io);
      const blocks = [
        ...assumptionBlocks(assumptions),
        ...(namespaces.length === 0 ? [] : [printNamespaceTable(namespaces)]),
        ...namespaceBlocks(namespaces, style),
        `${style('bold', printCounts(counts))}\n`,
      ];
      io.stdout.write(blocks.join('\n'));
    } else io.stdout.write(printData(output, { summary: counts, namespaces, assumptions }));
    return counts.violating + counts.inconclusive === 0 ? EXIT.passed : EXIT.violations;
  },
});
