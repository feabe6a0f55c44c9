import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KubeObject } from '../../../src/kube/types.ts';
import { findAffectedNamespaces, type ObjectChange } from '../../../src/policy/rollout/affected-namespaces.ts';
import { laxScc } from '../../support/scc.ts';

const RULES = [
  {
    apiGroups: ['security.openshift.io'],
    resources: ['securitycontextconstraints'],
    verbs: ['use'],
    resourceNames: ['anyuid'],
  },
];
const ROLES: Readonly<Record<string, KubeObject>> = {
  '/use-anyuid': object({ metadata: { name: 'use-anyuid' }, rules: RULES }),
  'a/use-anyuid': object({ metadata: { name: 'use-anyuid', namespace: 'a' }, rules: RULES }),
  '/view': object({ metadata: { name: 'view' }, rules: [] }),
};
const CONTEXT = {
  sccNames: ['anyuid', 'restricted'],
  findRole: (namespace: string, name: string) => ROLES[`${namespace}/${name}`],
};

function object(fields: KubeObject & { readonly rules?: unknown }): KubeObject {
  return fields;
}

const account = (namespace?: string) => ({
  kind: 'ServiceAccount',
  name: 'x',
  ...(namespace === undefined ? {} : { namespace }),
});
const group = (name: string) => ({ kind: 'Group', name });
const user = (name: string) => ({ kind: 'User', name });

function clusterBinding(subjects: readonly unknown[], name = 'use-anyuid'): KubeObject {
  const fields = { metadata: { name: 'b' }, roleRef: { kind: 'ClusterRole', name }, subjects };
  return fields;
}

function binding(subjects: readonly unknown[], kind = 'Role'): KubeObject {
  const fields = { metadata: { name: 'b', namespace: 'a' }, roleRef: { kind, name: 'use-anyuid' }, subjects };
  return fields;
}

suite('the namespaces that a change affects', () => {
  const scc = laxScc({});
  const cases: readonly (readonly [name: string, change: ObjectChange, expected: 'all' | readonly string[]])[] = [
    ['all: a new SCC', { kind: 'SecurityContextConstraints', after: scc }, 'all'],
    ['all: a deleted SCC', { kind: 'SecurityContextConstraints', before: scc }, 'all'],
    [
      'all: an SCC that allows more',
      { kind: 'SecurityContextConstraints', before: scc, after: laxScc({ allowHostPID: true }) },
      'all',
    ],
    [
      'all: an SCC with another user',
      { kind: 'SecurityContextConstraints', before: scc, after: laxScc({ users: ['alice'] }) },
      'all',
    ],
    [
      'none: an SCC with another annotation',
      {
        kind: 'SecurityContextConstraints',
        before: scc,
        after: { ...scc, metadata: { name: 'lax', annotations: { a: 'b' } } },
      },
      [],
    ],
    ['its own: a namespace', { kind: 'Namespace', after: { metadata: { name: 'a' } } }, ['a']],
    ['its own: a deleted service account', { kind: 'ServiceAccount', before: { metadata: { namespace: 'a' } } }, ['a']],
    ['none: a role that permits no SCC', { kind: 'ClusterRole', after: ROLES['/view'] }, []],
    ['all: a new ClusterRole', { kind: 'ClusterRole', after: ROLES['/use-anyuid'] }, 'all'],
    ['its own: a deleted Role', { kind: 'Role', before: ROLES['a/use-anyuid'] }, ['a']],
    [
      'none: a binding to a missing role',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a')], 'gone') },
      [],
    ],
    [
      'none: a binding to a role that permits no SCC',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a')], 'view') },
      [],
    ],
    [
      'the namespaces of the accounts',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a'), account('b')]) },
      ['a', 'b'],
    ],
    [
      'the old and new namespaces of the accounts',
      { kind: 'ClusterRoleBinding', before: clusterBinding([account('a')]), after: clusterBinding([account('b')]) },
      ['a', 'b'],
    ],
    ['none: an account without a namespace', { kind: 'ClusterRoleBinding', after: clusterBinding([account()]) }, []],
    [
      'the namespace of an account that is named as a user',
      { kind: 'ClusterRoleBinding', after: clusterBinding([user('system:serviceaccount:a:x')]) },
      ['a'],
    ],
    [
      'none: other users and groups',
      { kind: 'ClusterRoleBinding', after: clusterBinding([user('alice'), group('dev')]) },
      [],
    ],
    [
      'all: the group of all authenticated users',
      { kind: 'ClusterRoleBinding', after: clusterBinding([group('system:authenticated')]) },
      'all',
    ],
    [
      'the group of the accounts of a namespace',
      { kind: 'ClusterRoleBinding', after: clusterBinding([group('system:serviceaccounts:a')]) },
      ['a'],
    ],
    ['its own: a RoleBinding', { kind: 'RoleBinding', after: binding([account()]) }, ['a']],
    [
      'its own: a RoleBinding of a ClusterRole',
      { kind: 'RoleBinding', after: binding([account()], 'ClusterRole') },
      ['a'],
    ],
    [
      'its own: a RoleBinding of all accounts',
      { kind: 'RoleBinding', after: binding([group('system:serviceaccounts')]) },
      ['a'],
    ],
    [
      'none: a RoleBinding of an account of another namespace',
      { kind: 'RoleBinding', after: binding([account('b')]) },
      [],
    ],
    ['none: a RoleBinding without subjects', { kind: 'RoleBinding', after: { metadata: { namespace: 'a' } } }, []],
  ];
  for (const [name, change, expected] of cases) {
    test(name, () => {
      const reach = findAffectedNamespaces(change, CONTEXT);
      assert.deepEqual(reach === 'all' ? reach : [...reach].sort(), expected);
    });
  }
});
