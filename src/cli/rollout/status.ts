import { countNamespaces, needsFix, type RolloutStatus } from '../../policy/rollout/index.ts';
import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { assumptionBlocks, listOptions, printTable } from '../output/print.ts';
import {
  COUNT_COLUMNS,
  countCells,
  countEvaluated,
  findNewerVersions,
  planNamespaces,
  selectNamespaces,
} from '../report/namespaces.ts';
import { describeInterface, describeStatus, rolloutStatus } from '../report/rollout-status.ts';
import { listedNamespaces, namespaceSections, printNamespaceCounts } from './namespace-table.ts';

const WITHOUT_SERVER: RolloutStatus = {
  state: 'Off',
  reasons: ['the policies in the API server have a constant default, without a rollout'],
  next: 'Plan another default: portcullis rollout plan --level baseline, or --level restricted.',
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
    const facts = await gatherRollout(options, io, new Date());
    const { state, settingsSource: settings, isInstalled } = facts;
    if (!isInstalled) return MISSING;
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const newer = findNewerVersions(planned, facts.store);
    const assumptions = [...facts.assumptions, ...newer];
    const selected = selectNamespaces(planned, facts.store, { ...options, namespace: only });
    const namespaces = only === undefined ? selected.filter(needsFix) : selected;
    const status = facts.policies ? WITHOUT_SERVER : rolloutStatus(state, countEvaluated(planned, facts));
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
        ...namespaceSections(namespaces, { ...options, namespace: only }, style),
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

const INSTALL =
  'Evaluate the cluster with portcullis rollout plan, and then install Portcullis: portcullis install --help.';

const MISSING = {
  data: { isInstalled: false, state: 'Off', reasons: [NOT_INSTALLED], next: INSTALL },
  blocks: () => [`${NOT_INSTALLED}\n\nNext: ${INSTALL}\n`],
  code: EXIT.violations,
  row: ['Off', ...['DEFAULT', ...COUNT_COLUMNS].map(() => '?')],
  message: INSTALL,
};
