/** Reads the installation that `install` and `upgrade` change, and groups its settings by owner. */
import type { V1PodDisruptionBudget } from '@kubernetes/client-node';
import { CONFIGURATION_NAME, INSTALLATION } from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { type ClusterClient, DEFINITIONS } from '../../cluster/client.ts';
import { listSettings, type Setting, settingOwners, withSetting } from '../../config/setting-paths.ts';
import { INITIAL_SETTINGS, type Manifest, type ManifestSettings, readConfigurations } from '../../install/index.ts';
import { defined } from '../../kube/defined.ts';
import type { Kinds } from '../../kube/kinds.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { getApiVersion, namespaced, RESOURCES } from '../../kube/resources.ts';
import type { JsonObject, PortcullisConfiguration } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { jsonObject } from '../serve-options.ts';
import { deploymentSettings, replicaContainer } from './deployment.ts';
import { type AnnotatedSettings, readAnnotatedSettings, readPolicyObjects } from './policies.ts';
import { patchSettings } from './settings.ts';

/** Name of the CRD for the minimum kubelet version. */
export const NODES_CONFIG = 'nodes.config.openshift.io';

type Deployment = Kinds['Deployment'];

export interface Installation {
  /** Absent if only the settings of an installation exist. */
  readonly deployment: Deployment | undefined;
  readonly configuration: PortcullisConfiguration | undefined;
  /** Settings derived from the objects. */
  readonly settings: Partial<ManifestSettings>;
  /** Settings that the leader applies. */
  readonly initial: JsonObject;
  /** Settings that an installation without a server enforces through policies. */
  readonly policySettings: AnnotatedSettings | undefined;
}

/**
 * Reads the installation in a namespace. Rejects with an ApiError if an object cannot be read, and with a UserError if
 * the installation is in another namespace or belongs to Helm.
 */
export async function readInstallation(client: ClusterClient, namespace: string): Promise<Installation> {
  const { name } = INSTALLATION;
  const [deployment, configuration, binding, policies] = await Promise.all([
    client.get(RESOURCES.Deployment, name, namespace) as Promise<Deployment | undefined>,
    client.get(RESOURCES.PortcullisConfiguration, CONFIGURATION_NAME) as Promise<PortcullisConfiguration | undefined>,
    client.get(RESOURCES.ClusterRoleBinding, name) as Promise<Kinds['ClusterRoleBinding'] | undefined>,
    readPolicyObjects(client),
  ]);
  const policySettings = readAnnotatedSettings(policies);
  // The binding is proof of an installation, because users of a namespace can create a Deployment with this name, but
  // not the binding.
  const other = binding?.subjects?.[0]?.namespace ?? namespace;
  if (!deployment && other !== namespace && (await client.get(RESOURCES.Deployment, name, other))) {
    throw new UserError(`Portcullis is installed in namespace ${other}: use --namespace=${other}`);
  }
  if (!deployment && binding && (await findWebhookUrl(client)) !== undefined) {
    throw new UserError(
      `the replicas in namespace ${namespace} run as processes: use portcullis install --profile=local with the features and options of the installation`,
    );
  }
  const labels = deployment?.metadata?.labels ?? {};
  if (labels['app.kubernetes.io/managed-by'] === 'Helm') {
    throw new UserError(`the installation in namespace ${namespace} belongs to Helm: use helm upgrade --reuse-values`);
  }
  const initial = deployment ? readInitialSettings(deployment) : {};
  const settings = deployment ? await readSettings(client, deployment, namespace) : {};
  const existing = configuration?.spec ?? (deployment ? initial : policySettings?.spec);
  const policy = existing ? { policy: existing } : {};
  return { deployment, configuration, initial, policySettings, settings: { ...settings, ...policy } };
}

/** Returns a URL at which API servers call replicas outside the cluster, if any. */
async function findWebhookUrl(client: ClusterClient): Promise<string | undefined> {
  const configurations = (await readConfigurations(client)).filter(isPartOfPortcullis);
  return configurations.flatMap(({ webhooks }) => webhooks.flatMap(({ clientConfig }) => clientConfig.url ?? []))[0];
}

async function readSettings(
  client: ClusterClient,
  deployment: Deployment,
  namespace: string,
): Promise<Partial<ManifestSettings>> {
  const { name } = INSTALLATION;
  const monitoring = { group: 'monitoring.coreos.com', version: 'v1' };
  const { features, ...shown } = deploymentSettings(deployment);
  const [budget, monitor, rules, nodes] = await Promise.all([
    client.get(namespaced('policy/v1', 'poddisruptionbudgets'), name, namespace),
    client.get({ ...monitoring, resource: 'servicemonitors' }, name, namespace),
    client.get({ ...monitoring, resource: 'prometheusrules' }, name, namespace),
    client.get(DEFINITIONS, NODES_CONFIG),
  ]);
  const image = replicaContainer(deployment)?.image;
  const { minAvailable } = (budget as V1PodDisruptionBudget | undefined)?.spec ?? {};
  const [, runbook] = /"runbook_url":"([^#"]+)/.exec(JSON.stringify(rules ?? {})) ?? [];
  return {
    replicas: deployment.spec?.replicas ?? 1,
    monitoring: monitor ? 'prometheus-operator' : 'none',
    // The CRD may remain from an earlier installation with the feature.
    nodesConfig: features.kubelet && nodes !== undefined && isPartOfPortcullis(nodes),
    features,
    ...shown,
    ...(image == null ? {} : { image }),
    ...defined({ minAvailable, runbook }),
  };
}

function readInitialSettings(deployment: Deployment): JsonObject {
  const text = replicaContainer(deployment)?.env?.find(({ name }) => name === INITIAL_SETTINGS)?.value ?? '{}';
  try {
    return jsonObject(text);
  } catch (error) {
    const cause = (error as Error).message;
    throw new UserError(`deployments/${INSTALLATION.name}: ${INITIAL_SETTINGS}: ${cause}`, { cause: error });
  }
}

export function installedImage({ deployment }: Installation): string | undefined {
  return replicaContainer(deployment)?.image ?? undefined;
}

/** The field manager of `kubectl apply --server-side`. */
const KUBECTL = 'kubectl';

/**
 * Groups settings by owner, because the leader does not overwrite the fields of other managers. The object keeps all
 * fields that kubectl applied, because server-side apply removes omitted fields.
 */
export function divideSettings(
  { configuration, initial }: Pick<Installation, 'configuration' | 'initial'>,
  changes: readonly Setting[],
) {
  const ownersAt = (path: readonly string[]): readonly string[] =>
    configuration ? settingOwners(configuration, path) : [];
  const own = listSettings(changes.reduce(withSetting, initial)).filter(
    ({ path, value }) => value !== null && ownersAt(path).length === 0,
  );
  const owned = changes.filter(({ path }) => ownersAt(path).length > 0);
  const foreign = owned.filter(({ value }) => value !== null);
  const removed = owned.filter(({ value }) => value === null);
  const applied = listSettings(configuration?.spec ?? {}).filter(({ path }) => ownersAt(path).includes(KUBECTL));
  const object: Manifest & { readonly spec: JsonObject } = {
    apiVersion: getApiVersion('PortcullisConfiguration'),
    kind: 'PortcullisConfiguration',
    metadata: { name: CONFIGURATION_NAME },
    spec: [...applied, ...foreign].reduce(withSetting, {}),
  };
  return {
    /** Settings that the leader applies because they have no other owner. */
    initial: own.reduce(withSetting, {}),
    /** The object for `kubectl apply`, with the changed settings that other clients own. */
    object: foreign.length === 0 ? undefined : object,
    /** Command that removes settings owned by other clients, which server-side apply cannot remove. */
    removal: removed.length === 0 ? undefined : patchSettings(removed),
  };
}

/**
 * Returns the message of `Upgradeable=False` in the PSAEnforcementConfig, or `undefined` if the condition is not false.
 */
export async function readUpgradeProblem(client: ClusterClient): Promise<string | undefined> {
  const object = await client.get(RESOURCES.PSAEnforcementConfig, PSA_ENFORCEMENT_CONFIG);
  const { conditions } = (object as PSAEnforcementConfig | undefined)?.status ?? {};
  return conditions?.find(({ type, status }) => type === 'Upgradeable' && status === 'False')?.message;
}
