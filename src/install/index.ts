/** Generates the manifests of an installation from its settings and the registries of webhooks and controllers. */
import { isObject, type JsonObject } from '../kube/types.ts';
import { accountPolicy } from './account-policy.ts';
import nodes from './definitions/nodes.json' with { type: 'json' };
import podSecurityExceptions from './definitions/podsecurityexceptions.json' with { type: 'json' };
import portcullisConfigurations from './definitions/portcullisconfigurations.json' with { type: 'json' };
import psaEnforcementConfigs from './definitions/psaenforcementconfigs.json' with { type: 'json' };
import rangeAllocations from './definitions/rangeallocations.json' with { type: 'json' };
import securityContextConstraints from './definitions/securitycontextconstraints.json' with { type: 'json' };
import { namespaceObjects, replicaObjects } from './deployment.ts';
import { exceptionPolicy } from './exception-policy.ts';
import { grantPolicy } from './grant-policy.ts';
import { monitoringObjects } from './monitoring.ts';
import { rbacObjects } from './rbac.ts';
import { settingsPolicy } from './settings-policy.ts';
import {
  decodePolicy,
  type Manifest,
  type ManifestSettings,
  prerequisiteMetadata,
  SETTINGS_SCHEMA,
} from './settings.ts';
import { staticWebhookConfigurations } from './webhooks.ts';

export {
  type BreakGlassNote,
  type BreakGlassStatus,
  breakGlassStatus,
  formatNote,
  isOff,
  otherConditions,
  otherRequirements,
  parseFloorPolicy,
  parseTarget,
  planSwitch,
  type Target,
  targetPhase,
} from './break-glass-state.ts';
export { CONTROL_PLANE_CERTIFICATES, controlPlaneFiles } from './control-plane.ts';
export { CERTIFICATE, INITIAL_SETTINGS, namespaceObjects } from './deployment.ts';
export {
  type Configuration,
  type LiveWebhook,
  parseWebhookConfiguration,
  readConfigurations,
} from './live-webhooks.ts';
export {
  ALL_FEATURES,
  decodePolicy,
  defaultSettings,
  MINIMUM_MINOR,
  parseFeatures,
  PREREQUISITES,
  PROFILES,
  SELECTOR_LABELS,
  SETTINGS_SCHEMA,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  type PolicySettings,
  type Profile,
} from './settings.ts';
export { DEV_CLUSTER_ENFORCEMENT, type Enforcement, staticWebhookConfigurations } from './webhooks.ts';

const SETTINGS_CRD = complete({
  ...portcullisConfigurations,
  spec: {
    ...portcullisConfigurations.spec,
    versions: portcullisConfigurations.spec.versions.map((version) => ({
      ...version,
      schema: { openAPIV3Schema: SETTINGS_SCHEMA },
    })),
  },
});

/** The PSAEnforcementConfig CRD. An object of this kind requests enforcement and reports the state of enforcement. */
const ENFORCEMENT_CRD = complete(psaEnforcementConfigs);

/**
 * CRDs for SCC admission, which is built into OpenShift. The mutate.objects.portcullis.dev webhook sets the fields that
 * an SCC omits before the API server applies the schema, and validate.objects.portcullis.dev validates the SCC
 * afterwards. The CEL rule protects pods if an SCC is stored without these webhooks. Only the controllers write the
 * `scc-uid` RangeAllocation, so no two namespaces get the same block. The schema does not declare the data of this
 * object as base64, because API servers do not accept an empty string as base64.
 */
const SCC_CRDS = [rangeAllocations, securityContextConstraints].map(complete);

/** The `nodes.config.openshift.io` CRD. OpenShift installs its own CRD. */
const NODES_CRD = complete(nodes);

const EXCEPTION_CRD = complete(podSecurityExceptions);

/** All CRDs that Portcullis defines. */
export const CRDS = [SETTINGS_CRD, EXCEPTION_CRD, ENFORCEMENT_CRD, ...SCC_CRDS, NODES_CRD];

/** Returns a CRD with the labels of the installation, and with nullable objects in the spec. */
function complete<T extends Definition>(crd: T): T {
  const versions = crd.spec.versions.map((version) => {
    const { openAPIV3Schema: schema } = version.schema;
    const { spec } = schema.properties as { readonly spec?: JsonObject };
    const properties = { ...schema.properties, ...(spec === undefined ? {} : { spec: withNullableObjects(spec) }) };
    return { ...version, schema: { openAPIV3Schema: { ...schema, properties } } };
  });
  return { ...crd, metadata: prerequisiteMetadata(crd.metadata.name), spec: { ...crd.spec, versions } };
}

type Definition = Manifest & {
  readonly spec: {
    readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: { readonly properties: object } } }[];
  };
};

/**
 * Makes objects without required fields nullable, because server-side apply writes null when it removes the last field
 * of an object.
 */
function withNullableObjects(schema: JsonObject): JsonObject {
  if (schema['type'] !== 'object') return schema;
  const { properties, required } = schema;
  const nullable = required === undefined ? { nullable: true } : {};
  if (!isObject(properties)) return { ...schema, ...nullable };
  const members = Object.entries(properties as Record<string, JsonObject>);
  const fields = members.map(([name, property]) => [name, withNullableObjects(property)] as const);
  return { ...schema, ...nullable, properties: Object.fromEntries(fields) };
}

/** Returns all objects of an installation, in the order in which they are applied. Webhook configurations come last. */
export function buildManifests(settings: ManifestSettings): readonly Manifest[] {
  return [
    SETTINGS_CRD,
    EXCEPTION_CRD,
    ...(settings.features.rollout ? [ENFORCEMENT_CRD] : []),
    ...(settings.features.scc ? SCC_CRDS : []),
    ...(settings.nodesConfig ? [NODES_CRD] : []),
    ...namespaceObjects(settings),
    ...rbacObjects(settings),
    ...accountPolicy(settings),
    ...exceptionPolicy(),
    ...settingsPolicy(),
    ...(settings.features.scc ? grantPolicy() : []),
    ...replicaObjects(settings),
    ...(settings.monitoring === 'none' ? [] : monitoringObjects(settings)),
    ...(decodePolicy(settings).webhooks.management === 'static' ? staticWebhookConfigurations(settings) : []),
  ];
}
