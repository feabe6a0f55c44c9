/** Generates AdmissionRequests of all types that the webhook configurations select, and some others. */
import fc, { type Arbitrary } from 'fast-check';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { scc } from '../policy/scc/arbitrary.ts';
import { mutate, type Mutation, mutation, mutations } from './mutations.ts';
import { annotations } from './pods.ts';
import { labels, NAMESPACES } from './world.ts';

const one = fc.constantFrom;

const USERS: readonly JsonObject[] = [
  { username: 'alice', groups: ['dev', 'system:authenticated'] },
  { username: 'bob', groups: ['system:authenticated'], extra: { 'example.org/a': ['b'] } },
  {
    username: 'system:serviceaccount:kube-system:replicaset-controller',
    uid: 'u',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
  },
  { username: 'admin', groups: ['system:masters', 'system:authenticated'] },
  { username: 'system:node:n', groups: ['system:nodes', 'system:authenticated'] },
  { username: 'nobody' },
  {},
];

const user = fc.oneof({ weight: 8, arbitrary: one(...USERS.slice(0, 3)) }, { weight: 3, arbitrary: one(...USERS) });
const namespace = fc.oneof({ weight: 30, arbitrary: one(...NAMESPACES) }, { weight: 1, arbitrary: one('kube-system') });

interface Envelope {
  readonly group?: string;
  readonly version?: string;
  readonly kind: string;
  readonly resource: string;
}

const POD: Envelope = { kind: 'Pod', resource: 'pods' };

function buildRequest({ group = '', version = 'v1', kind, resource }: Envelope, given: JsonObject): JsonObject {
  return {
    uid: 'f1d3',
    kind: { group, version, kind },
    resource: { group, version, resource },
    requestKind: { group, version, kind },
    requestResource: { group, version, resource },
    operation: 'CREATE',
    object: null,
    oldObject: null,
    dryRun: false,
    options: null,
    ...given,
  };
}

function inNamespace(object: JsonObject, name: string): JsonObject {
  const metadata = isObject(object['metadata']) ? object['metadata'] : undefined;
  return metadata ? { ...object, metadata: { ...metadata, namespace: name } } : object;
}

export function creates(pods: Arbitrary<JsonObject>): Arbitrary<JsonObject> {
  return fc.record({ pod: pods, namespace, user, name: one('p', '') }).map((given) =>
    buildRequest(POD, {
      name: given.name,
      namespace: given.namespace,
      userInfo: given.user,
      object: inNamespace(given.pod, given.namespace),
    }),
  );
}

/** Returns the request, and the same request in each other namespace from another user. */
export function inOtherNamespaces(request: JsonObject): readonly JsonObject[] {
  const others = NAMESPACES.filter((name) => name !== request['namespace']);
  return [
    request,
    ...others.map((name, index) => ({ ...request, namespace: name, userInfo: USERS[index % USERS.length] })),
  ];
}

/** The changes of an update. `anything` includes changes that an API server would reject. */
interface Change {
  readonly subResource: string;
  readonly image?: string | undefined;
  readonly debug?: JsonObject | undefined;
  readonly annotations?: JsonObject | undefined;
  readonly labels?: JsonObject | undefined;
  readonly finalizers?: readonly string[] | undefined;
  readonly gates?: readonly JsonObject[] | undefined;
  readonly anything?: readonly Mutation[] | undefined;
}

const subResource = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 3, arbitrary: one('ephemeralcontainers', 'resize') },
  { weight: 1, arbitrary: one('status', 'binding', 'eviction', 'exec', 'future') },
);

const parts: Readonly<Record<string, Arbitrary<unknown>>> = {
  image: one('other:2'),
  debug: one(
    { name: 'debug', image: 'i' },
    { name: 'a', image: 'i' },
    { name: 'debug', image: 'i', securityContext: { runAsUser: 0 } },
    { name: 'debug', image: 'i', securityContext: { privileged: true } },
  ),
  annotations,
  labels: one({ app: 'b' }),
  finalizers: one(['f']),
  gates: one([], [{ name: 'g' }]),
  anything: fc.array(mutation, { minLength: 1, maxLength: 2 }),
};

/** Generates one or two changes. More changes would mask each other. */
const change: Arbitrary<Change> = fc
  .tuple(subResource, fc.subarray(Object.keys(parts), { maxLength: 2 }), fc.record(parts))
  .map(([subResourceName, chosen, values]) => ({
    subResource: subResourceName,
    ...Object.fromEntries(Object.entries(values).filter(([name]) => chosen.includes(name))),
  }));

/** Generates pod updates. In some of them, the pod already has the changes of the first pass. */
export function updates(
  pods: Arbitrary<JsonObject>,
  complete: (request: JsonObject) => JsonObject | undefined,
): Arbitrary<JsonObject> {
  return fc.record({ create: creates(pods), user, change, isCompleted: fc.boolean() }).map((given) => {
    const created = given.create['object'] as JsonObject;
    const old = (given.isCompleted ? complete(given.create) : undefined) ?? created;
    const { subResource } = given.change;
    return {
      ...given.create,
      operation: 'UPDATE',
      userInfo: given.user,
      oldObject: old,
      object: applyChange(old, given.change),
      ...(subResource === '' ? {} : { subResource, requestSubResource: subResource }),
    };
  });
}

function applyChange(
  pod: JsonObject,
  { image, debug, labels: labelled, finalizers, gates, ...more }: Change,
): JsonObject {
  const { metadata, spec } = pod;
  if (!isObject(metadata) || !isObject(spec)) return mutate(pod, more.anything ?? []);
  const { containers, ephemeralContainers } = spec;
  const notes = isObject(metadata['annotations']) ? metadata['annotations'] : {};
  const merged = Object.fromEntries([...Object.entries(notes), ...Object.entries(more.annotations ?? {})]);
  const next = {
    ...pod,
    metadata: {
      ...metadata,
      ...(more.annotations === undefined ? {} : { annotations: merged }),
      ...(labelled === undefined ? {} : { labels: labelled }),
      ...(finalizers === undefined ? {} : { finalizers }),
    },
    spec: {
      ...spec,
      ...(image !== undefined && Array.isArray(containers)
        ? { containers: containers.map((one: unknown) => (isObject(one) ? { ...one, image } : one)) }
        : {}),
      ...(debug === undefined
        ? {}
        : {
            ephemeralContainers: [
              ...(Array.isArray(ephemeralContainers) ? (ephemeralContainers as unknown[]) : []),
              debug,
            ],
          }),
      ...(gates === undefined ? {} : { schedulingGates: gates }),
    },
  };
  return mutate(next, more.anything ?? []);
}

const WORKLOADS: readonly (Envelope & { readonly wrap: (template: JsonObject) => JsonObject })[] = [
  { version: 'v1', kind: 'PodTemplate', resource: 'podtemplates', wrap: (template) => ({ template }) },
  { kind: 'ReplicationController', resource: 'replicationcontrollers', wrap: (template) => ({ spec: { template } }) },
  ...['ReplicaSet', 'Deployment', 'StatefulSet', 'DaemonSet'].map((kind) => ({
    group: 'apps',
    kind,
    resource: `${kind.toLowerCase()}s`,
    wrap: (template: JsonObject) => ({ spec: { replicas: 1, template } }),
  })),
  { group: 'batch', kind: 'Job', resource: 'jobs', wrap: (template) => ({ spec: { template } }) },
  {
    group: 'batch',
    kind: 'CronJob',
    resource: 'cronjobs',
    wrap: (template) => ({ spec: { schedule: '* * * * *', jobTemplate: { spec: { template } } } }),
  },
  { kind: 'Service', resource: 'services', wrap: (template) => ({ spec: { template } }) },
  { group: 'policy', kind: 'Eviction', resource: 'evictions', wrap: () => ({}) },
];

/** Generates creations and updates of workloads. */
export function workloads(pods: Arbitrary<JsonObject>): Arbitrary<JsonObject> {
  return fc
    .record({
      workload: one(...WORKLOADS),
      pod: pods,
      namespace,
      user,
      operation: one('CREATE', 'UPDATE'),
      subResource: fc.oneof({ weight: 6, arbitrary: fc.constant('') }, one('scale', 'status')),
      changes: mutations,
    })
    .map(({ workload: { wrap, ...envelope }, pod, subResource, ...given }) => {
      const { group = '', version = 'v1', kind } = envelope;
      const { metadata, spec } = pod;
      const complete = {
        apiVersion: group === '' ? version : `${group}/${version}`,
        kind,
        metadata: { name: 'w', namespace: given.namespace },
        ...wrap({ metadata, spec }),
      };
      return buildRequest(envelope, {
        name: 'w',
        namespace: given.namespace,
        userInfo: given.user,
        operation: given.operation,
        object: mutate(complete, given.changes),
        oldObject: given.operation === 'UPDATE' ? complete : null,
        ...(subResource === '' ? {} : { subResource, requestSubResource: subResource }),
      });
    });
}

/** Generates creations, label changes and deletions of namespaces. */
export const namespaces: Arbitrary<JsonObject> = fc
  .record({
    labels,
    oldLabels: labels,
    name: one(...NAMESPACES, 'new', 'kube-system'),
    operation: one('CREATE', 'UPDATE', 'UPDATE', 'DELETE'),
    user,
    subResource: fc.oneof({ weight: 9, arbitrary: fc.constant('') }, one('status', 'finalize')),
    changes: mutations,
  })
  .map(({ name, operation, subResource, ...given }) => {
    const object = (own: JsonObject): JsonObject => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: own },
      spec: {},
    });
    return buildRequest(
      { kind: 'Namespace', resource: 'namespaces' },
      {
        name,
        namespace: name,
        operation,
        userInfo: given.user,
        object: operation === 'DELETE' ? null : mutate(object(given.labels), given.changes),
        oldObject: operation === 'CREATE' ? null : object(given.oldLabels),
        ...(subResource === '' ? {} : { subResource, requestSubResource: subResource }),
      },
    );
  });

/** Generates exec and attach requests for stored pods. */
export const execs: Arbitrary<JsonObject> = fc
  .record({
    namespace,
    user,
    name: fc.oneof({ weight: 9, arbitrary: fc.constant('stored') }, fc.constant('gone')),
    subResource: one('exec', 'attach', 'exec', 'attach', 'portforward'),
    operation: fc.oneof({ weight: 9, arbitrary: fc.constant('CONNECT') }, one('CREATE')),
  })
  .map(({ user: userInfo, subResource, ...given }) => ({
    ...buildRequest(POD, {
      ...given,
      userInfo,
      subResource,
      requestSubResource: subResource,
      object: { kind: 'PodExecOptions', apiVersion: 'v1', container: 'c', command: ['sh'] },
    }),
    kind: { group: '', version: 'v1', kind: 'PodExecOptions' },
  }));

const oddFields: Arbitrary<JsonObject> = fc.record(
  {
    priority: one(-1, 2 ** 31, null),
    allowedUnsafeSysctls: one(['net.*'], ['*', 'a'], ['*'], ['net/ipv4'], ['a.b', ''], ['A']),
    forbiddenSysctls: one(['net.ipv4.*'], ['net.core'], ['*'], ['.a']),
    volumes: one(['none', 'secret'], [], ['none'], ['*', 'hostPath'], null),
    requiredDropCapabilities: one(['KILL', 'ALL'], null),
    allowedCapabilities: one(['*'], ['KILL']),
    defaultAddCapabilities: one(['KILL']),
    allowedFlexVolumes: one([{ driver: '' }], [{}], [{ driver: 'a' }]),
    fsGroup: one({}, null, { type: 'MustRunAs', ranges: [{ min: 5, max: 1 }] }, { type: 'X' }),
    supplementalGroups: one({ ranges: [{ min: -1 }] }, { type: '' }),
    runAsUser: one({ type: 'MustRunAs', uid: -1 }, {}, null, { type: 'RunAsAny' }),
    seLinuxContext: one({ type: 'MustRunAsRange' }, null, { type: 'RunAsAny' }),
    metadata: one({ name: 'Bad_Name' }, {}, { name: 'a.b' }),
    users: one(null, ['']),
    allowHostDirVolumePlugin: fc.boolean(),
    userNamespaceLevel: one('AllowHostLevel', 'RequirePodLevel'),
  },
  { requiredKeys: [] },
);

/** Generates creations and updates of complete and partial SCCs. */
export const sccObjects: Arbitrary<JsonObject> = fc
  .record({
    scc: scc.map((object) => JSON.parse(JSON.stringify(object)) as JsonObject),
    removed: fc.array(fc.nat({ max: 40 }), { maxLength: 6 }),
    odd: fc.oneof({ weight: 1, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: oddFields }),
    changes: mutations,
    operation: one('CREATE', 'UPDATE', 'CREATE', 'UPDATE', 'DELETE'),
    user,
  })
  .map(({ scc: given, removed, odd, changes, operation, user: userInfo }) => {
    const keys = Object.keys(given).filter((key) => key !== 'metadata');
    const removedKeys = removed.map((index) => keys[index % Math.max(1, keys.length)]);
    const kept = Object.fromEntries(Object.entries(given).filter(([key]) => !removedKeys.includes(key)));
    const apiVersion = 'security.openshift.io/v1';
    const object = mutate({ apiVersion, kind: 'SecurityContextConstraints', ...kept, ...odd }, changes);
    return buildRequest(
      { group: 'security.openshift.io', kind: 'SecurityContextConstraints', resource: 'securitycontextconstraints' },
      {
        name: 'custom-a',
        operation,
        userInfo,
        object: operation === 'DELETE' ? null : object,
        oldObject: operation === 'CREATE' ? null : given,
      },
    );
  });
