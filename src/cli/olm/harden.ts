import type { Store } from '../../cluster/store.ts';
import { CSV_SCOPE } from '../../controllers/watched-kinds.ts';
import { defined } from '../../kube/defined.ts';
import { objectName } from '../../kube/resources.ts';
import { compareBytes, printCount, quote } from '../../kube/text.ts';
import {
  type HardenedObject,
  HARDENING_MANAGER,
  hardenObjects,
  type NamespaceProposal,
  OLM_WORKLOADS,
  proposeLabels,
} from '../../policy/olm/index.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  inventoryOptions,
  readInventory,
  selectedNamespace,
  selectionOptions,
} from '../inventory/inventory.ts';
import { flag, UsageError } from '../options.ts';
import {
  assumptionBlocks,
  DATA_AND_TABLE,
  outputOption,
  printable,
  printChanges,
  printReport,
  type Style,
} from '../output/print.ts';
import { getClusterFlags, kubectl, printCommand } from '../output/shell.ts';

/** Formats an object with its changes, its notes and the command that applies the patch to a cluster. */
function printObject(object: HardenedObject, clusterFlags: readonly string[], style: Style): string {
  const { kind, namespace, name, path, profile, mode, changes, notes, patch = [] } = object;
  const title = `${kind} ${namespace}/${name}${path === undefined ? '' : ` (${path})`}: ${mode ?? profile ?? ''}`;
  const target = ['-n', namespace, 'patch', kind.toLowerCase(), name];
  const command = kubectl(...target, '--type=json', '-p', JSON.stringify(patch));
  const lines = [
    ...(changes.length === 0 && notes.length === 0 ? ['complies'] : []),
    ...printChanges(changes).map(printable),
    ...notes.map((note) => style('yellow', printable(note))),
    // API servers reject changes to the pod template of a Job, so users must apply the patch to its manifest.
    ...(patch.length === 0 || kind === 'Job' ? [] : [printCommand(command, clusterFlags)]),
  ];
  return `${[style('bold', printable(title)), ...lines.map((line) => `  ${line}`)].join('\n')}\n`;
}

function printNamespace(
  { namespace, labels, notes }: NamespaceProposal,
  clusterFlags: readonly string[],
  style: Style,
): string {
  const set = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const flags = ['--overwrite', `--field-manager=${HARDENING_MANAGER}`];
  const command = kubectl('label', 'namespace', namespace, ...flags, ...set);
  const lines = [
    ...(set.length === 0 && notes.length === 0 ? ['complies'] : []),
    ...notes.map((note) => style('yellow', printable(note))),
    ...(set.length === 0 ? [] : [printCommand(command, clusterFlags)]),
  ];
  return `${[style('bold', printable(namespace)), ...lines.map((line) => `  ${line}`)].join('\n')}\n`;
}

const KINDS = ['Namespace', ...OLM_WORKLOADS, 'CatalogSource'] as const;

const DETAILS = `
Prints patches that harden the workloads of the Operator Lifecycle Manager (OLM): its Deployments and CronJobs,
the Jobs that unpack bundles, and CatalogSources with the disableSecurity field. A patch sets only absent
fields. Less strict values are kept and reported unless --force replaces them. OLM restores the Deployments of a
ClusterServiceVersion, so the patch for these Deployments changes the ClusterServiceVersion.

"portcullis olm harden namespaces" proposes Pod Security labels for OLM namespaces. It never lowers a level, and
keeps labels of other field managers unless --force is set.

The command changes nothing. Review the printed commands and run them.

The exit code is 1 if changes are proposed.

Examples:
  portcullis olm harden
  portcullis olm harden -f examples/olm
  portcullis olm harden namespaces -n openshift-marketplace
`;

interface Context {
  readonly store: Store;
  readonly isCluster: boolean;
  readonly isOpenShift: boolean;
  readonly isForced: boolean;
  readonly clusterFlags: readonly string[];
}

interface Report {
  /** The result as JSON or YAML. */
  readonly data: object;
  blocks(style: Style): readonly string[];
  readonly changed: number;
}

function reportNamespaces(
  { store, isForced, clusterFlags }: Context,
  assumptions: readonly string[],
  only: string | undefined,
): Report {
  const namespaces = store
    .list('Namespace')
    .filter((namespace) => only === undefined || objectName(namespace) === only)
    .flatMap((namespace) => {
      const catalogs = store.list('CatalogSource', objectName(namespace));
      return proposeLabels({ namespace, catalogs, isForced }) ?? [];
    })
    .sort((a, b) => compareBytes(a.namespace, b.namespace));
  return {
    data: { namespaces, assumptions },
    blocks: (style) => [
      ...namespaces.map((namespace) => printNamespace(namespace, clusterFlags, style)),
      ...assumptionBlocks(assumptions),
      ...(namespaces.length === 0 ? ['No OLM namespaces found.\n'] : []),
    ],
    changed: namespaces.filter(({ labels }) => Object.keys(labels).length > 0).length,
  };
}

function reportWorkloads(context: Context, assumptions: readonly string[], only: string | undefined): Report {
  const { store, isOpenShift, clusterFlags } = context;
  const findNamespace = (name: string) => store.get('Namespace', name);
  const objects = hardenObjects({ ...context, list: store.list, findNamespace }).filter(
    ({ namespace }) => only === undefined || namespace === only,
  );
  const changed = objects.filter(({ changes }) => changes.length > 0).length;
  return {
    data: { platform: isOpenShift ? 'openshift' : 'kubernetes', objects, assumptions },
    blocks: (style) => [
      ...objects.map((object) => printObject(object, clusterFlags, style)),
      ...assumptionBlocks(assumptions),
      `${printCount(objects.length, 'object')} of OLM, ${changed} to change\n`,
    ],
    changed,
  };
}

export const command = defineCommand({
  operands: '[namespaces]',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    force: flag({ help: 'Also replace less strict values, or labels of other field managers' }),
    openshift: flag({ help: 'Expect SCC admission to set the users of pods. Default: true if the cluster has SCCs' }),
    output: outputOption(DATA_AND_TABLE),
  },
  async run(values, [operand], io) {
    if (operand !== undefined && operand !== 'namespaces') {
      throw new UsageError(`unknown operand ${quote(operand)}: the only operand is namespaces`);
    }
    const namespace = selectedNamespace(values);
    const operators = { ...CSV_SCOPE, ...defined({ namespace }), isMetadataOnly: false };
    const { store, source, assumptions } = await readInventory(values, io, {
      kinds: values.filename.length === 0 ? [...KINDS, 'SecurityContextConstraints'] : KINDS,
      only: namespace,
      optional: [operators],
    });
    if (namespace !== undefined) findNamespace(store, namespace);
    const hasSccs = source === 'cluster' && store.list('SecurityContextConstraints').length > 0;
    const isCluster = source === 'cluster';
    const context = {
      store,
      isCluster,
      isOpenShift: values.openshift || hasSccs,
      isForced: values.force,
      clusterFlags: getClusterFlags(values),
    };
    const report = operand === 'namespaces' ? reportNamespaces : reportWorkloads;
    const { data, blocks, changed } = report(context, assumptions, namespace);
    printReport(io, values.output, data, blocks);
    return changed === 0 ? EXIT.passed : EXIT.violations;
  },
});
