/** Reads the SCC mode in force and the ranges of namespaces. */
import { CONFIGURATION_NAMES, SCC_REGISTERED_ANNOTATION } from '../api/webhooks.ts';
import { memoize, type Store } from '../cluster/store.ts';
import type { Namespace } from '../kube/types.ts';
import {
  type NamespaceMode,
  readNamespaceRanges,
  SCC_MODES,
  type SccMode,
  sccMode,
  type SccSettings,
} from '../policy/scc/index.ts';

/** Parses the ranges once for each version of a namespace. */
export const getRanges = memoize((namespace: Namespace) => readNamespaceRanges(namespace));

/**
 * Returns the SCC mode of a namespace. If the store lacks the namespace, SCCs are enforced unless its name is exempt.
 * Returns `report` instead of `enforce` until API servers send the pods in enforced namespaces to the mutating webhook.
 */
export function namespaceMode(store: Store, name: string, settings: SccSettings): NamespaceMode {
  const namespace = store.get('Namespace', name);
  const registered = registeredMode(store);
  if (registered === undefined) {
    const mode = sccMode(namespace ?? { metadata: { name } }, settings);
    return mode.mode === 'enforce' ? { ...mode, mode: 'report' } : mode;
  }
  const current =
    settings.mode === 'enforce' && registered !== 'enforce' ? { ...settings, mode: registered } : settings;
  if (namespace) return sccMode(namespace, current);
  const { mode } = sccMode({ metadata: { name } }, current);
  return { mode: mode === 'off' ? 'off' : 'enforce' };
}

/**
 * Returns true if SCC admission sets the users of new pods in a namespace. While `spec.scc.mode` is `off`, SCCs in the
 * cluster belong to OpenShift, which enforces them itself.
 */
export function sccsSetUsers(store: Store, name: string, settings: SccSettings): boolean {
  if (settings.mode === 'off') return store.list('SecurityContextConstraints').length > 0;
  return sccMode(store.get('Namespace', name) ?? { metadata: { name } }, settings).mode === 'enforce';
}

/**
 * Returns the mode for which the mutating webhook has been registered, or `undefined` if there is none. Returns
 * `enforce` if replicas cannot read the registration, so all modes are in force.
 */
export function registeredMode(store: Store): SccMode | undefined {
  const kind = 'ValidatingWebhookConfiguration';
  if (!store.synced(kind)) return 'enforce';
  const mode = store.get(kind, CONFIGURATION_NAMES[kind])?.metadata?.annotations?.[SCC_REGISTERED_ANNOTATION];
  return SCC_MODES.find((known) => known === mode);
}
