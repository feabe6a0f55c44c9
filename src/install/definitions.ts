import { type Manifest, clusterMetadata } from './settings.ts';
import { ENFORCEMENT_MODES, MAX_VIOLATING_NAMESPACES, PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';

/** The subset of OpenAPI that the definitions use. */
export interface Schema {
  readonly type?: 'array' | 'boolean' | 'integer' | 'object' | 'string';
  readonly format?: 'byte' | 'date-time' | 'int32' | 'int64';
  readonly nullable?: boolean;
  readonly enum?: readonly string[];
  readonly default?: string;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly { readonly rule: string; readonly message: string }[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Fields;
  readonly description?: string;
}

/** Fields by name. `kubectl explain` shows their descriptions. */
type Fields = Readonly<Record<string, Schema>>;

/** A CustomResourceDefinition. */
type Definition = Manifest & {
  readonly spec: {
    readonly group: string;
    readonly scope: 'Cluster' | 'Namespaced';
    readonly names: {
      readonly kind: string;
      readonly listKind: string;
      readonly plural: string;
      readonly singular: string;
      readonly shortNames?: readonly string[];
    };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly storage: boolean;
      readonly subresources?: { readonly status: object };
      readonly additionalPrinterColumns?: readonly Column[];
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
};

const TYPE_META: Fields = {
  apiVersion: { type: 'string' },
  kind: { type: 'string' },
  metadata: { type: 'object' },
};

function boolean(description: string): Schema {
  return { type: 'boolean', description };
}

function text(description: string): Schema {
  return { type: 'string', description };
}

function integer(format: 'int32' | 'int64', description: string): Schema {
  return { type: 'integer', format, description };
}

function object(description: string, properties: Fields): Schema {
  return { type: 'object', description, properties };
}

/** An atomic list. */
function list(items: Schema, description: string): Schema {
  return { type: 'array', 'x-kubernetes-list-type': 'atomic', items, description };
}

function textList(description: string): Schema {
  return list({ type: 'string' }, description);
}

/** A schema that accepts `null`, which equals an absent field. */
function nullable(schema: Schema): Schema {
  return { ...schema, nullable: true };
}

/** A column of `kubectl get`. A column with a priority above 0 requires `-o wide`. */
interface Column {
  readonly name: string;
  readonly type: 'date' | 'string';
  readonly jsonPath: string;
  readonly description: string;
  readonly priority?: number;
}

function column(name: string, jsonPath: string, description: string): Column {
  return { name, type: 'string', jsonPath, description };
}

/** A column for a time, which kubectl prints as an age. */
function ageColumn(name: string, jsonPath: string, description: string): Column {
  return { name, type: 'date', jsonPath, description };
}

const GROUP = 'config.openshift.io';

const TIME: Schema = { type: 'string', format: 'date-time' };

const conditions: Schema = {
  type: 'array',
  description: 'Conditions of the rollout.',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: {
    type: 'object',
    required: ['type', 'status', 'lastTransitionTime', 'reason', 'message'],
    properties: {
      type: {
        ...text('Evaluated, ViolationsDetected, Enforcing, Progressing, LegacyProposed or SpecInvalid.'),
        maxLength: 316,
      },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
      lastTransitionTime: { ...TIME, description: 'Time of the last change of the status.' },
      reason: { ...text('Reason in CamelCase.'), minLength: 1, maxLength: 1024 },
      message: { ...text('Details of the reason.'), maxLength: 32_768 },
    },
  },
};

const violatingNamespaces: Schema = {
  type: 'array',
  description:
    'Namespaces with workloads that enforcement would deny. An empty list is conclusive only if the condition Evaluated is True.',
  maxItems: MAX_VIOLATING_NAMESPACES,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: {
    type: 'object',
    required: ['name'],
    properties: {
      name: { ...text('Name of the namespace.'), minLength: 1, maxLength: 63 },
      reason: { ...text('Source of the violated level: the planned configuration, or the label.'), maxLength: 256 },
      state: { ...text('Current, or Previous for a result of an earlier evaluation.'), enum: ['Current', 'Previous'] },
      lastTransitionTime: { ...TIME, description: 'Time of the last change of the state.' },
    },
  },
};

/** Requests enforcement of the Pod Security Standards, and reports its state. The only object is `cluster`. */
export const psaEnforcementConfigs: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`psaenforcementconfigs.${GROUP}`),
  spec: {
    group: GROUP,
    scope: 'Cluster',
    names: {
      kind: 'PSAEnforcementConfig',
      listKind: 'PSAEnforcementConfigList',
      plural: 'psaenforcementconfigs',
      singular: 'psaenforcementconfig',
    },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        subresources: { status: {} },
        additionalPrinterColumns: [
          column('Requested', '.spec.enforcementMode', 'Requested enforcement mode'),
          column('Decided', '.status.enforcementMode', 'Decided enforcement mode'),
          column(
            'Enforcing',
            '.status.conditions[?(@.type=="Enforcing")].status',
            'Whether the decided mode is in effect',
          ),
          {
            ...column(
              'Progressing',
              '.status.conditions[?(@.type=="Progressing")].reason',
              'Reason for which the decided mode is not in effect',
            ),
            priority: 1,
          },
          ageColumn('Evaluated', '.status.lastEvaluationTime', 'Time of the last complete evaluation'),
          ageColumn('Age', '.metadata.creationTimestamp', 'Time of creation'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'PSAEnforcementConfig requests enforcement of the Pod Security Standards in the cluster, and reports what blocks it.',
            required: ['spec'],
            'x-kubernetes-validations': [
              {
                rule: `self.metadata.name == '${PSA_ENFORCEMENT_CONFIG}'`,
                message: `psaenforcementconfig is a singleton; its name must be ${PSA_ENFORCEMENT_CONFIG}`,
              },
            ],
            properties: {
              ...TYPE_META,
              spec: {
                type: 'object',
                description: 'Request of the administrator.',
                properties: {
                  enforcementMode: {
                    ...text(
                      'Restricted enforces regardless of violations. Legacy does not enforce. Empty enforces after a complete evaluation without violations.',
                    ),
                    default: '',
                    enum: [...ENFORCEMENT_MODES],
                  },
                },
              },
              status: {
                type: 'object',
                description: 'Decision and its reasons.',
                properties: {
                  enforcementMode: {
                    ...text('Decided mode. Empty before the first decision.'),
                    enum: [...ENFORCEMENT_MODES],
                  },
                  lastEvaluationTime: {
                    ...TIME,
                    description: 'End of the last evaluation of all namespaces.',
                  },
                  observedGeneration: { type: 'integer', format: 'int64' },
                  violatingNamespaces,
                  conditions,
                },
              },
            },
          },
        },
      },
    ],
  },
};

const RANGE_ALLOCATIONS_GROUP = 'security.internal.openshift.io';

/**
 * Allocated blocks of user IDs. The only object is `scc-uid`. Only the controllers write it, so that two namespaces never
 * get the same block.
 */
const rangeAllocations: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`rangeallocations.${RANGE_ALLOCATIONS_GROUP}`),
  spec: {
    group: RANGE_ALLOCATIONS_GROUP,
    scope: 'Cluster',
    names: {
      kind: 'RangeAllocation',
      listKind: 'RangeAllocationList',
      plural: 'rangeallocations',
      singular: 'rangeallocation',
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'RangeAllocation records the allocated blocks of a range of user IDs. It is internal to Portcullis.',
            properties: {
              ...TYPE_META,
              range: {
                ...text('Range and size of its blocks, such as 1000000000-1999999999/10000.'),
                maxLength: 253,
              },
              data: {
                ...text(
                  'Base64 of a big-endian bitmap. Bit 0 is the first block, and 1 means allocated. Empty: no block is allocated.',
                ),
                nullable: true,
                // API servers reject an empty string as base64.
                anyOf: [{ format: 'byte' }, { maxLength: 0 }],
              },
            },
          },
        },
      },
    ],
  },
};

function groupStrategy(description: string, ranges: string): Schema {
  const properties = {
    min: nullable(integer('int64', 'First group of the range.')),
    max: nullable(integer('int64', 'Last group of the range.')),
  };
  return nullable(
    object(description, {
      type: text('MustRunAs (within one of the ranges) or RunAsAny.'),
      ranges: nullable(list({ type: 'object', properties }, ranges)),
    }),
  );
}

/** The strategies of an SCC. */
const STRATEGIES: Fields = {
  seLinuxContext: nullable(
    object('Strategy for the SELinux label of pods.', {
      type: text('MustRunAs (the label in seLinuxOptions; the default level is that of the namespace) or RunAsAny.'),
      seLinuxOptions: nullable(
        object('Label required by MustRunAs.', {
          user: nullable(text('SELinux user.')),
          role: nullable(text('SELinux role.')),
          type: nullable(text('SELinux type.')),
          level: nullable(text('SELinux level.')),
        }),
      ),
    }),
  ),
  runAsUser: nullable(
    object('Strategy for the user of containers.', {
      type: text('MustRunAs (uid), MustRunAsRange, MustRunAsNonRoot or RunAsAny.'),
      uid: nullable(integer('int64', 'User required by MustRunAs.')),
      uidRangeMin: nullable(
        integer(
          'int64',
          'First user of MustRunAsRange, and the default user. If both bounds are absent, the range of the namespace applies.',
        ),
      ),
      uidRangeMax: nullable(integer('int64', 'Last user of MustRunAsRange.')),
    }),
  ),
  supplementalGroups: groupStrategy(
    'Strategy for the supplemental groups of pods. The default is RunAsAny.',
    'Groups allowed by MustRunAs. The first group is the default. If absent, the ranges of the namespace apply.',
  ),
  fsGroup: groupStrategy(
    'Strategy for the group that owns the volumes of pods. The default is RunAsAny.',
    'Groups allowed by MustRunAs. The first group is the default. If absent, the first group of the namespace applies.',
  ),
};

/** The fields of an SCC. */
const SCC_FIELDS: Fields = {
  ...TYPE_META,
  priority: nullable(
    integer('int32', 'SCCs with a higher priority are evaluated first. The default is 0. Negative values are invalid.'),
  ),
  allowPrivilegedContainer: boolean('Whether containers may be privileged.'),
  defaultAddCapabilities: nullable(
    textList(
      'Capabilities added to every container that does not drop them. They must not overlap with requiredDropCapabilities.',
    ),
  ),
  requiredDropCapabilities: nullable(textList('Capabilities dropped from every container. No container may add them.')),
  allowedCapabilities: nullable(
    textList(
      "Capabilities that containers may add. '*' allows all. They must not overlap with requiredDropCapabilities.",
    ),
  ),
  allowHostDirVolumePlugin: boolean(
    'Whether pods may mount directories of the node. It takes precedence over volumes: true adds hostPath to the list, false removes it.',
  ),
  volumes: {
    ...nullable(
      list(
        { type: 'string', maxLength: 253 },
        "Allowed volume types, such as configMap. '*' allows all, 'none' allows none. If absent, all types except hostPath are allowed.",
      ),
    ),
    maxItems: 256,
  },
  allowedFlexVolumes: nullable(
    list(
      { type: 'object', required: ['driver'], properties: { driver: text('Name of the driver.') } },
      "Allowed drivers of flexVolume volumes. Empty allows any driver. Requires flexVolume or '*' in volumes.",
    ),
  ),
  allowHostNetwork: boolean('Whether pods may use the network of the node.'),
  allowHostPorts: boolean('Whether containers may use ports of the node.'),
  allowHostPID: boolean('Whether pods may use the process ID namespace of the node.'),
  allowHostIPC: boolean('Whether pods may use the IPC namespace of the node.'),
  userNamespaceLevel: {
    ...text(
      'RequirePodLevel admits only pods with a user namespace (hostUsers: false). AllowHostLevel admits all pods.',
    ),
    enum: ['AllowHostLevel', 'RequirePodLevel'],
    default: 'AllowHostLevel',
  },
  defaultAllowPrivilegeEscalation: nullable(
    boolean(
      'Default of allowPrivilegeEscalation of containers. If absent, no default is set. Requires allowPrivilegeEscalation.',
    ),
  ),
  allowPrivilegeEscalation: nullable(
    boolean('Whether processes may gain more privileges than their parent process. The default is true.'),
  ),
  ...STRATEGIES,
  readOnlyRootFilesystem: boolean('Whether the root file system of containers must be read-only.'),
  users: nullable(textList('Users that may use this SCC, in addition to RBAC.')),
  groups: nullable(textList('Groups that may use this SCC, in addition to RBAC.')),
  seccompProfiles: nullable(
    textList(
      "Allowed seccomp profiles: runtime/default, unconfined or localhost/<profile>. '*' allows all. The first profile is the default. If empty, pods must not set a profile.",
    ),
  ),
  allowedUnsafeSysctls: nullable(
    textList(
      "Unsafe sysctls that pods may set. A trailing '*' matches a prefix. The kubelet has to allow them as well.",
    ),
  ),
  forbiddenSysctls: nullable(
    textList("Sysctls that pods must not set, including safe sysctls. A trailing '*' matches a prefix."),
  ),
};

const SECURITY_CONTEXT_CONSTRAINTS_GROUP = 'security.openshift.io';

/**
 * Security context constraints of OpenShift.
 *
 * The webhook objects.scc.portcullis.dev completes short manifests before the API server applies the schema, and validates
 * them afterwards. The CEL rule protects pods if an object is stored without that webhook.
 */
export const securityContextConstraints: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`securitycontextconstraints.${SECURITY_CONTEXT_CONSTRAINTS_GROUP}`),
  spec: {
    group: SECURITY_CONTEXT_CONSTRAINTS_GROUP,
    scope: 'Cluster',
    names: {
      kind: 'SecurityContextConstraints',
      listKind: 'SecurityContextConstraintsList',
      plural: 'securitycontextconstraints',
      singular: 'securitycontextconstraint',
      shortNames: ['scc'],
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        additionalPrinterColumns: [
          column('Priv', '.allowPrivilegedContainer', 'Whether containers may be privileged'),
          column('Caps', '.allowedCapabilities', 'Capabilities that containers may add'),
          column('SELinux', '.seLinuxContext.type', 'Strategy for the SELinux label'),
          column('RunAsUser', '.runAsUser.type', 'Strategy for the user of containers'),
          column('FSGroup', '.fsGroup.type', 'Strategy for the group that owns volumes'),
          column('SupGroup', '.supplementalGroups.type', 'Strategy for the supplemental groups'),
          column('Priority', '.priority', 'SCCs with a higher priority are evaluated first'),
          column(
            'ReadOnlyRootFS',
            '.readOnlyRootFilesystem',
            'Whether the root file system of containers must be read-only',
          ),
          column('Volumes', '.volumes', 'Allowed volume types'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'SecurityContextConstraints restrict the security settings of pods and set their defaults. SCCs are evaluated by priority, then from the most restrictive. The first SCC that allows the pod, and that its service account or its creator may use, admits it.',
            required: [
              'allowHostDirVolumePlugin',
              'allowHostIPC',
              'allowHostNetwork',
              'allowHostPID',
              'allowHostPorts',
              'allowPrivilegedContainer',
              'allowedCapabilities',
              'defaultAddCapabilities',
              'priority',
              'readOnlyRootFilesystem',
              'requiredDropCapabilities',
              'volumes',
            ],
            'x-kubernetes-validations': [
              {
                rule: "self.allowHostDirVolumePlugin || !has(self.volumes) || !self.volumes.exists(volume, volume == '*' || volume == 'hostPath')",
                message: "volumes must not hold 'hostPath' or '*' unless allowHostDirVolumePlugin is true",
              },
            ],
            properties: SCC_FIELDS,
          },
        },
      },
    ],
  },
};

/** Definitions for SCC admission. OpenShift has them built in. */
export const SCC_DEFINITIONS = [rangeAllocations, securityContextConstraints] as const;

/** All definitions of Portcullis. */
export const DEFINITIONS = [psaEnforcementConfigs, ...SCC_DEFINITIONS] as const;
