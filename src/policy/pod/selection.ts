/**
 * The pod and pod template fields that decisions read. Stores keep only these fields, and large reviews are reduced to
 * them.
 */
import { CONTAINER_LISTS } from '../../kube/pod.ts';
import { POD_SCC_ANNOTATIONS, SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import { OLM_MANAGED_ANNOTATION } from '../../kube/well-known.ts';
import { POD_SPEC_FIELDS, VOLUME_SOURCES } from './pod.ts';

/** Selects the part of a value to keep. Values of an unexpected type are kept unchanged. */
export type Selection =
  | 'all'
  /** Decisions only check whether the value is present, but stores keep the value. */
  | 'presence'
  /** Selects parts of list items. */
  | { readonly items: Selection }
  /** Selects parts of object members. With `others`, members that are not listed are also kept. */
  | { readonly members: Selections; readonly others?: 'all' }
  /** Keeps the map entries that the function accepts. */
  | { readonly entries: (key: string, isString: boolean) => boolean }
  /** Keeps the whole value, but applies the selections to members with these names at any depth. */
  | { readonly anywhere: Selections }
  /** A part that many objects have in common, so it is pooled. */
  | { readonly shared: Selection };

type Selections = Readonly<Record<string, Selection>>;

const SHARED: Selection = { shared: 'all' };
const HANDLER: Selection = {
  shared: { members: { httpGet: { members: { host: 'all' } }, tcpSocket: { members: { host: 'all' } } } },
};
const CONTAINER = {
  name: 'all',
  image: 'all',
  securityContext: SHARED,
  ports: { shared: { items: { members: { hostPort: 'all' } } } },
  livenessProbe: HANDLER,
  readinessProbe: HANDLER,
  startupProbe: HANDLER,
  lifecycle: { shared: { members: { postStart: HANDLER, preStop: HANDLER } } },
} as const satisfies Selections;
const CONTAINERS: Selection = { items: { members: CONTAINER } };

function sourceItems(members: Selections): Selection {
  return { members: { name: 'all', items: { items: { members } } } };
}

/** The fields of a projected volume that identify a service account volume. */
const PROJECTED: Selection = {
  members: {
    sources: {
      items: {
        members: {
          serviceAccountToken: { members: { path: 'all', audience: 'all' } },
          configMap: sourceItems({ key: 'all', path: 'all' }),
          downwardAPI: sourceItems({
            path: 'all',
            fieldRef: { members: { apiVersion: 'all', fieldPath: 'all' } },
          }),
        },
      },
    },
  },
};

/**
 * For most volume sources, decisions only check whether they are present. A volume without a known source is kept,
 * because messages print it in full.
 */
const VOLUME: Selection = {
  members: {
    ...Object.fromEntries(VOLUME_SOURCES.map((source) => [source, { members: {} }])),
    hostPath: { members: { path: 'all' } },
    flexVolume: { members: { driver: 'all' } },
    // Only this part of a volume uses more memory than an entry in a pool.
    projected: { shared: PROJECTED },
  },
  others: 'all',
};

/** The pod spec fields that Pod Security checks, SCCs and exemptions read. */
export const POD_SPEC = {
  members: {
    ...Object.fromEntries(Array.from(POD_SPEC_FIELDS.keys(), (field) => [field, 'all' as const])),
    initContainers: CONTAINERS,
    containers: CONTAINERS,
    ephemeralContainers: CONTAINERS,
    volumes: { shared: { items: VOLUME } },
    securityContext: SHARED,
  },
} as const satisfies Selection;

const TEMPLATE_CONTAINERS: Selection = {
  items: {
    members: {
      ...CONTAINER,
      ports: { shared: { items: { members: { hostPort: 'all', containerPort: 'all' } } } },
      volumeMounts: { shared: { items: { members: { mountPath: 'all' } } } },
    },
  },
};

/**
 * The fields of `POD_SPEC`, and the pod template fields from which the API server derives some of them at pod creation.
 * It derives the host ports of pods on the host network, and the volume of the service account token.
 */
export const TEMPLATE_SPEC: Selection = {
  members: {
    ...POD_SPEC.members,
    initContainers: TEMPLATE_CONTAINERS,
    containers: TEMPLATE_CONTAINERS,
    automountServiceAccountToken: 'all',
  },
};

/** Annotation that the network plugin sets on running pods. SCC admission ignores changes to it. */
export const POD_NETWORKS_ANNOTATION = 'k8s.ovn.org/pod-networks';
export const APP_ARMOR_ANNOTATION_PREFIX = 'container.apparmor.security.beta.kubernetes.io/';

const POD_ANNOTATIONS: ReadonlySet<string> = new Set([
  ...Object.values(POD_SCC_ANNOTATIONS),
  SECCOMP_POD_ANNOTATION,
  POD_NETWORKS_ANNOTATION,
]);
const POD_ANNOTATION_PREFIXES = [SECCOMP_CONTAINER_ANNOTATION_PREFIX, APP_ARMOR_ANNOTATION_PREFIX];

function isPodAnnotation(key: string): boolean {
  return POD_ANNOTATIONS.has(key) || POD_ANNOTATION_PREFIXES.some((prefix) => key.startsWith(prefix));
}

/** Metadata of pods, pod templates and objects with pod templates. */
const POD_METADATA = {
  members: {
    name: 'all',
    generateName: 'all',
    namespace: 'all',
    // Values that have the wrong type are also kept, because decoders report them.
    annotations: { entries: (key, isString) => isPodAnnotation(key) || !isString },
    ownerReferences: { items: { members: { controller: 'all' } } },
  },
} as const satisfies Selection;

export const POD = {
  members: { apiVersion: 'all', kind: 'all', metadata: POD_METADATA, spec: POD_SPEC },
} as const satisfies Selection;

const { name: _name, image: _image, ...EVALUATED_CONTAINER } = CONTAINER;
const EVALUATED_CONTAINERS: Selection = { items: { members: EVALUATED_CONTAINER } };

/**
 * The part of `POD` whose strings Pod Security checks and SCC strategies evaluate. It does not include names, because
 * only grants, exemptions and exceptions refer to them.
 */
export const EVALUATED_POD: Selection = {
  members: {
    metadata: { members: { annotations: POD_METADATA.members.annotations } },
    spec: {
      members: {
        ...Object.fromEntries(CONTAINER_LISTS.map((list) => [list, EVALUATED_CONTAINERS])),
        securityContext: { members: { sysctls: { items: { members: { name: 'all' } } } }, others: 'all' },
        os: 'all',
      },
    },
  },
};

const WORKLOAD_METADATA: Selection = {
  members: { ...POD_METADATA.members, labels: { entries: (_key, isString) => !isString } },
};

/**
 * The fields outside a workload's pod template that affect its pods. Each volume claim of a StatefulSet becomes a
 * volume.
 */
export const BESIDE_TEMPLATE = {
  members: { volumeClaimTemplates: { items: { members: { metadata: { members: { name: 'all' } } } } } },
} as const satisfies Selection;

/** Returns the selection for a built-in object that has a pod template at the given path. */
export function selectWorkload(path: readonly string[]): Selection {
  return {
    members: {
      apiVersion: 'all',
      kind: 'all',
      metadata: WORKLOAD_METADATA,
      ...path.reduceRight<Selections>(
        (members, key) => ({ [key]: { members: { ...members, replicas: 'all', ...BESIDE_TEMPLATE.members } } }),
        {
          ...POD.members,
          spec: TEMPLATE_SPEC,
        },
      ),
    },
  };
}

/**
 * Container fields whose values decisions do not read. In kinds that are not built in, their presence identifies a
 * container.
 */
const UNREAD_CONTAINER_FIELDS = ['args', 'command', 'env', 'envFrom', 'resources', 'volumeDevices', 'volumeMounts'];
const OTHER_CONTAINERS: Selection = {
  items: {
    members: Object.fromEntries(UNREAD_CONTAINER_FIELDS.map((field) => [field, 'presence'])),
    others: 'all',
  },
};

/** Selection for an object of a kind that is not built in. Any member may contain pod templates. */
export const OTHER_KIND: Selection = {
  anywhere: Object.fromEntries(CONTAINER_LISTS.map((list) => [list, OTHER_CONTAINERS])),
};

/** Domains of the labels and annotations that decisions read. */
const READ_DOMAIN = /^(?:[^/]*\.)?(?:kubernetes\.io|k8s\.io|openshift\.io|portcullis\.dev)\//;

/**
 * Returns true if decisions read the label or annotation. Other annotations, such as those of network plugins, differ
 * for each pod and are not stored.
 */
export function isReadKey(key: string): boolean {
  return READ_DOMAIN.test(key) || key === OLM_MANAGED_ANNOTATION;
}

/** The annotation in which kubectl stores whole objects. */
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Returns the selection for the owners of labels and annotations in `managedFields`, where each key has the prefix
 * `f:`.
 */
function selectOwners(isKept: (key: string) => boolean): Selection {
  const entries: Selection = { entries: (key) => isKept(key.slice('f:'.length)) };
  const metadata: Selection = { members: { 'f:labels': entries, 'f:annotations': entries } };
  return { items: { members: { fieldsV1: { members: { 'f:metadata': metadata } } }, others: 'all' } };
}

/**
 * Returns the selection for a namespace that keeps the accepted labels and annotations with their owners, and all other
 * fields.
 */
export function selectNamespaceKeys(isKept: (key: string) => boolean): Selection {
  const entries: Selection = { entries: (key, isString) => isKept(key) || !isString };
  const metadata = { labels: entries, annotations: entries, managedFields: selectOwners(isKept) };
  return { members: { metadata: { members: metadata, others: 'all' } }, others: 'all' };
}

/** Selection for a namespace and the owners of its labels and annotations. */
export const NAMESPACE = selectNamespaceKeys(isReadKey);

/** Selection for a stored namespace. It keeps all labels, because settings can select namespaces by any label. */
export const STORED_NAMESPACE: Selection = {
  members: {
    metadata: {
      members: {
        name: 'all',
        uid: 'all',
        resourceVersion: 'all',
        creationTimestamp: 'all',
        deletionTimestamp: 'all',
        labels: 'all',
        annotations: { entries: (key) => isReadKey(key) && key !== LAST_APPLIED },
        managedFields: selectOwners(isReadKey),
      },
    },
    status: { members: { phase: 'all' } },
  },
};

/**
 * Returns the pooled object that is equal to the value. A new object is passed through `onNew` before it enters the
 * pool.
 */
export type Share = (value: unknown, onNew?: (value: object) => object) => unknown;

/** Options of `select`. */
interface SelectOptions {
  readonly share?: Share | undefined;
  /** Returns the replacement for a value if only its presence is read. */
  readonly mark?: ((value: unknown) => unknown) | undefined;
  /** Returns the replacement for a member that is not selected, or `undefined` to drop the member. */
  readonly replace?: ((value: unknown, key: string) => unknown) | undefined;
}

/** Returns the selected part of a value. Members keep their order. */
export function select(value: unknown, selection: Selection, options: SelectOptions = {}): unknown {
  const { share, mark, replace } = options;
  if (selection === 'all') return value;
  if (selection === 'presence') return mark ? mark(value) : value;
  if ('shared' in selection) {
    const selected = select(value, selection.shared, options);
    return share ? share(selected) : selected;
  }
  if (Array.isArray(value)) {
    const items = 'anywhere' in selection ? selection : 'items' in selection ? selection.items : undefined;
    return items ? value.map((item) => select(item, items, options)) : value;
  }
  if (!isObject(value)) return value;
  const members: [string, unknown][] = [];
  for (const [key, member] of Object.entries(value)) {
    const selected = selectMember(selection, key, typeof member === 'string');
    const result = selected === undefined ? replace?.(member, key) : select(member, selected, options);
    if (selected !== undefined || result !== undefined) members.push([key, result]);
  }
  return Object.fromEntries(members);
}

/** Returns the selection for a member of an object, or `undefined` if the member is dropped. */
function selectMember(selection: Selection, key: string, isString: boolean): Selection | undefined {
  if (typeof selection === 'string' || 'items' in selection || 'shared' in selection) return 'all';
  if ('entries' in selection) return selection.entries(key, isString) ? 'all' : undefined;
  if ('anywhere' in selection) return Object.hasOwn(selection.anywhere, key) ? selection.anywhere[key] : selection;
  return Object.hasOwn(selection.members, key) ? selection.members[key] : selection.others;
}
