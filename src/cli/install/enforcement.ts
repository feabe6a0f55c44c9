/** Enforcement that ends when an installation is removed, or when policies in the API server replace a server. */
import { type ClusterClient, DEFINITIONS } from '../../cluster/client.ts';
import { readCluster } from '../../cluster/lists.ts';
import { effectivePodSecurity } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { lastValidObject, settingsInForce } from '../../config/configuration.ts';
import { UserError } from '../../config/files.ts';
import { withSetting } from '../../config/setting-paths.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { decodePolicy } from '../../install/index.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { JsonObject, KubeObject, Namespace } from '../../kube/types.ts';
import { CONFIGURATION_KINDS, isPartOfPortcullis, type WebhookConfiguration } from '../../kube/webhooks.ts';
import {
  BREAK_GLASS_MANAGER,
  COMPONENT_LABEL,
  CONFIGURATION_NAME,
  FLOOR_LABELS,
  LABEL_SYNC_MANAGER,
  PART_OF,
  PART_OF_LABEL,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_LABELS,
  POLICY_LABELS,
  RUN_LEVEL_ZERO_MANAGER,
} from '../../kube/well-known.ts';
import { isTerminating } from '../../policy/rollout/label-sync.ts';
import { sccMode } from '../../policy/scc/mode.ts';
import { VERSION } from '../command.ts';
import { readServerless } from './policies.ts';
import { findWeakenings } from './weakening.ts';

/** True if the SCC CRD belongs to another product, such as OpenShift, which sets namespace labels and ranges itself. */
export async function readForeignSccs(client: ClusterClient): Promise<boolean> {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  const definition = await client.get(DEFINITIONS, `${resource}.${group}`);
  return definition !== undefined && !isPartOfPortcullis(definition);
}

// Settings of a server.

/** Reads objects of the given kinds, and the objects on which the default level of a rollout depends. */
export async function readRolloutState(
  client: ClusterClient,
  namespace: string,
  kinds: readonly Kind[] = [],
): Promise<Store> {
  const { store } = await readCluster(client.connection, [...kinds, 'PSAEnforcementConfig', 'FeatureGate'], {
    signal: client.signal,
  });
  const configMap = await client.get(RESOURCES.ConfigMap, POD_SECURITY_CONFIG_MAP, namespace);
  if (configMap) store.put('ConfigMap', configMap);
  return store;
}

/** Returns a spec with the default level that its rollout has reached, but without the rollout. */
export function effectiveSpec(store: Store, namespace: string, spec: JsonObject): JsonObject {
  const { rollout, podSecurity } = decodePolicy({ namespace, policy: spec });
  if (rollout.phase === 'Disabled') return withoutRollout(spec);
  const { configuration } = effectivePodSecurity({ store, namespace, version: VERSION }, { rollout, podSecurity });
  const value = configuration.defaults.enforce;
  return withSetting(withoutRollout(spec), { path: ['podSecurity', 'defaults', 'enforce'], value });
}

function withoutRollout(spec: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(spec).filter(([name]) => name !== 'rollout' && name !== 'featureGates'));
}

/** Enforcement that remains without a server. */
interface Remaining {
  /** Namespaces that may have a label with their SCC mode. */
  readonly namespaces: readonly Namespace[];
  /** Spec of the policies in the API server. */
  readonly policies: JsonObject | undefined;
}

/** Each way in which policies in the API server, or no policies, enforce less than a server with the given spec. */
export function findLostEnforcement(
  namespace: string,
  spec: JsonObject,
  { namespaces, policies }: Remaining,
): readonly string[] {
  const before = withoutRollout(spec);
  const { scc } = decodePolicy({ namespace, policy: before });
  const { podSecurity = {}, defaults = policies ? {} : before['defaults'] } = policies ?? {};
  const lost = ['floor', 'kubelet', 'olm'];
  const kept = Object.fromEntries(Object.entries(before).filter(([name]) => !lost.includes(name)));
  const after = withSetting(
    { ...kept, podSecurity, ...(defaults === undefined ? {} : { defaults }) },
    // Without a server, reports also end. They enforce nothing.
    { path: ['scc', 'mode'], value: scc.mode === 'enforce' ? 'off' : scc.mode },
  );
  const labeled = namespaces.filter((one) => scc.mode !== 'enforce' && sccMode(one, scc).mode === 'enforce');
  return [
    ...findWeakenings(namespace, before, after),
    ...(labeled.length === 0 ? [] : [`no SCCs in ${summarizeNames(labeled.map(objectName))}`]),
  ];
}

// Enforcement that uninstalling ends.

/** Field managers that set Pod Security labels through server-side apply. */
const LABEL_MANAGERS = [LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER, BREAK_GLASS_MANAGER] as const;

/** Label managers that own fields of a namespace. Empty for a terminating namespace. */
export function findLabelManagers(namespace: Namespace): readonly string[] {
  if (isTerminating(namespace)) return [];
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const isOwner = (name: string): boolean =>
    owners.some(({ manager, operation }) => manager === name && operation === 'Apply');
  return LABEL_MANAGERS.filter(isOwner);
}

const { enforce: ENFORCE_LABEL } = POD_SECURITY_LABELS;

/** `name=level` for an enforced level that ends with the Portcullis labels. Empty if another manager owns the label. */
function describeOwnLevel(namespace: Namespace): readonly string[] {
  const level = namespace.metadata?.labels?.[ENFORCE_LABEL];
  const managers = findLabelManagers(namespace);
  const owners = getMetadataOwners(namespace.metadata)?.filter(({ labels }) => labels.has(ENFORCE_LABEL)) ?? [];
  const isOwn = owners.length > 0 && owners.every(({ manager }) => managers.includes(manager));
  return isOwn && level !== undefined && level !== 'privileged' ? [`${objectName(namespace)}=${level}`] : [];
}

/** Scope of an uninstallation. */
export interface UninstallScope {
  /** Namespace of the installation. */
  readonly namespace: string;
  /** Keeps the Pod Security labels that Portcullis set. */
  readonly keepsLabels: boolean;
  /** Keeps the policies of a serverless installation. */
  readonly keepsPolicies: boolean;
  /** Deletes the CRDs with all their objects, and the SCC grants. */
  readonly purgesDefinitions: boolean;
  /** The SCC CRD belongs to another product. */
  readonly hasForeignSccs: boolean;
}

/** True for policies that are deleted before the webhooks, because they deny pods that no webhook has defaulted. */
export function isEndingPolicy(
  { metadata }: KubeObject,
  { keepsPolicies }: Pick<UninstallScope, 'keepsPolicies'>,
): boolean {
  const component = metadata?.labels?.[COMPONENT_LABEL];
  return (
    component === FLOOR_LABELS[COMPONENT_LABEL] || (!keepsPolicies && component === POLICY_LABELS[COMPONENT_LABEL])
  );
}

/** Kinds that show what is enforced. */
export const ENFORCEMENT_KINDS: readonly Kind[] = ['Namespace', 'PortcullisConfiguration', ...CONFIGURATION_KINDS];

/** Describes what the cluster no longer denies after uninstalling. Empty if nothing is enforced. */
export async function findEnforcement(
  client: ClusterClient,
  store: Store,
  { namespace, ...kept }: UninstallScope,
): Promise<readonly string[]> {
  const policies = await client.list(RESOURCES.ValidatingAdmissionPolicy, { labels: `${PART_OF_LABEL}=${PART_OF}` });
  const levels = kept.keepsLabels ? [] : store.list('Namespace').flatMap(describeOwnLevel);
  const ending = policies.filter((one) => isEndingPolicy(one, kept)).map(objectName);
  return [
    ...findLostWebhooks(store, namespace, kept.keepsPolicies ? readServerless(policies)?.spec : undefined),
    ...(levels.length === 0 ? [] : [`no labels that Portcullis set: ${summarizeNames(levels)}`]),
    ...(ending.length === 0 ? [] : [`no policies in the API server: ${summarizeNames(ending)}`]),
  ];
}

function findLostWebhooks(store: Store, namespace: string, policies: JsonObject | undefined): readonly string[] {
  const all = CONFIGURATION_KINDS.flatMap((kind): readonly WebhookConfiguration[] => store.list(kind));
  const webhooks = all.filter(isPartOfPortcullis).flatMap((configuration) => configuration.webhooks ?? []);
  if (webhooks.length === 0) return [];
  try {
    const object = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
    const { isLastValid } = settingsInForce(object, { controllers: CONTROLLER_NAMES, namespace });
    const spec = effectiveSpec(store, namespace, (isLastValid ? lastValidObject(object) : object)?.spec ?? {});
    const lines = findLostEnforcement(namespace, spec, { namespaces: store.list('Namespace'), policies });
    if (lines.length > 0) return lines;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [`the last valid settings are unknown: ${error.message}`];
  }
  // Replicas outside the cluster may have other settings.
  const isCovered = (name: string): boolean => policies !== undefined && name.endsWith('psa.portcullis.dev');
  const closed = webhooks.filter(({ name, failurePolicy }) => failurePolicy !== 'Ignore' && !isCovered(name));
  return closed.length === 0
    ? []
    : [`no webhooks with failurePolicy Fail: ${summarizeNames(closed.map(({ name }) => name))}`];
}
