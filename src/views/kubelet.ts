/**
 * Reads a cluster's minimum kubelet version and nodes from the store, and checks which API servers enforce the minimum.
 */
import { randomUUID } from 'node:crypto';
import { CONFIGURATION_NAME } from '../api/names.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { hostPort } from '../cluster/network-error.ts';
import type { Store } from '../cluster/store.ts';
import type { KubeletSettings } from '../config/portcullis-configuration.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import { LIMITS } from '../kube/limits.ts';
import { objectName } from '../kube/resources.ts';
import { ApiError, ConnectionError } from '../kube/status.ts';
import { truncate } from '../kube/text.ts';
import { type AccessReviewStatus, isObject, type Node, type UserInfo } from '../kube/types.ts';
import {
  type EnforcementCheck,
  type MinimumVersion,
  type NodeState,
  parseMinimum,
  readMinimumEnforcement,
} from '../policy/kubelet/index.ts';
import type { Action } from '../policy/rbac/index.ts';

/** The store and settings that contain the minimum. */
export interface KubeletScope {
  readonly store: Store;
  settings(): KubeletSettings;
  /** True if the settings come from the PortcullisConfiguration, whose status contains the enforced minimum. */
  readonly hasSettingsObject: boolean;
}

/** Name of the only `nodes.config.openshift.io` object. */
export const NODES_CONFIG_NAME = 'cluster';

/**
 * Returns the requested minimum from `nodes.config.openshift.io/cluster` or, if that object does not exist, from the
 * settings. An empty string means no minimum.
 */
export function requestedMinimum({ store, settings }: Pick<KubeletScope, 'store' | 'settings'>): string {
  const config = store.get('NodesConfig', NODES_CONFIG_NAME);
  return (config ? config.spec?.minimumKubeletVersion : settings().minimumVersion) ?? '';
}

/**
 * Returns the minimum that webhooks enforce. An empty string means no minimum. `kubelet-minimum-controller` records it
 * in the status of the PortcullisConfiguration. If the settings come from a file, the minimum in the file applies.
 */
export function minimumInForce({ store, settings, hasSettingsObject }: KubeletScope): string {
  if (!settings().isOn) return '';
  if (!hasSettingsObject) return settings().minimumVersion ?? '';
  return store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.kubelet?.minimumVersion ?? '';
}

/** Creates a function that returns the parsed minimum in force. An invalid version is treated as no minimum. */
export function createMinimumReader(scope: KubeletScope): () => MinimumVersion | undefined {
  let last: { readonly text: string; readonly minimum: MinimumVersion | undefined } = { text: '', minimum: undefined };
  return () => {
    const text = minimumInForce(scope);
    if (text !== last.text) {
      const parsed = parseMinimum(text);
      last = { text, minimum: 'value' in parsed ? parsed.value : undefined };
    }
    return last.minimum;
  };
}

/**
 * Returns the state of a node. Fields that have the wrong type are treated as absent. A version that is too long is
 * truncated, which makes it invalid.
 */
export function nodeState(node: Node, { exemptNodes }: Pick<KubeletSettings, 'exemptNodes'>): NodeState {
  const { conditions, nodeInfo } = node.status ?? {};
  const version: unknown = nodeInfo?.kubeletVersion;
  return {
    name: objectName(node),
    kubeletVersion: typeof version === 'string' ? truncate(version, LIMITS.kubeletVersionCharacters) : '',
    hasReadyCondition:
      Array.isArray(conditions) && conditions.some((condition) => isObject(condition) && condition['type'] === 'Ready'),
    isExempt: exemptNodes !== undefined && matchesLabelSelector(exemptNodes, node.metadata?.labels),
  };
}

/** Returns the states of all nodes. */
export function listNodeStates({ store, settings }: Pick<KubeletScope, 'store' | 'settings'>): readonly NodeState[] {
  return store.list('Node').map((node) => nodeState(node, settings()));
}

/** Returns the state of a node, or `undefined` if the node does not exist. */
export function findNodeState(
  { store, settings }: Pick<KubeletScope, 'store' | 'settings'>,
  name: string,
): NodeState | undefined {
  const node = store.get('Node', name);
  return node && nodeState(node, settings());
}

/** Name of the API server in results if the addresses of the API servers cannot be read or reached. */
const CONNECTED = 'the connected API server, the only one checked';

/** EndpointSlice in which the API servers publish their addresses. */
export const API_SERVERS = { name: 'kubernetes', namespace: 'default' } as const;

/**
 * Checks each API server of the cluster, or only the connected API server if the individual addresses cannot be
 * reached.
 */
export async function checkApiServers(
  cluster: Pick<Cluster, 'get' | 'reviewAccess'>,
): Promise<readonly EnforcementCheck[]> {
  const addresses = await apiServerAddresses(cluster);
  const checks = await Promise.all(
    addresses.map((address) => checkApiServer(address, (...review) => cluster.reviewAccess(...review, address))),
  );
  if (checks.some(({ webhook }) => webhook !== 'unknown')) return checks;
  return [await checkApiServer(CONNECTED, cluster.reviewAccess)];
}

/**
 * Checks whether the API server that answers the review enforces the minimum. The node name is random, because API
 * servers cache decisions. The webhook denies the request only if a minimum is in force.
 */
export async function checkApiServer(
  server: string,
  review: (user: UserInfo, action: Action) => Promise<AccessReviewStatus>,
): Promise<EnforcementCheck> {
  const node = `portcullis-check-${randomUUID()}`;
  const user = { username: `system:node:${node}`, groups: ['system:nodes', 'system:authenticated'] };
  try {
    return readMinimumEnforcement(server, await review(user, { verb: 'list', resource: 'pods' }), node);
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof ConnectionError)) throw error;
    return { server, webhook: 'unknown', error: error.message };
  }
}

async function apiServerAddresses({ get }: Pick<Cluster, 'get'>): Promise<readonly string[]> {
  try {
    const { endpoints, ports } = await get('EndpointSlice', API_SERVERS.name, API_SERVERS.namespace);
    const port = ports?.find(({ name }) => name === 'https')?.port;
    if (port == null) return [];
    const ready = (endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    return ready.flatMap(({ addresses }) => addresses.map((address) => hostPort(address, port)));
  } catch (error) {
    if (error instanceof ApiError || error instanceof ConnectionError) return [];
    throw error;
  }
}
