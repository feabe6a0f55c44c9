import { CONFIGURATION_NAME } from '../../api/names.ts';
import { reviewAccess } from '../../cluster/access-reviews.ts';
import { printCount } from '../../kube/text.ts';
import type { UserInfo } from '../../kube/types.ts';
import { type EnforcementCheck, parseMinimum, printServer, reportedMinimum } from '../../policy/kubelet/index.ts';
import type { Action } from '../../policy/rbac/index.ts';
import { checkApiServer } from '../../views/kubelet.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { assumptionBlocks, listOptions, printListing, printTable } from '../output/print.ts';
import { gatherKubelets, isBelow, type KubeletFacts, kubeletOptions, printNodes, reportNodes } from './facts.ts';

const DETAILS = `
Shows the minimum kubelet version and the nodes with older kubelets:

  requested   the minimum in nodes.config.openshift.io/cluster, or in the settings
  in force    the minimum that webhooks apply. The leader raises it when all nodes meet the requested minimum
  rendered    the minimum from which feature gates are computed. It never exceeds the minimum in force
  authorizer  whether the API server of the kubeconfig calls the authorization webhook, which enforces the
              minimum. This requires permission to create SubjectAccessReviews

The exit code is 1 if nodes are below the minimum, or if their version is unknown.

Examples:
  portcullis kubelet status
  portcullis kubelet status -o json
  portcullis kubelet status -f cluster-dump/
`;

export const command = defineCommand({
  details: DETAILS,
  options: { ...kubeletOptions, ...listOptions },
  async run(options, _operands, io) {
    const facts = await gatherKubelets(options, io, ['Node']);
    const { minimums, assumptions, store } = facts;
    const parsed = parseMinimum(reportedMinimum(minimums.requested, minimums.inForce));
    const nodes = 'value' in parsed && parsed.value ? reportNodes(facts, parsed.value) : [];
    const below = nodes.filter(isBelow).length;
    const { conditions: all = [] } = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status ?? {};
    const conditions = all.filter(({ type }) => CONDITIONS.includes(type));
    const isSet = minimums.requested !== '' || minimums.inForce !== '';
    const authorizer = minimums.inForce === '' ? undefined : await checkAuthorizer(facts, io);
    const summary = isSet
      ? `${printCount(nodes.length, 'node')}, ${below} below the minimum or with an unknown version`
      : `No minimum kubelet version is set in ${minimums.source}.`;
    const data = { ...minimums, ...(authorizer ? { authorizer } : {}), below, nodes, conditions, assumptions };
    const objects = nodes.map(({ name }) => ({ kind: 'Node', name }));
    printListing(io, options.output, { data, objects }, (style) => [
      ...(isSet ? [printMinimums(minimums, authorizer)] : []),
      ...(conditions.length === 0
        ? []
        : [printTable(conditions.map(({ type, status, reason, message }) => [`${type}=${status}`, reason, message]))]),
      ...(nodes.length === 0 ? [] : [printNodes(nodes, options, style)]),
      ...assumptionBlocks(assumptions),
      `${style('bold', summary)}\n`,
    ]);
    return below === 0 ? EXIT.passed : EXIT.violations;
  },
});

const CONDITIONS = ['KubeletsMeetMinimum', 'KubeletMinimumEnforced', 'Progressing'];

/**
 * Checks whether the API server that responds to this command calls the authorization webhook. Returns `undefined` for
 * manifests.
 */
async function checkAuthorizer({ connection }: KubeletFacts, { signal }: Io): Promise<EnforcementCheck | undefined> {
  if (!connection) return undefined;
  const review = (user: UserInfo, action: Action) => reviewAccess(connection, user, action, { signal });
  return await checkApiServer(connection.server, review);
}

function printMinimums(
  { requested, source, inForce, rendered }: KubeletFacts['minimums'],
  authorizer: EnforcementCheck | undefined,
): string {
  const error = parseMinimum(requested);
  return printTable([
    ['Requested:', requested || 'none', 'error' in error ? error.error : source],
    ['In force:', inForce || 'none'],
    ['Rendered:', rendered || 'none'],
    ...(authorizer ? [['Authorizer:', authorizer.webhook, printServer(authorizer)]] : []),
  ]);
}
