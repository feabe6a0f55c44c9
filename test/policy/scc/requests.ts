/** Builds requests for tests of SCC admission. They replace parts of a request in a newly installed cluster. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject, UserInfo } from '../../../src/kube/types.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import type { SccDecision, SccInput } from '../../../src/policy/scc/index.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { accessBy, type Grant, laxScc, namespaceWith } from '../../support/scc.ts';
import type { ListedInput } from './arbitrary.ts';

export const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

/** The grants of the standard ClusterRoleBindings. */
export const STANDARD_GRANTS: Grant = { group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] };

export const REPLICA_SETS: UserInfo = {
  username: 'system:serviceaccount:kube-system:replicaset-controller',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
};

export const ALICE: UserInfo = { username: 'alice', groups: ['system:authenticated'] };

export const ADMIN: UserInfo = { username: 'admin', groups: ['system:cluster-admins', 'system:authenticated'] };

const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
};

export const DEMO_NAMESPACE = namespaceWith(RANGES);

/**
 * Returns the request of the ReplicaSet controller to create a pod in a newly installed cluster, with the given
 * changes.
 */
export function request(given: Partial<ListedInput> & { readonly grants?: readonly Grant[] }): ListedInput {
  const { grants = [], ...rest } = given;
  return {
    operation: 'CREATE',
    object: podWith({}),
    namespace: DEMO_NAMESPACE,
    userInfo: REPLICA_SETS,
    sccs: STANDARD,
    access: accessBy([STANDARD_GRANTS, ...grants]),
    ...rest,
  };
}

/** Returns a pod with one container and the given spec fields. */
export function podWith(spec: JsonObject, metadata: JsonObject = {}): JsonObject {
  return {
    metadata: { name: 'web', namespace: 'demo', ...metadata },
    spec: { serviceAccountName: 'default', containers: [{ name: 'app', image: 'app:1' }], ...spec },
  };
}

/** Reads the rows of a file in test/fixtures/scc-cases. */
export function readCases<Cases>(file: string): Cases {
  return parse(readFileSync(join(import.meta.dirname, '../../fixtures/scc-cases', file), 'utf8')) as Cases;
}

interface PodFixture {
  /**
   * True to start from the pod that restricted-v2 has admitted. The members of `spec` and the annotations are then
   * added.
   */
  readonly admitted?: boolean;
  readonly spec?: JsonObject;
  readonly metadata?: JsonObject & { readonly annotations?: JsonObject };
}

/** A request in a fixture. Absent members default to those of `request`. */
export interface RequestFixture extends Partial<Omit<SccInput, 'userInfo' | 'sccs' | 'access'>> {
  /** Replaces parts of the pod from `podWith`. `object` replaces the whole pod. */
  readonly pod?: PodFixture;
  readonly oldPod?: PodFixture;
  readonly user?: 'alice' | 'admin' | UserInfo;
  /** Names of standard SCCs, `standard` for all of them, or fields of SCCs that otherwise allow everything. */
  readonly sccs?: readonly (string | JsonObject)[];
  /** The SCCs that all subjects may use. Replaces `grants`. */
  readonly usable?: 'all' | readonly string[];
  readonly grants?: readonly Grant[];
  /** Replaces annotations of the namespace. */
  readonly ranges?: Readonly<Record<string, string>>;
}

export function createRequest({ pod, oldPod, user, sccs, usable, ranges, ...rest }: RequestFixture): SccInput {
  const userInfo = user === 'alice' ? ALICE : user === 'admin' ? ADMIN : user;
  return request({
    ...rest,
    ...(pod && { object: createPod(pod) }),
    ...(oldPod && { oldObject: createPod(oldPod) }),
    ...(userInfo && { userInfo }),
    ...(sccs && { sccs: sccs.flatMap(findSccs) }),
    ...(usable && { access: { canUse: (_subject, scc) => usable === 'all' || usable.includes(scc) } }),
    ...(ranges && { namespace: namespaceWith({ ...RANGES, ...ranges }) }),
  });
}

function createPod({ admitted, spec = {}, metadata = {} }: PodFixture): JsonObject {
  if (admitted !== true) return podWith(spec, metadata);
  const decision = assignScc(request({}));
  const pod = (decision.allowed ? decision.object : {}) as Required<PodFixture>;
  const annotations = { ...pod.metadata.annotations, ...metadata.annotations };
  return { metadata: { ...pod.metadata, ...metadata, annotations }, spec: { ...pod.spec, ...spec } };
}

function findSccs(scc: string | JsonObject): readonly SecurityContextConstraints[] {
  if (typeof scc !== 'string') return [laxScc(scc)];
  return scc === 'standard' ? STANDARD : STANDARD.filter(({ metadata }) => metadata?.name === scc);
}

export function denialMessage(decision: SccDecision): string | undefined {
  return decision.allowed ? undefined : decision.status.message;
}

export function decisionAnnotations(decision: SccDecision): JsonObject | undefined {
  if (!decision.allowed) return undefined;
  const { metadata } = decision.object as { readonly metadata: { readonly annotations?: JsonObject } };
  return metadata.annotations;
}
