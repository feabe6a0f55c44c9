import type { FieldShape, FieldShapes } from '../kube/field-shape.ts';
import { ENFORCEMENT_MODES, MAX_VIOLATING_NAMESPACES, PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { RESOURCES } from '../kube/resources.ts';
import { SCC_FIELDS, USER_NAMESPACE_LEVELS } from '../kube/scc.ts';
import { clusterMetadata } from './settings.ts';

/** The subset of OpenAPI that the definitions use. `kubectl explain` shows the descriptions. */
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
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly description?: string;
}

/** A column of `kubectl get`. */
type Column = readonly [name: string, jsonPath: string, description: string, more?: ColumnOptions];

interface ColumnOptions {
  /** `date` prints the age of a time. */
  readonly type?: 'date';
  /** A column with a priority above 0 requires `-o wide`. */
  readonly priority?: number;
}

interface DefinitionOptions {
  readonly singular: string;
  readonly shortNames?: readonly string[];
  readonly hasStatus?: boolean;
  readonly columns?: readonly Column[];
  readonly schema: Schema;
}

/** The CustomResourceDefinition of a cluster-scoped kind with one version. */
function definition(
  kind: 'PSAEnforcementConfig' | 'RangeAllocation' | 'SecurityContextConstraints',
  { singular, shortNames, hasStatus, columns, schema: { properties, ...schema } }: DefinitionOptions,
) {
  const { group, version, resource: plural } = RESOURCES[kind];
  const typeMeta = { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' } } as const;
  const openAPIV3Schema: Schema = { type: 'object', ...schema, properties: { ...typeMeta, ...properties } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: clusterMetadata(`${plural}.${group}`),
    spec: {
      group,
      scope: 'Cluster',
      names: { kind, listKind: `${kind}List`, plural, singular, ...(shortNames ? { shortNames } : {}) },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(hasStatus ? { subresources: { status: {} } } : {}),
          ...(columns ? { additionalPrinterColumns: columns.map(printerColumn) } : {}),
          schema: { openAPIV3Schema },
        },
      ],
    },
  } as const;
}

function printerColumn([name, jsonPath, description, { type, priority } = {}]: Column) {
  return { name, type: type ?? 'string', jsonPath, description, ...(priority === undefined ? {} : { priority }) };
}

function text(description: string): Schema {
  return { type: 'string', description };
}

function time(description: string): Schema {
  return { type: 'string', format: 'date-time', description };
}

function conditionPath(type: string, field: string): string {
  return `.status.conditions[?(@.type=="${type}")].${field}`;
}

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
      lastTransitionTime: time('Time of the last change of the status.'),
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
      lastTransitionTime: time('Time of the last change of the state.'),
    },
  },
};

const MODES = [...ENFORCEMENT_MODES];

/** Requests enforcement of the Pod Security Standards, and reports its state. The only object is `cluster`. */
export const psaEnforcementConfigs = definition('PSAEnforcementConfig', {
  singular: 'psaenforcementconfig',
  hasStatus: true,
  columns: [
    ['Requested', '.spec.enforcementMode', 'Requested enforcement mode'],
    ['Decided', '.status.enforcementMode', 'Decided enforcement mode'],
    ['Enforcing', conditionPath('Enforcing', 'status'), 'Whether the decided mode is in effect'],
    [
      'Progressing',
      conditionPath('Progressing', 'reason'),
      'Reason for which the decided mode is not in effect',
      { priority: 1 },
    ],
    ['Evaluated', '.status.lastEvaluationTime', 'Time of the last complete evaluation', { type: 'date' }],
    ['Age', '.metadata.creationTimestamp', 'Time of creation', { type: 'date' }],
  ],
  schema: {
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
      spec: {
        type: 'object',
        description: 'Request of the administrator.',
        properties: {
          enforcementMode: {
            ...text(
              'Restricted enforces regardless of violations. Legacy does not enforce. Empty enforces after a complete evaluation without violations.',
            ),
            default: '',
            enum: MODES,
          },
        },
      },
      status: {
        type: 'object',
        description: 'Decision and its reasons.',
        properties: {
          enforcementMode: { ...text('Decided mode. Empty before the first decision.'), enum: MODES },
          lastEvaluationTime: time('End of the last evaluation of all namespaces.'),
          observedGeneration: { type: 'integer', format: 'int64' },
          violatingNamespaces,
          conditions,
        },
      },
    },
  },
});

/**
 * Allocated blocks of user IDs. The only object is `scc-uid`. Only the controllers write it, so that two namespaces never
 * get the same block.
 */
const rangeAllocations = definition('RangeAllocation', {
  singular: 'rangeallocation',
  schema: {
    description: 'RangeAllocation records the allocated blocks of a range of user IDs. It is internal to Portcullis.',
    properties: {
      range: { ...text('Range and size of its blocks, such as 1000000000-1999999999/10000.'), maxLength: 253 },
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
});

/** Descriptions of the fields of an SCC, by path. */
const SCC_DESCRIPTIONS: Readonly<Record<string, string>> = {
  priority: 'SCCs with a higher priority are evaluated first. The default is 0. Negative values are invalid.',
  allowPrivilegedContainer: 'Whether containers may be privileged.',
  defaultAddCapabilities:
    'Capabilities added to every container that does not drop them. They must not overlap with requiredDropCapabilities.',
  requiredDropCapabilities: 'Capabilities dropped from every container. No container may add them.',
  allowedCapabilities:
    "Capabilities that containers may add. '*' allows all. They must not overlap with requiredDropCapabilities.",
  allowHostDirVolumePlugin:
    'Whether pods may mount directories of the node. It takes precedence over volumes: true adds hostPath to the list, false removes it.',
  volumes:
    "Allowed volume types, such as configMap. '*' allows all, 'none' allows none. If absent, all types except hostPath are allowed.",
  allowedFlexVolumes:
    "Allowed drivers of flexVolume volumes. Empty allows any driver. Requires flexVolume or '*' in volumes.",
  'allowedFlexVolumes[].driver': 'Name of the driver.',
  allowHostNetwork: 'Whether pods may use the network of the node.',
  allowHostPorts: 'Whether containers may use ports of the node.',
  allowHostPID: 'Whether pods may use the process ID namespace of the node.',
  allowHostIPC: 'Whether pods may use the IPC namespace of the node.',
  userNamespaceLevel:
    'RequirePodLevel admits only pods with a user namespace (hostUsers: false). AllowHostLevel admits all pods.',
  defaultAllowPrivilegeEscalation:
    'Default of allowPrivilegeEscalation of containers. If absent, no default is set. Requires allowPrivilegeEscalation.',
  allowPrivilegeEscalation:
    'Whether processes may gain more privileges than their parent process. The default is true.',
  seLinuxContext: 'Strategy for the SELinux label of pods.',
  'seLinuxContext.type':
    'MustRunAs (the label in seLinuxOptions; the default level is that of the namespace) or RunAsAny.',
  'seLinuxContext.seLinuxOptions': 'Label required by MustRunAs.',
  'seLinuxContext.seLinuxOptions.user': 'SELinux user.',
  'seLinuxContext.seLinuxOptions.role': 'SELinux role.',
  'seLinuxContext.seLinuxOptions.type': 'SELinux type.',
  'seLinuxContext.seLinuxOptions.level': 'SELinux level.',
  runAsUser: 'Strategy for the user of containers.',
  'runAsUser.type': 'MustRunAs (uid), MustRunAsRange, MustRunAsNonRoot or RunAsAny.',
  'runAsUser.uid': 'User required by MustRunAs.',
  'runAsUser.uidRangeMin':
    'First user of MustRunAsRange, and the default user. If both bounds are absent, the range of the namespace applies.',
  'runAsUser.uidRangeMax': 'Last user of MustRunAsRange.',
  supplementalGroups: 'Strategy for the supplemental groups of pods. The default is RunAsAny.',
  'supplementalGroups.ranges':
    'Groups allowed by MustRunAs. The first group is the default. If absent, the ranges of the namespace apply.',
  fsGroup: 'Strategy for the group that owns the volumes of pods. The default is RunAsAny.',
  'fsGroup.ranges':
    'Groups allowed by MustRunAs. The first group is the default. If absent, the first group of the namespace applies.',
  ...Object.fromEntries(['supplementalGroups', 'fsGroup'].flatMap(groupDescriptions)),
  readOnlyRootFilesystem: 'Whether the root file system of containers must be read-only.',
  users: 'Users that may use this SCC, in addition to RBAC.',
  groups: 'Groups that may use this SCC, in addition to RBAC.',
  seccompProfiles:
    "Allowed seccomp profiles: runtime/default, unconfined or localhost/<profile>. '*' allows all. The first profile is the default. If empty, pods must not set a profile.",
  allowedUnsafeSysctls:
    "Unsafe sysctls that pods may set. A trailing '*' matches a prefix. The kubelet has to allow them as well.",
  forbiddenSysctls: "Sysctls that pods must not set, including safe sysctls. A trailing '*' matches a prefix.",
};

function groupDescriptions(strategy: string): readonly (readonly [string, string])[] {
  return [
    [`${strategy}.type`, 'MustRunAs (within one of the ranges) or RunAsAny.'],
    [`${strategy}.ranges[].min`, 'First group of the range.'],
    [`${strategy}.ranges[].max`, 'Last group of the range.'],
  ];
}

/** Fields in which `null` does not equal an absent field, besides the items of lists. */
const NOT_NULLABLE =
  /^(allowHost\w+|allowPrivilegedContainer|userNamespaceLevel|readOnlyRootFilesystem|\w+\.type|.*\[\](\.driver)?)$/;

/** Constraints beyond the type of the field. */
const SCC_CONSTRAINTS: Readonly<Record<string, Schema>> = {
  volumes: { maxItems: 256 },
  'volumes[]': { maxLength: 253 },
  'allowedFlexVolumes[]': { required: ['driver'] },
  userNamespaceLevel: { enum: USER_NAMESPACE_LEVELS, default: 'AllowHostLevel' },
};

/** The schema of a field of an SCC. Lists are atomic. */
function sccSchema(path: string, shape: FieldShape): Schema {
  const description = SCC_DESCRIPTIONS[path];
  const { properties, ...type } = typeSchema(path, shape);
  return {
    ...type,
    ...(description === undefined ? {} : { description }),
    ...(properties ? { properties } : {}),
    ...(NOT_NULLABLE.test(path) ? {} : { nullable: true }),
    ...SCC_CONSTRAINTS[path],
  };
}

function typeSchema(path: string, shape: FieldShape): Schema {
  if (shape === 'int32' || shape === 'int64') return { type: 'integer', format: shape };
  if (shape === 'boolean' || shape === 'string') return { type: shape };
  if (shape === 'any') return {};
  if (Array.isArray(shape)) {
    const [items] = shape as readonly [FieldShape];
    return { type: 'array', 'x-kubernetes-list-type': 'atomic', items: sccSchema(`${path}[]`, items) };
  }
  const members = Object.entries(shape as FieldShapes).map(([name, member]) => [
    name,
    sccSchema(`${path}.${name}`, member),
  ]);
  return { type: 'object', properties: Object.fromEntries(members) as Record<string, Schema> };
}

/**
 * Security context constraints of OpenShift.
 *
 * The webhook objects.scc.portcullis.dev completes short manifests before the API server applies the schema, and validates
 * them afterwards. The CEL rule protects pods if an object is stored without that webhook.
 */
export const securityContextConstraints = definition('SecurityContextConstraints', {
  singular: 'securitycontextconstraint',
  shortNames: ['scc'],
  columns: [
    ['Priv', '.allowPrivilegedContainer', 'Whether containers may be privileged'],
    ['Caps', '.allowedCapabilities', 'Capabilities that containers may add'],
    ['SELinux', '.seLinuxContext.type', 'Strategy for the SELinux label'],
    ['RunAsUser', '.runAsUser.type', 'Strategy for the user of containers'],
    ['FSGroup', '.fsGroup.type', 'Strategy for the group that owns volumes'],
    ['SupGroup', '.supplementalGroups.type', 'Strategy for the supplemental groups'],
    ['Priority', '.priority', 'SCCs with a higher priority are evaluated first'],
    ['ReadOnlyRootFS', '.readOnlyRootFilesystem', 'Whether the root file system of containers must be read-only'],
    ['Volumes', '.volumes', 'Allowed volume types'],
  ],
  schema: {
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
    properties: Object.fromEntries(Object.entries(SCC_FIELDS).map(([name, shape]) => [name, sccSchema(name, shape)])),
  },
});

/** Definitions for SCC admission. OpenShift has them built in. */
export const SCC_DEFINITIONS = [rangeAllocations, securityContextConstraints] as const;

/** All definitions of Portcullis. */
export const DEFINITIONS = [psaEnforcementConfigs, ...SCC_DEFINITIONS] as const;
