/**
 * Generates clusters about which all readers must agree. A cluster has settings, a phase of the rollout, grants,
 * exceptions, and namespaces with levels, versions and SCC modes, some of which are invalid. It has workloads of all
 * kinds, with running pods of the current or of an older template.
 */
import fc, { type Arbitrary } from 'fast-check';
import { getControllerPod } from '../../../src/kube/controller-pod.ts';
import type { Kind } from '../../../src/kube/kinds.ts';
import { podTemplatePath } from '../../../src/kube/pod.ts';
import { getApiVersion, RESOURCES } from '../../../src/kube/resources.ts';
import { type JsonObject, type KubeObject, type PodLike, withValueAt } from '../../../src/kube/types.ts';
import { manifestErrors } from '../../../src/kube/validation.ts';
import { decodePod } from '../../../src/policy/pod/index.ts';
import { suggestEntries } from '../../../src/policy/pss/index.ts';
import { hashSpec } from '../../../src/views/exceptions.ts';
import { POD_SOURCES } from '../../../src/views/workloads.ts';
import { pods } from '../../policy/pss/arbitrary.ts';
import { RANGES } from '../controllers.ts';

const one = fc.constantFrom;
const LEVELS = ['privileged', 'baseline', 'restricted', 'restricted'] as const;
const ENFORCE = 'pod-security.kubernetes.io/enforce';

export interface Workload {
  readonly kind: Kind;
  readonly object: KubeObject;
  /** A running pod of the workload. */
  readonly pod?: KubeObject | undefined;
}

export interface World {
  readonly settings: JsonObject;
  readonly objects: readonly KubeObject[];
  readonly workloads: readonly Workload[];
}

const labels = fc.record(
  {
    [ENFORCE]: one(...LEVELS, ...LEVELS, 'strict'),
    [`${ENFORCE}-version`]: one('latest', 'v1.0', 'v1.18', 'v1.22', 'v1.28', 'v1.34', 'v1.99', 'newest'),
    'pod-security.kubernetes.io/warn': one(...LEVELS),
    'portcullis.dev/enforce': one(...LEVELS),
    'portcullis.dev/scc': one('enforce', 'enforce', 'report', 'off'),
  },
  { requiredKeys: [] },
);

/** The rollout manages the default level unless its phase is `Disabled`. */
const settings: Arbitrary<JsonObject> = fc
  .record({
    level: fc.option(one(...LEVELS), { nil: undefined }),
    version: one('latest', 'latest', 'v1.22'),
    phase: one('Disabled', 'Disabled', 'Evaluate', 'Enforce'),
    scc: fc.record({ mode: one('enforce', 'report', 'off') }),
    defaults: fc.record({ mode: one('off', 'off', 'apply') }),
    exceptions: fc.record({ mode: one('off', 'approved') }),
  })
  .map(({ level, version, phase, scc, defaults, exceptions }) => ({
    podSecurity: {
      exemptions: { runtimeClasses: ['kata'] },
      exceptions,
      ...(phase === 'Disabled' && level !== undefined ? { defaults: { enforce: level, enforceVersion: version } } : {}),
    },
    rollout: { phase },
    scc,
    defaults,
  }));

/** Pod fields outside of the container security contexts. */
const more = fc.record(
  {
    serviceAccountName: one('builder', 'builder', 'default'),
    runtimeClassName: one('kata', 'other'),
    automountServiceAccountToken: fc.boolean(),
    hostNetwork: one(false, false, true),
    os: one({ name: 'linux' }, { name: 'windows' }),
  },
  { requiredKeys: [] },
);

const template: Arbitrary<PodLike> = fc
  .tuple(pods(), more, one(undefined, undefined, undefined, 'anyuid', 'missing'))
  .map(([{ metadata = {}, spec }, fields, scc]) => {
    const required = scc === undefined ? {} : { 'openshift.io/required-scc': scc };
    const annotations = { ...metadata.annotations, ...required };
    return { metadata: { annotations }, spec: { ...spec, ...fields, ...withValidLists(spec) } } as PodLike;
  });

/** Gives containers and volumes unique names, and volumes one source. */
function withValidLists(spec: PodLike['spec']): object {
  const containers = spec?.containers ?? [];
  const initContainers = spec?.initContainers ?? [];
  const volumes = spec?.volumes ?? [];
  const image = 'registry.example.com/app:1';
  return {
    ephemeralContainers: undefined,
    // API servers reject probes and hooks of init containers.
    initContainers: initContainers.map(({ securityContext }, index) => ({
      securityContext,
      name: `init-${index}`,
      image,
    })),
    containers: (containers.length === 0 ? [{}] : containers).map((one, index) => ({
      ...one,
      ports: ('ports' in one ? (one.ports ?? []) : []).map((port) => ({
        ...port,
        containerPort: port.containerPort || 8080,
      })),
      name: `c-${index}`,
      image,
    })),
    volumes: volumes.map((volume, index) => {
      const [source] = Object.entries(volume).filter(([key]) => key !== 'name');
      // API servers before Kubernetes 1.37 require a reference.
      const isImage = source?.[0] === 'image';
      return {
        name: `v-${index}`,
        ...(isImage ? { image: { reference: image } } : Object.fromEntries(source ? [source] : [])),
      };
    }),
  };
}

interface Draft {
  readonly kind: (typeof POD_SOURCES)[number];
  readonly namespace: string;
  readonly template: PodLike;
  readonly pod: 'none' | 'current' | 'debugged' | 'older';
  /** Fields that the pod spec of an earlier template had. */
  readonly older: object;
  readonly isFinished: boolean;
}

const NAMESPACES = Array.from({ length: 12 }, (_unused, index) => `team-${index}`);

/** Generates workloads that API servers accept, because commands reject all others. */
const draft: Arbitrary<Draft> = fc
  .record({
    kind: one(...POD_SOURCES),
    namespace: one(...NAMESPACES),
    template,
    pod: one('none', 'current', 'debugged', 'older'),
    older: one({ hostPID: true }, { hostIPC: true }, { securityContext: { runAsUser: 0 } }, { securityContext: {} }),
    isFinished: one(false, false, false, true),
  })
  .filter((one) => {
    const { object, pod = object } = createWorkload(one, 0);
    return [object, pod].every((value) => manifestErrors(value as JsonObject).length === 0);
  });

interface ExceptionDraft {
  /** Index of the workload whose violations the exception allows. */
  readonly index: number;
  readonly hasExpired: boolean;
}

const exception: Arbitrary<ExceptionDraft> = fc.record({
  index: fc.nat(39),
  hasExpired: one(false, false, true),
});

export const world: Arbitrary<World> = fc
  .record({
    settings,
    labels: fc.array(labels, { minLength: NAMESPACES.length, maxLength: NAMESPACES.length }),
    granted: fc.subarray(['anyuid', 'privileged', 'nonroot-v2', 'hostnetwork-v2'], { maxLength: 2 }),
    drafts: fc.array(draft, { minLength: 40, maxLength: 40 }),
    isRaised: fc.boolean(),
    exceptions: fc.uniqueArray(exception, { minLength: 8, maxLength: 8, selector: ({ index }) => index }),
  })
  .map(({ settings, labels, granted, drafts, isRaised, exceptions }) => {
    const { podSecurity, rollout } = settings as Readonly<Record<'podSecurity' | 'rollout', JsonObject>>;
    const areExceptionsOn = (podSecurity['exceptions'] as JsonObject)['mode'] === 'approved';
    const given: World = {
      settings,
      objects: [
        ...NAMESPACES.flatMap((name, index) => namespaceObjects(name, labels[index] ?? {}, granted)),
        ...(areExceptionsOn ? exceptions.flatMap((one) => createException(one, drafts)) : []),
        ...(rollout['phase'] === 'Enforce' ? enforcementObjects(isRaised) : []),
      ],
      workloads: drafts.map(createWorkload),
    };
    return JSON.parse(JSON.stringify(given)) as World;
  });

/** Returns an approved exception for the violations of a workload, if exceptions can cover them. */
function createException({ index, hasExpired }: ExceptionDraft, drafts: readonly Draft[]): readonly KubeObject[] {
  const { namespace = '', template } = drafts[index] ?? {};
  const { pod } = decodePod(template ?? {});
  const { entries, uncovered } = pod
    ? suggestEntries(pod, { level: 'restricted', version: 'latest' })
    : { entries: [], uncovered: [''] };
  if (entries.length === 0 || uncovered.length > 0) return [];
  const time = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+/, '');
  const endMs = hasExpired ? Date.UTC(2026, 0) : Date.now() + 3_600_000;
  const serviceAccountName = pod?.serviceAccountName || 'default';
  const spec = { serviceAccountName, allow: entries, expiresAt: time(endMs), reason: 'SEC-1' };
  return [
    {
      apiVersion: 'policy.portcullis.dev/v1alpha1',
      kind: 'PodSecurityException',
      metadata: { name: `e-${index}`, namespace, annotations: { 'portcullis.dev/authors': '["alice"]' } },
      spec,
      status: { approval: { by: 'bob', at: time(endMs - 7_200_000), specHash: hashSpec(spec) } },
    } as KubeObject,
  ];
}

/** Generates the decision to enforce, and the default level that the leader has or has not raised yet. */
function enforcementObjects(isRaised: boolean): readonly KubeObject[] {
  return [
    {
      apiVersion: 'config.openshift.io/v1alpha1',
      kind: 'PSAEnforcementConfig',
      metadata: { name: 'cluster' },
      spec: {},
      status: { enforcementMode: 'Restricted' },
    } as KubeObject,
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name: 'portcullis-pod-security',
        namespace: 'portcullis',
        annotations: {
          'portcullis.dev/pod-security-default': isRaised ? 'restricted' : 'privileged',
          'portcullis.dev/pod-security-generation': '1',
        },
      },
    },
  ];
}

function namespaceObjects(name: string, given: object, granted: readonly string[]): readonly KubeObject[] {
  const accounts = ['default', 'builder'].map((account) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: account, namespace: name },
  }));
  const bindings = granted.map((scc) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: `builder-${scc}`, namespace: name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
    subjects: [{ kind: 'ServiceAccount', name: 'builder', namespace: name }],
  }));
  const metadata = { name, labels: { ...given }, annotations: RANGES };
  return [{ apiVersion: 'v1', kind: 'Namespace', metadata }, ...accounts, ...bindings];
}

const LABELS = { app: 'x' };
const CLAIM = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1' } } },
};

function createWorkload({ kind, namespace, template, pod, older, isFinished }: Draft, index: number): Workload {
  const name = `${kind.toLowerCase()}-${index}`;
  const metadata = { name, namespace, uid: `uid-${index}` };
  const type = { apiVersion: getApiVersion(kind), kind };
  if (kind === 'Pod') {
    const status = { phase: isFinished ? 'Succeeded' : 'Running' };
    const annotations = template.metadata?.annotations;
    return {
      kind,
      object: { ...type, metadata: { ...metadata, annotations }, spec: template.spec, status } as KubeObject,
    };
  }
  const finished = kind === 'Job' && isFinished;
  const base = {
    ...type,
    metadata,
    spec: {
      ...(getApiVersion(kind) === 'apps/v1' ? { selector: { matchLabels: LABELS } } : {}),
      ...(kind === 'StatefulSet' ? { volumeClaimTemplates: [CLAIM] } : {}),
      ...(kind === 'CronJob' ? { schedule: '@daily' } : {}),
    },
    ...(finished ? { status: { conditions: [{ type: 'Complete', status: 'True' }] } } : {}),
  };
  const path = podTemplatePath(RESOURCES[kind].group, kind) ?? [];
  const restart = getApiVersion(kind) === 'batch/v1' ? { restartPolicy: 'Never' } : {};
  const withTemplate = ({ metadata: own, spec }: PodLike): KubeObject =>
    withValueAt(base, path, { metadata: { ...own, labels: LABELS }, spec: { ...spec, ...restart } }) as KubeObject;
  const object = withTemplate(template);
  if (pod === 'none' || finished) return { kind, object };
  const before = { ...template, spec: { ...template.spec, ...older } } as PodLike;
  return { kind, object, pod: runningPod(kind, withTemplate(pod === 'older' ? before : template), pod === 'debugged') };
}

/** Returns a pod that the workload created before the policies of the namespace applied. */
function runningPod(kind: Kind, object: KubeObject, isDebugged: boolean): KubeObject {
  const { name = '', namespace, uid = '' } = object.metadata ?? {};
  const created = getControllerPod({ kind, object })?.pod;
  const owner = { apiVersion: getApiVersion(kind), kind, name, uid, controller: true };
  const metadata = {
    annotations: created?.metadata?.annotations,
    name: `${name}-x`,
    namespace,
    ownerReferences: [owner],
  };
  const debug = isDebugged ? { ephemeralContainers: [{ name: 'debugger', image: 'busybox' }] } : {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { ...created?.spec, ...debug },
    status: { phase: 'Running' },
  } as KubeObject;
}
