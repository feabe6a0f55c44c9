/** Determines which enforcement ends when policies in the API server replace a server. */
import type { ClusterClient } from '../../cluster/client.ts';
import { readCluster } from '../../cluster/lists.ts';
import { effectivePodSecurity } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { withSetting } from '../../config/setting-paths.ts';
import { decodePolicy } from '../../install/index.ts';
import type { Kind } from '../../kube/kinds.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { JsonObject, Namespace } from '../../kube/types.ts';
import { ENFORCE_LABEL, POD_SECURITY_CONFIG_MAP } from '../../kube/well-known.ts';
import { type Policies, resolvePolicies } from '../../policy/psa/index.ts';
import { sccMode } from '../../policy/scc/index.ts';
import { VERSION } from '../command.ts';
import { findWeakenings } from './weakening.ts';

/** Reads the objects on which the default level of a rollout depends, and objects of other kinds. */
export async function readRolloutState(
  client: ClusterClient,
  namespace: string,
  kinds: readonly Kind[] = [],
): Promise<Store> {
  const { store } = await readCluster(client.connection, ['PSAEnforcementConfig', 'FeatureGate', ...kinds], {
    signal: client.signal,
  });
  const configMap = await client.get(RESOURCES.ConfigMap, POD_SECURITY_CONFIG_MAP, namespace);
  if (configMap) store.put('ConfigMap', configMap);
  return store;
}

/** Returns the spec without its rollout, and with the default level that the rollout has reached. */
export function effectiveSpec(store: Store, namespace: string, spec: JsonObject): JsonObject {
  const { rollout, podSecurity } = decodePolicy({ namespace, policy: spec });
  if (rollout.phase === 'Disabled') return withoutRollout(spec);
  const { configuration } = effectivePodSecurity({ store, namespace, version: VERSION }, { rollout, podSecurity });
  const value = configuration.defaults.enforce;
  return withSetting(withoutRollout(spec), { path: ['podSecurity', 'defaults', 'enforce'], value });
}

function withoutRollout(spec: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(spec).filter(([name]) => name !== 'rollout'));
}

/** Input for the enforcement that remains without a server. */
interface Remaining {
  /** All namespaces, because any of them may have a label that only a server enforces. */
  readonly namespaces: readonly Namespace[];
  /** Spec of the policies in the API server. */
  readonly policies: JsonObject;
}

/** Describes the settings of a server that policies in the API server enforce less strictly. */
export function findLostEnforcement(
  namespace: string,
  spec: JsonObject,
  { namespaces, policies }: Remaining,
): readonly string[] {
  const before = withoutRollout(spec);
  const { scc } = decodePolicy({ namespace, policy: before });
  const { podSecurity = {}, defaults = {} } = policies;
  const lost = ['floor', 'kubelet', 'olm'];
  const remaining = Object.fromEntries(Object.entries(before).filter(([name]) => !lost.includes(name)));
  const after = withSetting(
    { ...remaining, podSecurity, defaults },
    // Report mode also ends without a server, but it enforces nothing.
    { path: ['scc', 'mode'], value: scc.mode === 'enforce' ? 'off' : scc.mode },
  );
  const labeled = namespaces.filter(
    (namespace) => scc.mode !== 'enforce' && sccMode(namespace, scc).mode === 'enforce',
  );
  const { exemptions, defaults: levels } = decodePolicy({ namespace, policy: policies }).podSecurity;
  const lowered = namespaces.filter(
    (namespace) => !exemptions.namespace(objectName(namespace)) && isRaised(namespace, levels),
  );
  return [
    ...findWeakenings({ namespace, policy: before }, { namespace, policy: after }),
    ...(labeled.length === 0 ? [] : [`no SCCs in ${summarizeNames(labeled.map(objectName))}`]),
    ...(lowered.length === 0 ? [] : [`no label ${ENFORCE_LABEL} in ${summarizeNames(lowered.map(objectName))}`]),
  ];
}

/** Returns true if the label that only a server enforces raises the level of the namespace. */
function isRaised({ metadata }: Namespace, defaults: Policies): boolean {
  const { labels } = metadata ?? {};
  const { [ENFORCE_LABEL]: _own, ...others } = labels ?? {};
  return resolvePolicies(labels, defaults).enforce.level !== resolvePolicies(others, defaults).enforce.level;
}
