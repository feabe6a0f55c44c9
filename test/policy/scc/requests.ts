import type { JsonObject, UserInfo } from '../../../src/kube/types.ts';
import type { SccDecision, SccInput } from '../../../src/policy/scc/index.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { canUseBy, namespaceWith, type Grant } from '../../support/scc.ts';

export const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

/** What the platform grants to everybody. */
export const EVERYBODY: Grant = { group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] };

export const REPLICA_SETS: UserInfo = {
  username: 'system:serviceaccount:kube-system:replicaset-controller',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
};

export const ALICE: UserInfo = { username: 'alice', groups: ['system:authenticated'] };

export const ADMIN: UserInfo = { username: 'admin', groups: ['system:cluster-admins', 'system:authenticated'] };

export const DEMO = namespaceWith({
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
});

/** A pod created by the controller of ReplicaSets in a cluster as installed, except for what is given. */
export function request(given: Partial<SccInput> & { readonly grants?: readonly Grant[] }): SccInput {
  const { grants = [], ...rest } = given;
  return {
    operation: 'CREATE',
    object: podWith({}),
    namespace: DEMO,
    userInfo: REPLICA_SETS,
    sccs: STANDARD,
    canUse: canUseBy([EVERYBODY, ...grants]),
    ...rest,
  };
}

/** A pod with one container, the fields given in its spec. */
export function podWith(spec: JsonObject, metadata: JsonObject = {}): JsonObject {
  return {
    metadata: { name: 'web', namespace: 'demo', ...metadata },
    spec: { serviceAccountName: 'default', containers: [{ name: 'app', image: 'app:1' }], ...spec },
  };
}

export function messageOf(decision: SccDecision): string | undefined {
  return decision.allowed ? undefined : decision.status.message;
}

/** The annotations that a decision leaves on the pod. */
export function annotationsOf(decision: SccDecision): JsonObject | undefined {
  if (!decision.allowed) return undefined;
  const { metadata } = decision.object as { readonly metadata: { readonly annotations?: JsonObject } };
  return metadata.annotations;
}
