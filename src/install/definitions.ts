import { type Manifest, clusterMetadata } from './settings.ts';
import { ENFORCEMENT_MODES, MAX_VIOLATING_NAMESPACES, PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';

/** What a field may hold: the part of OpenAPI that is used here. */
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

/** What a field is for, as `kubectl explain` shows it. */
type Fields = Readonly<Record<string, Schema>>;

/** A kind that clusters do not have by themselves. */
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

/** A list that is written as a whole. */
function listOf(items: Schema, description: string): Schema {
  return { type: 'array', 'x-kubernetes-list-type': 'atomic', items, description };
}

function texts(description: string): Schema {
  return listOf({ type: 'string' }, description);
}

/** The same, but `null` is as good as absent. */
function nullable(schema: Schema): Schema {
  return { ...schema, nullable: true };
}

/** A column of what `kubectl get` prints; one with a priority above 0 only with `-o wide`. */
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

/** A column for a moment, told as how long ago it was. */
function ageColumn(name: string, jsonPath: string, description: string): Column {
  return { name, type: 'date', jsonPath, description };
}

const GROUP = 'config.openshift.io';

const TIME: Schema = { type: 'string', format: 'date-time' };

const conditions: Schema = {
  type: 'array',
  description: 'What is known, and what is under way.',
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
      lastTransitionTime: { ...TIME, description: 'When the status last changed.' },
      reason: { ...text('Why, in one word.'), minLength: 1, maxLength: 1024 },
      message: { ...text('The same for people.'), maxLength: 32_768 },
    },
  },
};

const violatingNamespaces: Schema = {
  type: 'array',
  description: 'Namespaces with workloads that enforcement would refuse; empty means none only if Evaluated is True.',
  maxItems: MAX_VIOLATING_NAMESPACES,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: {
    type: 'object',
    required: ['name'],
    properties: {
      name: { ...text('The name of the namespace.'), minLength: 1, maxLength: 63 },
      reason: { ...text('What to look at: the configuration to come, or the label.'), maxLength: 256 },
      state: { ...text('Current, or Previous for what an earlier evaluation found.'), enum: ['Current', 'Previous'] },
      lastTransitionTime: { ...TIME, description: 'When the state last changed.' },
    },
  },
};

/** Whether a cluster holds its workloads to the Pod Security Standards. There is one object, `cluster`. */
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
          column('Requested', '.spec.enforcementMode', 'What the administrator asks for'),
          column('Decided', '.status.enforcementMode', 'What was decided'),
          column('Enforcing', '.status.conditions[?(@.type=="Enforcing")].status', 'Whether it is in force'),
          {
            ...column('Progressing', '.status.conditions[?(@.type=="Progressing")].reason', 'What is under way'),
            priority: 1,
          },
          ageColumn('Evaluated', '.status.lastEvaluationTime', 'When all namespaces were last judged'),
          ageColumn('Age', '.metadata.creationTimestamp', 'When the object was created'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'PSAEnforcementConfig says whether the cluster holds its workloads to the Pod Security Standards, and tells what is in the way.',
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
                description: 'What the administrator asks for.',
                properties: {
                  enforcementMode: {
                    ...text(
                      'Restricted enforces, whatever is known of violations; Legacy enforces nothing. Empty: enforced once all namespaces have been judged and none has violations.',
                    ),
                    default: '',
                    enum: [...ENFORCEMENT_MODES],
                  },
                },
              },
              status: {
                type: 'object',
                description: 'What was decided, and why.',
                properties: {
                  enforcementMode: { ...text('What was decided; empty: nothing yet.'), enum: [...ENFORCEMENT_MODES] },
                  lastEvaluationTime: {
                    ...TIME,
                    description: 'The end of the last evaluation that judged every namespace.',
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
 * Which blocks of user ids namespaces have taken. There is one object, `scc-uid`, written by the controllers alone: it
 * is what keeps two namespaces from getting the same ids.
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
            description: 'RangeAllocation says which blocks of a range of user ids are taken. It is no API for users.',
            properties: {
              ...TYPE_META,
              range: {
                ...text('The range and the size of its blocks, as 1000000000-1999999999/10000.'),
                maxLength: 253,
              },
              data: {
                ...text(
                  'In base64 a big-endian number: a bit that is set is a block that is taken, the lowest one the first. Empty: none is.',
                ),
                nullable: true,
                // To API servers an empty text is no base64.
                anyOf: [{ format: 'byte' }, { maxLength: 0 }],
              },
            },
          },
        },
      },
    ],
  },
};

function groups(description: string, ofMustRunAs: string): Schema {
  const properties = {
    min: nullable(integer('int64', 'The first group of the range.')),
    max: nullable(integer('int64', 'The last group of the range.')),
  };
  return nullable(
    object(description, {
      type: text('MustRunAs (in one of the ranges) or RunAsAny.'),
      ranges: nullable(listOf({ type: 'object', properties }, ofMustRunAs)),
    }),
  );
}

/** The fields of an SCC that say how something is decided. */
const STRATEGIES: Fields = {
  seLinuxContext: nullable(
    object('How the SELinux label of pods is decided.', {
      type: text(
        'MustRunAs (the one of seLinuxOptions, its level that of the namespace where none is given) or RunAsAny.',
      ),
      seLinuxOptions: nullable(
        object('The label that MustRunAs demands.', {
          user: nullable(text('The user part of the label.')),
          role: nullable(text('The role part of the label.')),
          type: nullable(text('The type part of the label.')),
          level: nullable(text('The level part of the label.')),
        }),
      ),
    }),
  ),
  runAsUser: nullable(
    object('How the user of containers is decided.', {
      type: text('MustRunAs (uid), MustRunAsRange, MustRunAsNonRoot or RunAsAny.'),
      uid: nullable(integer('int64', 'The user that MustRunAs demands; it cannot do without.')),
      uidRangeMin: nullable(
        integer(
          'int64',
          'The first user of MustRunAsRange, which containers get that name none. Without both bounds the range of the namespace counts.',
        ),
      ),
      uidRangeMax: nullable(integer('int64', 'The last user of MustRunAsRange.')),
    }),
  ),
  supplementalGroups: groups(
    'How the supplemental groups of pods are decided. Absent is RunAsAny.',
    'The groups that MustRunAs allows; pods that name none get the first. Without ranges those of the namespace count.',
  ),
  fsGroup: groups(
    'How the group that owns the volumes of pods is decided. Absent is RunAsAny.',
    'The groups that MustRunAs allows; pods that name none get the first. Without ranges the first group of the namespace counts.',
  ),
};

/** The fields of an SCC. */
const SCC_FIELDS: Fields = {
  ...TYPE_META,
  priority: nullable(
    integer('int32', 'SCCs of a higher priority are tried first. Absent is 0; it cannot be negative.'),
  ),
  allowPrivilegedContainer: boolean('Whether containers may be privileged.'),
  defaultAddCapabilities: nullable(
    texts(
      'Capabilities that every container gets unless it drops them. None of them may be in requiredDropCapabilities.',
    ),
  ),
  requiredDropCapabilities: nullable(texts('Capabilities that every container loses and none may add.')),
  allowedCapabilities: nullable(
    texts("Capabilities that containers may add; '*' stands for all. None of them may be in requiredDropCapabilities."),
  ),
  allowHostDirVolumePlugin: boolean(
    'Whether pods may mount directories of their node. It goes before volumes: true adds hostPath to the list, false removes it.',
  ),
  volumes: {
    ...nullable(
      listOf(
        { type: 'string', maxLength: 253 },
        "The types of volumes that pods may have, named like the sources of volumes in pods; '*' stands for all, 'none' for none. Absent allows all but hostPath.",
      ),
    ),
    maxItems: 256,
  },
  allowedFlexVolumes: nullable(
    listOf(
      { type: 'object', required: ['driver'], properties: { driver: text('The name of the driver.') } },
      "The drivers that volumes of type flexVolume may have; empty allows any. It takes flexVolume or '*' in volumes.",
    ),
  ),
  allowHostNetwork: boolean('Whether pods may use the network of their node.'),
  allowHostPorts: boolean('Whether containers may take ports of their node.'),
  allowHostPID: boolean('Whether pods may see the processes of their node.'),
  allowHostIPC: boolean('Whether pods may share the inter-process communication of their node.'),
  userNamespaceLevel: {
    ...text(
      'RequirePodLevel admits only pods with a user namespace of their own (hostUsers false); AllowHostLevel admits others, too.',
    ),
    enum: ['AllowHostLevel', 'RequirePodLevel'],
    default: 'AllowHostLevel',
  },
  defaultAllowPrivilegeEscalation: nullable(
    boolean(
      'What containers get that leave allowPrivilegeEscalation open; absent, they keep it open. It takes allowPrivilegeEscalation to be true.',
    ),
  ),
  allowPrivilegeEscalation: nullable(
    boolean('Whether the processes of a container may gain more privileges than they started with. Absent is true.'),
  ),
  ...STRATEGIES,
  readOnlyRootFilesystem: boolean('Whether the root file system of containers must be read-only.'),
  users: nullable(texts('The users who may use this SCC, beside those who are granted its use by RBAC.')),
  groups: nullable(texts('The groups whose members may use this SCC, beside those who are granted its use by RBAC.')),
  seccompProfiles: nullable(
    texts(
      "The seccomp profiles that pods may have, as runtime/default, unconfined or localhost/<profile>; '*' stands for all. Pods without a profile get the first that is named. Empty: pods may not set a profile.",
    ),
  ),
  allowedUnsafeSysctls: nullable(
    texts("Unsafe sysctls that pods may set; a trailing '*' makes a prefix. The kubelet has to allow them, too."),
  ),
  forbiddenSysctls: nullable(texts("Sysctls that pods may not set, safe ones too; a trailing '*' makes a prefix.")),
};

const SECURITY_CONTEXT_CONSTRAINTS_GROUP = 'security.openshift.io';

/**
 * Security context constraints, as OpenShift has them: what pods may ask for, and what they get where they ask for
 * nothing.
 *
 * Short manifests are completed by the webhook objects.scc.portcullis.dev before the schema is applied, and judged by
 * it afterwards. The one rule here holds what no pod may profit from, should an object come in without that webhook.
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
          column('Caps', '.allowedCapabilities', 'The capabilities that containers may add'),
          column('SELinux', '.seLinuxContext.type', 'How the SELinux label is decided'),
          column('RunAsUser', '.runAsUser.type', 'How the user of containers is decided'),
          column('FSGroup', '.fsGroup.type', 'How the group that owns volumes is decided'),
          column('SupGroup', '.supplementalGroups.type', 'How the supplemental groups are decided'),
          column('Priority', '.priority', 'Higher is tried first'),
          column(
            'ReadOnlyRootFS',
            '.readOnlyRootFilesystem',
            'Whether the root file system of containers must be read-only',
          ),
          column('Volumes', '.volumes', 'The types of volumes that pods may have'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'SecurityContextConstraints say what pods may ask for, and what they get where they ask for nothing. They are tried by priority, from the most restrictive on, and the first that fits the pod, and that its service account or its creator may use, admits it.',
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

/** What SCCs need; where they are built in, the cluster has it. */
export const SCC_DEFINITIONS = [rangeAllocations, securityContextConstraints] as const;

/** The kinds of our own. */
export const DEFINITIONS = [psaEnforcementConfigs, ...SCC_DEFINITIONS] as const;
