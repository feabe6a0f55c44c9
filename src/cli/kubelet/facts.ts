/** Common options, input and output of the `portcullis kubelet` commands. */
import { CONFIGURATION_NAME } from '../../api/names.ts';
import type { Scope } from '../../cluster/live-cluster.ts';
import type { Kind } from '../../kube/kinds.ts';
import { UserError } from '../../kube/user-error.ts';
import {
  findKubeletProblem,
  type MinimumVersion,
  nodePools,
  type NodeState,
  parseSemanticVersion,
  renderMinimum,
} from '../../policy/kubelet/index.ts';
import {
  type KubeletScope,
  listNodeStates,
  minimumInForce,
  NODES_CONFIG_NAME,
  requestedMinimum,
} from '../../views/kubelet.ts';
import type { Io } from '../command.ts';
import { inventoryOptions, readInventory } from '../inventory/inventory.ts';
import { findSettings, sccOptions } from '../inventory/settings.ts';
import { nonEmpty, type Values } from '../options.ts';
import { DATA_AND_TABLE, headersOption, outputOption, printTable, type Style, withHeader } from '../output/print.ts';

export const kubeletOptions = {
  ...inventoryOptions,
  config: sccOptions.config,
  ...headersOption,
  output: outputOption(DATA_AND_TABLE),
};

/** Parses the `--minimum` value. */
export function minimumVersion(value: string): MinimumVersion {
  const parsed = parseSemanticVersion(nonEmpty(value));
  if ('value' in parsed && /^[\d.]+$/.test(value)) return { text: value, version: parsed.value };
  throw new UserError('must be a Kubernetes version x.y.z such as 1.33.0');
}

export type KubeletFacts = Awaited<ReturnType<typeof gatherKubelets>>;

/** Reads the settings, the minimum versions, and objects of the given kinds and optional scopes. */
export async function gatherKubelets(
  options: Omit<Values<typeof kubeletOptions>, 'output'>,
  io: Io,
  kinds: readonly Kind[],
  scopes: readonly Scope[] = [],
) {
  const optional = [{ kind: 'NodesConfig', name: NODES_CONFIG_NAME } as const, ...scopes];
  const { store, objects, assumptions, connection } = await readInventory(options, io, { kinds, optional });
  const { settings } = await findSettings({ config: options.config, store });
  const hasSettingsObject = options.config === undefined;
  const scope: KubeletScope = { store, settings: () => settings.kubelet, hasSettingsObject };
  const inForce = minimumInForce(scope);
  const requested = requestedMinimum(scope);
  const stored = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.kubelet?.renderedMinimumVersion;
  const hasConfig = store.get('NodesConfig', NODES_CONFIG_NAME) !== undefined;
  // Minimum versions, or empty strings if there is no minimum.
  const minimums = {
    requested,
    /** The object or file that contains the requested minimum. */
    source: hasConfig ? `nodes.config.openshift.io/${NODES_CONFIG_NAME}` : (options.config ?? 'spec.kubelet'),
    inForce,
    rendered: hasSettingsObject ? (stored ?? '') : renderMinimum(requested, inForce),
  };
  return {
    store,
    objects,
    settings: settings.kubelet,
    minimums,
    nodes: listNodeStates(scope),
    assumptions,
    connection,
  };
}

/** A node compared with a minimum. */
interface NodeReport {
  readonly name: string;
  readonly roles: readonly string[];
  /** Empty if the node has not reported a version. */
  readonly kubeletVersion: string;
  readonly state: 'sufficient' | 'outdated' | 'unknown' | 'exempt' | 'unregistered';
  readonly message?: string;
}

/** Compares all nodes with a minimum. Returns them sorted by name. */
export function reportNodes({ store, settings, nodes }: KubeletFacts, minimum: MinimumVersion): readonly NodeReport[] {
  return nodes
    .map((node) => {
      const { name, kubeletVersion } = node;
      const roles = nodePools(store.get('Node', name)?.metadata?.labels);
      return { name, roles, kubeletVersion, ...compareNode(node, minimum, settings.compatibility === 'openshift') };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function compareNode(
  { isExempt, kubeletVersion, hasReadyCondition }: NodeState,
  minimum: MinimumVersion,
  strictNodes: boolean,
): Pick<NodeReport, 'state' | 'message'> {
  if (isExempt) return { state: 'exempt' };
  const problem = findKubeletProblem(kubeletVersion, minimum);
  if (problem === undefined) return { state: 'sufficient' };
  const isUnregistered = kubeletVersion === '' && !hasReadyCondition && !strictNodes;
  return isUnregistered ? { state: 'unregistered' } : { state: problem.type, message: problem.message };
}

/** Returns true if the node is below the minimum. */
export function isBelow({ state }: NodeReport): boolean {
  return state === 'outdated' || state === 'unknown';
}

/** Formats the table of nodes, with additional columns. */
export function printNodes<T extends NodeReport>(
  nodes: readonly T[],
  options: Values<typeof headersOption>,
  style: Style,
  columns: Readonly<Record<string, (node: T) => string>> = {},
): string {
  const header = ['NODE', 'ROLES', 'KUBELET', ...Object.keys(columns), 'STATE', 'REASON'];
  const rows = nodes.map((node) => [
    node.name,
    node.roles.join(','),
    node.kubeletVersion,
    ...Object.values(columns).map((print) => print(node)),
    isBelow(node) ? ([node.state, 'red'] as const) : node.state,
    node.message ?? '',
  ]);
  return printTable(withHeader(header, rows, options), { style });
}
