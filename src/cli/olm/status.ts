/** `portcullis olm status` prints the namespaces with operators, and the next action of the auto-labeler. */
import { CONFIGURATION_NAME, INSTALLATION } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { CSV_SCOPE } from '../../controllers/watched-kinds.ts';
import { defined } from '../../kube/defined.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { objectName } from '../../kube/resources.ts';
import { compareBytes, summarizeNames } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, OLM_MANAGED_ANNOTATION } from '../../kube/well-known.ts';
import {
  decideLabeling,
  isCopied,
  type LabelerDecision,
  type LabelerInput,
  labelerMode,
  OPENSHIFT_OLM,
} from '../../policy/olm/index.ts';
import { UNMANAGED_NAMESPACES } from '../../policy/rollout/index.ts';
import { defineCommand, EXIT, PROGRAM } from '../command.ts';
import { deploymentFeatures } from '../installation/deployment.ts';
import {
  inventoryOptions,
  listNamespaces,
  readInventory,
  selectedNamespace,
  selectionOptions,
} from '../inventory/inventory.ts';
import { findSettings, sccOptions } from '../inventory/settings.ts';
import { assumptionBlocks, listOptions, printListing, printTable, withHeader } from '../output/print.ts';
import { getClusterFlags, kubectl, printCommand, type ShellCommand } from '../output/shell.ts';

/** Describes a namespace, and what the auto-labeler does at the next event. */
function describeNamespace(namespace: Namespace, store: Store, mode: LabelerInput['mode']) {
  const name = objectName(namespace);
  const csvs = store.list('ClusterServiceVersion', name);
  const { labels, annotations } = namespace.metadata ?? {};
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const decision = decideLabeling({
    mode,
    exemptNamespaces: UNMANAGED_NAMESPACES,
    namespace,
    csvs,
    triggers: new Set(['namespace']),
  });
  return {
    namespace: name,
    operators: csvs.filter((csv) => !isCopied(csv)).map(objectName),
    label: labels?.[LABEL_SYNC_LABEL],
    annotation: annotations?.[OLM_MANAGED_ANNOTATION],
    labelManagers: owners.filter((owner) => owner.labels.has(LABEL_SYNC_LABEL)).map(({ manager }) => manager),
    row: decision.row,
    action: decision.action,
    reason: decision.reason,
  };
}

type NamespaceStatus = ReturnType<typeof describeNamespace>;

const ACTIONS: Readonly<Record<LabelerDecision['action'], string>> = {
  none: '',
  label: 'sets the label',
  manage: 'sets the label and the annotation',
  release: 'removes the label and the annotation',
};

const HEADER = ['NAMESPACE', 'OPERATORS', 'LABEL', 'SET BY', 'ROW', 'STATE', 'NEXT'];

function printStatus(status: NamespaceStatus): readonly string[] {
  const cells = [
    status.namespace,
    summarizeNames(status.operators, 3),
    status.label === undefined ? '' : JSON.stringify(status.label),
    status.labelManagers.join(','),
    status.row,
    status.reason,
    ACTIONS[status.action],
  ];
  return cells.map((cell) => cell || '<none>');
}

/**
 * Returns false if the installation lacks the feature. A replica with it reports whether it can watch the operators.
 */
function hasFeature(store: Store): boolean {
  const deployment = store.get('Deployment', INSTALLATION.name, INSTALLATION.namespace);
  if (deployment) return deploymentFeatures(deployment).olm;
  const status = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status;
  return !status || status.conditions?.some(({ type }) => type === 'OLMAvailable') === true;
}

const NO_FEATURE = 'The auto-labeler does not run, because the olm feature is not installed. To install it:';
const INSTALL: ShellCommand = { program: PROGRAM, args: ['install', '--olm'] };
const APPLY = kubectl('apply', '--server-side', '-f', '-');

/** Returns the reason that the replicas report for an idle auto-labeler, or an empty text if they report none. */
function explainIdle(store: Store): string {
  const { conditions = [] } = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status ?? {};
  const condition = conditions.find(({ type, reason }) => type === 'OLMAvailable' && reason !== 'Installed');
  return condition ? `${condition.reason}: ${condition.message}.\n` : '';
}

const DETAILS = `
Lists the namespaces with operators of the Operator Lifecycle Manager. The label
${LABEL_SYNC_LABEL} enables the label syncer in openshift-* namespaces. For each
namespace, the output contains the label, the field managers that set it, the row of the decision table that
applies (see docs/how-to/olm.md), and the next action of the auto-labeler. Copied ClusterServiceVersions are ignored.

Examples:
  portcullis olm status
  portcullis olm status -n openshift-logging -o yaml
  portcullis olm status -f namespaces.yaml,operators.yaml
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    config: sccOptions.config,
    ...listOptions,
  },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const clusterFlags = getClusterFlags(options);
    const install = [INSTALL, APPLY].map((command) => printCommand(command, clusterFlags)).join(' | ');
    const csvs = { ...CSV_SCOPE, ...defined({ namespace: only }) };
    const inventory = await readInventory(options, io, {
      kinds: ['Namespace'],
      only,
      optional: [
        csvs,
        { kind: 'Deployment', ...OPENSHIFT_OLM },
        { kind: 'Deployment', namespace: INSTALLATION.namespace, name: INSTALLATION.name },
      ],
    });
    const { store, assumptions } = inventory;
    const { settings, source } = await findSettings({ config: options.config, store });
    const isInstalled = hasFeature(store);
    const { mode: requested } = settings.olm.autoLabeler;
    const labeler = store.get('Deployment', OPENSHIFT_OLM.name, OPENSHIFT_OLM.namespace);
    const mode = labelerMode(requested, labeler !== undefined);
    const cause =
      requested === undefined && labeler
        ? `, because the Deployment ${OPENSHIFT_OLM.name} in ${OPENSHIFT_OLM.namespace} labels namespaces`
        : '';
    const namespaces = listNamespaces(store, only)
      .map((namespace) => describeNamespace(namespace, store, mode))
      .map((status) => (isInstalled ? status : { ...status, action: 'none' as const }))
      .filter(
        (status) =>
          only !== undefined ||
          status.operators.length > 0 ||
          status.label !== undefined ||
          status.annotation !== undefined,
      )
      .sort((a, b) => compareBytes(a.namespace, b.namespace));
    const rows = withHeader(HEADER, namespaces.map(printStatus), options);
    const data = { isInstalled, mode, namespaces, settings: source, assumptions };
    const objects = namespaces.map(({ namespace: name }) => ({ kind: 'Namespace', name }));
    printListing(io, options.output, { data, objects }, () => [
      namespaces.length === 0 ? 'No namespaces with operators found.\n' : printTable(rows),
      isInstalled ? `Mode of the auto-labeler: ${mode}${cause}.\n${explainIdle(store)}` : `${NO_FEATURE} ${install}\n`,
      ...assumptionBlocks(assumptions, source),
    ]);
    return EXIT.passed;
  },
});
