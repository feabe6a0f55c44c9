/**
 * Generates the state of a cluster, which consists of namespaces with labels and ranges, SCCs, grants, stored pods and
 * exceptions.
 */
import fc, { type Arbitrary } from 'fast-check';
import { AUTHORS_ANNOTATION } from '../../src/api/names.ts';
import type { ExceptionEntry, PodSecurityException } from '../../src/kube/pod-security-exception.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { CHECKS_WITHOUT_VALUES } from '../../src/policy/pss/index.ts';
import { scc } from '../policy/scc/arbitrary.ts';

/** Grants the use of SCCs to a user or group. Without a namespace, the grant applies to all namespaces. */
export interface Grant {
  readonly user?: string;
  readonly group?: string;
  readonly namespace?: string;
  readonly sccs: readonly string[];
}

export interface World {
  readonly namespaces: readonly JsonObject[];
  readonly sccs: readonly JsonObject[];
  readonly grants: readonly Grant[];
  readonly pods: readonly JsonObject[];
  readonly exceptions: readonly PodSecurityException[];
  readonly approved: readonly PodSecurityException[];
}

const one = fc.constantFrom;
const LEVELS = ['privileged', 'baseline', 'restricted', 'restricted'];
const VERSIONS = ['latest', 'v1.0', 'v1.7', 'v1.18', 'v1.22', 'v1.24', 'v1.28', 'v1.30', 'v1.34', 'v1.35', 'v1.99'];
const rarely = <T>(value: T): Arbitrary<T | undefined> =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constant(value) });

/** Namespace labels with Pod Security levels and SCC modes. */
export const labels: Arbitrary<JsonObject> = fc
  .record(
    {
      'pod-security.kubernetes.io/enforce': fc.oneof({ weight: 9, arbitrary: one(...LEVELS) }, one('bogus', '')),
      'pod-security.kubernetes.io/enforce-version': fc.oneof(
        { weight: 9, arbitrary: one(...VERSIONS) },
        one('1.25', 'v1.05'),
      ),
      'pod-security.kubernetes.io/audit': one(...LEVELS, 'Baseline'),
      'pod-security.kubernetes.io/audit-version': one(...VERSIONS),
      'pod-security.kubernetes.io/warn': one(...LEVELS, ''),
      'pod-security.kubernetes.io/warn-version': one(...VERSIONS),
      'portcullis.dev/scc': one('enforce', 'enforce', 'enforce', 'report', 'off', 'on'),
      'openshift.io/run-level': rarely('1'),
      'security.openshift.io/disable-securitycontextconstraints': rarely('true'),
      constructor: rarely('x'),
    },
    { requiredKeys: [], noNullPrototype: true },
  )
  .map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)));

/** Each namespace has both ranges or none of them, because pods in a namespace with only one range would wait. */
const ranges: Arbitrary<JsonObject> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  {
    weight: 3,
    arbitrary: fc.record({
      'openshift.io/sa.scc.uid-range': one('1000650000/10000', '1000650000-1000659999', '1000/4000', '0/10'),
      'openshift.io/sa.scc.mcs': one('s0:c26,c5', 's0:c5,c26', 's0'),
      'openshift.io/sa.scc.supplemental-groups': one('1000650000/10000', '1/5,1000-2000'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      {
        'openshift.io/sa.scc.uid-range': one('', 'x', '5/0', ' 7/8 tail', '4294967295/2', '-1/5'),
        'openshift.io/sa.scc.mcs': one('', 's0:c26,c5', 'a:b:c'),
        'openshift.io/sa.scc.supplemental-groups': one('', ',', '1/5,x'),
      },
      { requiredKeys: ['openshift.io/sa.scc.uid-range', 'openshift.io/sa.scc.mcs'] },
    ),
  },
);

const STANDARD = ['anyuid', 'restricted', 'nonroot', 'nonroot-v2', 'hostmount-anyuid', 'hostnetwork-v2', 'privileged'];

export const NAMESPACES: readonly string[] = Array.from({ length: 24 }, (_, index) => `team-${index}`);

const grant: Arbitrary<Grant> = fc
  .record({
    to: one(
      { user: 'alice' },
      { user: 'system:serviceaccount:team-0:default' },
      { user: 'system:serviceaccount:team-1:builder' },
      { group: 'dev' },
      { group: 'system:serviceaccounts:team-2' },
      { group: 'system:serviceaccounts' },
    ),
    namespace: fc.oneof(one(undefined), one(...NAMESPACES)),
    sccs: fc.oneof(fc.subarray(STANDARD, { minLength: 1, maxLength: 3 }), one(['custom-a'], ['custom-b', 'custom-c'])),
  })
  .map(({ to, namespace, sccs }) => ({ ...to, sccs, ...(namespace === undefined ? {} : { namespace }) }));

/** Namespaces with exceptions. Decisions in the other namespaces do not depend on exceptions. */
const EXCEPTED = NAMESPACES.slice(0, 8);

/** Exception entries for all pods, and for the container and image of generated pods. */
const entries: Arbitrary<readonly ExceptionEntry[]> = fc
  .subarray([...CHECKS_WITHOUT_VALUES], { minLength: 1 })
  .map((covered) => covered.flatMap((check) => [{ check }, { check, container: 'a', image: 'registry.example/app' }]));

const exceptions: Arbitrary<readonly PodSecurityException[]> = fc
  .array(
    fc.record({
      namespace: one(...EXCEPTED),
      serviceAccountName: one('default', 'default', 'builder'),
      allow: entries,
    }),
    { minLength: 16, maxLength: 24 },
  )
  .map((list) =>
    list.map(({ namespace, ...spec }, index) => ({
      apiVersion: 'policy.portcullis.dev/v1alpha1',
      kind: 'PodSecurityException',
      metadata: { name: `exception-${index}`, namespace, annotations: { [AUTHORS_ANNOTATION]: '["alice"]' } },
      spec: { ...spec, expiresAt: new Date(Date.now() + MONTH_MS).toISOString(), reason: 'SEC-123' },
    })),
  );

const MONTH_MS = 30 * 24 * 3_600_000;

/** A pod that was stored without admission webhooks. */
const storedPod: Arbitrary<JsonObject> = fc
  .record({
    serviceAccountName: one('default', 'builder'),
    host: one({}, {}, { hostNetwork: true }, { hostPID: true }, { hostUsers: false }, { os: { name: 'windows' } }),
    podContext: one({}, { runAsUser: 0 }, { fsGroup: 1_000_650_000 }, { seccompProfile: { type: 'RuntimeDefault' } }),
    context: one<JsonObject>(
      {},
      {},
      { privileged: true },
      { runAsUser: 1000 },
      { capabilities: { add: ['NET_ADMIN'] } },
      { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, runAsNonRoot: true },
    ),
  })
  .map(({ serviceAccountName, host, podContext, context }) => {
    const isWindows = 'os' in host;
    const container = { name: 'c', image: 'i', ...(isWindows ? {} : { securityContext: context }) };
    return {
      serviceAccountName,
      ...host,
      ...(isWindows ? {} : { securityContext: podContext }),
      containers: [container],
    };
  });

/** An invalid SCC, which decisions must skip. */
const BROKEN = {
  apiVersion: 'security.openshift.io/v1',
  kind: 'SecurityContextConstraints',
  metadata: { name: 'broken' },
  priority: 30,
  runAsUser: { type: 'MustRunAs' },
  seLinuxContext: { type: 'RunAsAny' },
  groups: ['system:authenticated'],
};

export const world: Arbitrary<World> = fc
  .record({
    labels: fc.array(labels, { minLength: NAMESPACES.length, maxLength: NAMESPACES.length }),
    ranges: fc.array(ranges, { minLength: NAMESPACES.length, maxLength: NAMESPACES.length }),
    sccs: fc.uniqueArray(scc, { minLength: 4, maxLength: 7, selector: ({ metadata }) => metadata?.name }),
    grants: fc.array(grant, { minLength: 4, maxLength: 8 }),
    pods: fc.array(storedPod, { minLength: NAMESPACES.length, maxLength: NAMESPACES.length }),
    exceptions,
  })
  .map((parts) => JSON.parse(JSON.stringify(parts)) as typeof parts)
  .map((parts) => ({
    namespaces: NAMESPACES.map((name, index) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: parts.labels[index], annotations: parts.ranges[index] },
    })),
    sccs: [
      BROKEN,
      ...parts.sccs.map((scc) => ({
        ...scc,
        apiVersion: 'security.openshift.io/v1',
        kind: 'SecurityContextConstraints',
      })),
    ],
    grants: parts.grants,
    pods: parts.pods.map((spec, index) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'stored', namespace: NAMESPACES[index] },
      spec,
    })),
    exceptions: parts.exceptions,
    approved: parts.exceptions.filter((_, index) => index % 4 !== 0),
  }));

export function formatManifests({ namespaces, sccs, grants, pods, exceptions }: World): string {
  const rbac = grants.flatMap((granted, index) => createBinding(granted, `grant-${index}`));
  const accounts = NAMESPACES.map((namespace) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'builder', namespace },
  }));
  return [...namespaces, ...accounts, ...sccs, ...rbac, ...pods, ...exceptions]
    .map((object) => JSON.stringify(object))
    .join('\n---\n');
}

function createBinding({ user, group, namespace, sccs }: Grant, name: string): readonly JsonObject[] {
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const apiGroup = 'rbac.authorization.k8s.io';
  const rule = {
    apiGroups: ['security.openshift.io'],
    resources: ['securitycontextconstraints'],
    resourceNames: sccs,
    verbs: ['use'],
  };
  const subject = user === undefined ? { kind: 'Group', name: group } : { kind: 'User', name: user };
  return [
    { apiVersion, kind: 'ClusterRole', metadata: { name }, rules: [rule] },
    {
      apiVersion,
      kind: namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding',
      metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
      roleRef: { apiGroup, kind: 'ClusterRole', name },
      subjects: [{ apiGroup, ...subject }],
    },
  ];
}
