import type { Condition } from '../../kube/conditions.ts';
import { CONFIGURATION_NAME } from '../../kube/well-known.ts';
import { reportedMinimum } from '../../policy/kubelet/transition.ts';
import { parseMinimum } from '../../policy/kubelet/version.ts';
import { defineCommand, EXIT } from '../command.ts';
import { gatherKubelets, isBelow, kubeletOptions, printNodes, reportNodes, type Minimums } from '../kubelet.ts';
import { assumptionBlocks, listOptions, printCount, printListing, printTable } from '../output/print.ts';

const DETAILS = `
Shows the minimum kubelet version and the nodes with older kubelets:

  requested  the minimum in nodes.config.openshift.io/cluster, or in the settings
  enforced   the minimum that is enforced. It is raised to the requested minimum when all nodes meet that
  rendered   the minimum from which feature gates are computed. It never exceeds the enforced minimum

Nodes are compared with the higher of the requested and the enforced minimum.

Exit codes:
  0  no minimum is set, or all nodes meet it
  1  some nodes are below the minimum, or their version is unknown
  2  wrong usage, or the input cannot be read

Examples:
  portcullis kubelet status
  portcullis kubelet status -o json
  portcullis kubelet status -f cluster-dump/
`;

/** Shows the minimum kubelet version and the nodes below it. */
export const command = defineCommand({
  details: DETAILS,
  options: { ...kubeletOptions, ...listOptions },
  async run(options, _operands, io) {
    const facts = await gatherKubelets(options, io, ['Node']);
    const { minimums, assumptions, store } = facts;
    const parsed = parseMinimum(reportedMinimum(minimums.requested, minimums.enforced));
    const nodes = 'value' in parsed && parsed.value ? reportNodes(facts, parsed.value) : [];
    const below = nodes.filter(isBelow).length;
    const { conditions: all = [] } = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status ?? {};
    const conditions = all.filter(({ type }) => type === 'KubeletsMeetMinimum' || type === 'Progressing');
    const isSet = minimums.requested !== '' || minimums.enforced !== '';
    const summary = isSet
      ? `${printCount(nodes.length, 'node')}, ${below} below the minimum or of unknown version`
      : `No minimum kubelet version is set in ${minimums.source}.`;
    const data = { ...minimums, below, nodes, conditions, assumptions };
    const objects = nodes.map(({ name }) => ({ kind: 'Node', name }));
    printListing(io, options.output, { data, objects }, (style) => [
      ...(isSet ? [printMinimums(minimums)] : []),
      ...(conditions.length === 0 ? [] : [printConditions(conditions)]),
      ...(nodes.length === 0 ? [] : [printNodes(nodes, options, style)]),
      ...assumptionBlocks(assumptions),
      `${style('bold', summary)}\n`,
    ]);
    return below === 0 ? EXIT.passed : EXIT.violations;
  },
});

function printMinimums({ requested, source, enforced, rendered }: Minimums): string {
  const error = parseMinimum(requested);
  return printTable([
    ['Requested:', requested || 'none', 'error' in error ? error.error : source],
    ['Enforced:', enforced || 'none'],
    ['Rendered:', rendered || 'none'],
  ]);
}

function printConditions(conditions: readonly Condition[]): string {
  return printTable(conditions.map(({ type, status, reason, message }) => [`${type}=${status}`, reason, message]));
}
