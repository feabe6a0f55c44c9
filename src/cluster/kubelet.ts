/** Reads the minimum kubelet version and the nodes from the store, for the server, controllers and commands. */
import type { KubeletSettings } from '../config/portcullis-configuration.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import { objectName } from '../kube/resources.ts';
import { isObject, type Node } from '../kube/types.ts';
import { CONFIGURATION_NAME } from '../kube/well-known.ts';
import type { NodeState } from '../policy/kubelet/admission.ts';
import { parseMinimum, type MinimumVersion } from '../policy/kubelet/version.ts';
import type { Store } from './store.ts';

/** The store and the settings from which the minimum is read. */
export interface KubeletScope {
  readonly store: Store;
  settings(): KubeletSettings;
  /** True if the settings are the PortcullisConfiguration, whose status contains the enforced minimum. */
  readonly hasSettingsObject: boolean;
}

/** The name of the only object of `nodes.config.openshift.io`. */
export const NODES_CONFIG_NAME = 'cluster';

/**
 * Returns the requested minimum: that of `nodes.config.openshift.io/cluster` if it exists, otherwise that of the settings.
 * The empty string means no minimum.
 */
export function requestedMinimum({ store, settings }: Pick<KubeletScope, 'store' | 'settings'>): string {
  const config = store.get('NodesConfig', NODES_CONFIG_NAME);
  return (config ? config.spec?.minimumKubeletVersion : settings().minimumVersion) ?? '';
}

/**
 * Returns the enforced minimum; the empty string means no minimum. `kubelet-minimum-controller` maintains it in the status of
 * the PortcullisConfiguration. Without that object, the minimum of the settings is enforced.
 */
export function enforcedMinimum({ store, settings, hasSettingsObject }: KubeletScope): string {
  if (!settings().isOn) return '';
  if (!hasSettingsObject) return settings().minimumVersion ?? '';
  return store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.kubelet?.minimumVersion ?? '';
}

/** Creates a function that returns the enforced minimum, parsed. An invalid version counts as no minimum. */
export function createMinimumReader(scope: KubeletScope): () => MinimumVersion | undefined {
  let last: { readonly text: string; readonly minimum: MinimumVersion | undefined } = { text: '', minimum: undefined };
  return () => {
    const text = enforcedMinimum(scope);
    if (text !== last.text) {
      const parsed = parseMinimum(text);
      last = { text, minimum: 'value' in parsed ? parsed.value : undefined };
    }
    return last.minimum;
  };
}

/** Returns the state of a node. Fields of a wrong type count as absent. */
export function nodeState(node: Node, { exemptNodes }: Pick<KubeletSettings, 'exemptNodes'>): NodeState {
  const { conditions, nodeInfo } = node.status ?? {};
  const version: unknown = nodeInfo?.kubeletVersion;
  return {
    name: objectName(node),
    kubeletVersion: typeof version === 'string' ? version : '',
    hasReadyCondition: Array.isArray(conditions) && conditions.some((one) => isObject(one) && one['type'] === 'Ready'),
    isExempt: exemptNodes !== undefined && matchesLabelSelector(exemptNodes, node.metadata?.labels),
  };
}

/** Returns the states of all nodes. */
export function listNodeStates({ store, settings }: Pick<KubeletScope, 'store' | 'settings'>): readonly NodeState[] {
  return store.list('Node').map((node) => nodeState(node, settings()));
}

/** Returns the state of a node; `undefined` if the node does not exist. */
export function findNodeState(
  { store, settings }: Pick<KubeletScope, 'store' | 'settings'>,
  name: string,
): NodeState | undefined {
  const node = store.get('Node', name);
  return node && nodeState(node, settings());
}
