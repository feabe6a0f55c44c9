/** The manifests of an installation, generated from its settings and the registries of webhooks and controllers. */
import nodes from './definitions/nodes.json' with { type: 'json' };
import portcullisConfigurations from './definitions/portcullisconfigurations.json' with { type: 'json' };
import psaEnforcementConfigs from './definitions/psaenforcementconfigs.json' with { type: 'json' };
import rangeAllocations from './definitions/rangeallocations.json' with { type: 'json' };
import securityContextConstraints from './definitions/securitycontextconstraints.json' with { type: 'json' };
import { accountPolicy } from './account-policy.ts';
import { namespaceObjects, replicaObjects } from './deployment.ts';
import { monitoringObjects } from './monitoring.ts';
import { rbacObjects } from './rbac.ts';
import { clusterMetadata, decodePolicy, SETTINGS_SCHEMA, type Manifest, type ManifestSettings } from './settings.ts';
import { webhookConfigurations } from './webhooks.ts';

export { CONTROL_PLANE_CERTIFICATES, controlPlaneFiles } from './control-plane.ts';
export { INITIAL_SETTINGS, namespaceObjects } from './deployment.ts';
export {
  ALL_FEATURES,
  decodePolicy,
  defaultSettings,
  MINIMUM_MINOR,
  parseFeatures,
  PROFILES,
  SETTINGS_SCHEMA,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  type Profile,
} from './settings.ts';
export { webhookConfigurations, type WebhookConfiguration } from './webhooks.ts';

/** The definition of the settings. */
const SETTINGS_DEFINITION = withLabels({
  ...portcullisConfigurations,
  spec: {
    ...portcullisConfigurations.spec,
    versions: portcullisConfigurations.spec.versions.map((version) => ({
      ...version,
      schema: { openAPIV3Schema: SETTINGS_SCHEMA },
    })),
  },
});

/** The definition of the object that requests enforcement and reports its state. */
const ENFORCEMENT_DEFINITION = withLabels(psaEnforcementConfigs);

/**
 * The CustomResourceDefinitions for SCC admission, which OpenShift has built in. The webhook objects.scc.portcullis.dev
 * completes short SCCs before the API server applies the schema, and validates them afterwards. The CEL rule protects pods
 * if an SCC is stored without that webhook. Only the controllers write the RangeAllocation `scc-uid`, so that two
 * namespaces never get the same block. Its data may be empty, which API servers reject as base64.
 */
const SCC_DEFINITIONS = [rangeAllocations, securityContextConstraints].map(withLabels);

/** The definition of `nodes.config.openshift.io`. On OpenShift, the platform installs its own. */
const NODES_DEFINITION = withLabels(nodes);

/** The CustomResourceDefinitions of Portcullis. */
export const DEFINITIONS = [SETTINGS_DEFINITION, ENFORCEMENT_DEFINITION, ...SCC_DEFINITIONS, NODES_DEFINITION];

function withLabels<T extends Manifest>(definition: T): T {
  return { ...definition, metadata: clusterMetadata(definition.metadata.name) };
}

/** All objects of an installation, in the order in which they are applied. Webhook configurations are last. */
export function buildManifests(settings: ManifestSettings): readonly Manifest[] {
  return [
    SETTINGS_DEFINITION,
    ...(settings.features.rollout ? [ENFORCEMENT_DEFINITION] : []),
    ...(settings.features.scc ? SCC_DEFINITIONS : []),
    ...(settings.nodesConfig ? [NODES_DEFINITION] : []),
    ...namespaceObjects(settings),
    ...rbacObjects(settings),
    ...accountPolicy(settings),
    ...replicaObjects(settings),
    ...(settings.monitoring === 'none' ? [] : monitoringObjects(settings)),
    ...(decodePolicy(settings).webhooks.management === 'static' ? webhookConfigurations(settings) : []),
  ];
}
