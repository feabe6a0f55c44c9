import { countNamespaces, needsFix, type NextStep, type RolloutStatus } from '../../policy/rollout/index.ts';
import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { assumptionBlocks, listOptions, printTable } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';
import {
  COUNT_COLUMNS,
  countCells,
  countEvaluated,
  findNewerVersions,
  planNamespaces,
  selectNamespaces,
} from '../report/namespaces.ts';
import { printStep } from '../report/next-steps.ts';
import { describeInterface, describeStatus, rolloutStatus } from '../report/rollout-status.ts';
import { listedNamespaces, namespaceSections, printNamespaceCounts } from './namespace-table.ts';

const WITHOUT_SERVER = {
  state: 'Off',
  reasons: ['the policies in the API server have a constant default, without a rollout'],
} as const;
const PLAN_DEFAULT: NextStep = {
  text: 'Plan another default (LEVEL: baseline or restricted)',
  command: 'portcullis rollout plan --level LEVEL',
};

const DETAILS = `
Shows the state of the rollout (Off, Evaluating, Blocked or Enforcing), the reason, and the next action. The command
evaluates the current state of all namespaces, and changes nothing. -o wide lists all namespaces that have denied
workloads, with their details, and the fields of the interface that OpenShift defines. -n and -l restrict only the
list, not the state of the cluster.

The exit code is 1 if Portcullis is not installed in the cluster.

Examples:
  portcullis rollout status
  portcullis rollout status -n shop
  portcullis rollout status -o json
  portcullis rollout status --context 'prod-*'
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

export const command = defineClusterCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...clustersOptions, ...selectionOptions, ...selectorOption, ...listOptions },
  columns: ['STATE', 'DEFAULT', ...COUNT_COLUMNS],
  async gather(options, io) {
    const only = selectedNamespace(options);
    const clusterFlags = getClusterFlags(options);
    const facts = await gatherRollout(options, io, new Date());
    const { state, settingsSource: settings, isInstalled } = facts;
    if (!isInstalled) return describeMissing(clusterFlags);
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const newer = findNewerVersions(planned, facts.store);
    const assumptions = [...facts.assumptions, ...newer];
    const selected = selectNamespaces(planned, facts.store, { ...options, namespace: only });
    const namespaces = only === undefined ? selected.filter(needsFix) : selected;
    const status: RolloutStatus = facts.policies
      ? { ...WITHOUT_SERVER, next: printStep(PLAN_DEFAULT, clusterFlags) }
      : rolloutStatus(state, countEvaluated(planned, facts), clusterFlags);
    const data = { isInstalled, ...status, ...state, summary: counts, namespaces, settings, assumptions };
    const isWide = options.output === 'wide';
    return {
      data,
      objects: listedNamespaces(namespaces),
      blocks: (style) => [
        ...assumptionBlocks(assumptions, settings),
        printTable([...describeStatus(state, status), ...(isWide ? describeInterface(state) : [])], {
          gap: '  ',
        }),
        ...namespaceSections(namespaces, { ...options, namespace: only, clusterFlags }, style),
        `${style('bold', [printNamespaceCounts(counts), ...newer].join('; '))}\n`,
      ],
      code: EXIT.passed,
      row: [
        status.state,
        state.default,
        ...countCells(counts.namespaces, counts.inconclusive, (verdict) => counts.workloads[verdict].workloads),
      ],
      message: status.next,
    };
  },
});

const NOT_INSTALLED =
  'Portcullis is not installed in this cluster: there is no PortcullisConfiguration "cluster", and no Deployment or Lease of a replica.';

const EVALUATE: NextStep = {
  text: 'Evaluate the cluster, and then install Portcullis (see portcullis install --help)',
  command: 'portcullis rollout plan',
};

function describeMissing(clusterFlags: readonly string[]) {
  const next = printStep(EVALUATE, clusterFlags);
  return {
    data: { isInstalled: false, state: 'Off', reasons: [NOT_INSTALLED], next },
    blocks: () => [`${NOT_INSTALLED}\n\nNext: ${next}\n`],
    code: EXIT.violations,
    row: ['Off', ...['DEFAULT', ...COUNT_COLUMNS].map(() => '?')],
    message: next,
  };
}
