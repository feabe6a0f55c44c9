/** Generates AdmissionRequests of all types that the webhook configurations select, and some others. */
import fc, { type Arbitrary } from 'fast-check';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { scc } from '../policy/scc/arbitrary.ts';
import { mutate, mutations } from './mutations.ts';
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

/** Returns the request, and the same request from another user in each of the other namespaces. */
export function inOtherNamespaces(request: JsonObject): readonly JsonObject[] {
  const others = NAMESPACES.filter((name) => name !== request['namespace']);
  return [
    request,
    ...others.map((name, index) => ({ ...request, namespace: name, userInfo: USERS[index % USERS.length] })),
  ];
}

const subResource = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 3, arbitrary: one('ephemeralcontainers', 'resize') },
  { weight: 1, arbitrary: one('status', 'binding', 'eviction', 'exec', 'future') },
);

/** Generates pod updates. In some of them, the pod already has the changes of the first pass. */
export function updates(
  pods: Arbitrary<JsonObject>,
  complete: (request: JsonObject) => JsonObject | undefined,
): Arbitrary<JsonObject> {
  return fc
    .record({ create: creates(pods), user, subResource, changes: mutations, isCompleted: fc.boolean() })
    .map((given) => {
      const created = given.create['object'] as JsonObject;
      const old = (given.isCompleted ? complete(given.create) : undefined) ?? created;
      return {
        ...given.create,
        operation: 'UPDATE',
        userInfo: given.user,
        oldObject: old,
        object: mutate(old, given.changes),
        ...(given.subResource === '' ? {} : { subResource: given.subResource, requestSubResource: given.subResource }),
      };
    });
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

/** Generates creations and updates of SCCs. */
export const sccObjects: Arbitrary<JsonObject> = fc
  .record({
    scc: scc.map((object) => JSON.parse(JSON.stringify(object)) as JsonObject),
    changes: mutations,
    operation: one('CREATE', 'UPDATE', 'CREATE', 'UPDATE', 'DELETE'),
    user,
  })
  .map(({ scc: given, changes, operation, user: userInfo }) => {
    const object = mutate(
      { apiVersion: 'security.openshift.io/v1', kind: 'SecurityContextConstraints', ...given },
      changes,
    );
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
