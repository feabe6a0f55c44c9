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
const USEFUL: Readonly<Record<string, KubeObject>> = {
  '/use-anyuid': object({ metadata: { name: 'use-anyuid' }, rules: RULES }),
  'a/use-anyuid': object({ metadata: { name: 'use-anyuid', namespace: 'a' }, rules: RULES }),
  '/view': object({ metadata: { name: 'view' }, rules: [] }),
};
const CONTEXT = {
  sccNames: ['anyuid', 'restricted'],
  findRole: (namespace: string, name: string) => USEFUL[`${namespace}/${name}`],
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

suite('a change reaches', () => {
  const scc = laxScc({});
  const cases: readonly (readonly [name: string, change: ObjectChange, expected: 'all' | readonly string[]])[] = [
    ['all: an SCC', { kind: 'SecurityContextConstraints', after: scc }, 'all'],
    ['all: an SCC that is gone', { kind: 'SecurityContextConstraints', before: scc }, 'all'],
    [
      'all: an SCC that allows more',
      { kind: 'SecurityContextConstraints', before: scc, after: laxScc({ allowHostPID: true }) },
      'all',
    ],
    [
      'all: an SCC that is given to somebody',
      { kind: 'SecurityContextConstraints', before: scc, after: laxScc({ users: ['alice'] }) },
      'all',
    ],
    [
      'none: an SCC that is described',
      {
        kind: 'SecurityContextConstraints',
        before: scc,
        after: { ...scc, metadata: { name: 'lax', annotations: { a: 'b' } } },
      },
      [],
    ],
    ['its own: a namespace', { kind: 'Namespace', after: { metadata: { name: 'a' } } }, ['a']],
    [
      'its own: a service account that is gone',
      { kind: 'ServiceAccount', before: { metadata: { namespace: 'a' } } },
      ['a'],
    ],
    ['none: a role that lets nobody use anything', { kind: 'ClusterRole', after: USEFUL['/view'] }, []],
    ['all: a role that came after its bindings', { kind: 'ClusterRole', after: USEFUL['/use-anyuid'] }, 'all'],
    ['its own: a role of a namespace', { kind: 'Role', before: USEFUL['a/use-anyuid'] }, ['a']],
    [
      'none: a binding to a role that is not there',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a')], 'gone') },
      [],
    ],
    [
      'none: a binding to a role that does not matter',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a')], 'view') },
      [],
    ],
    [
      'where the accounts are',
      { kind: 'ClusterRoleBinding', after: clusterBinding([account('a'), account('b')]) },
      ['a', 'b'],
    ],
    [
      'where they are and were',
      { kind: 'ClusterRoleBinding', before: clusterBinding([account('a')]), after: clusterBinding([account('b')]) },
      ['a', 'b'],
    ],
    ['none: an account without a namespace', { kind: 'ClusterRoleBinding', after: clusterBinding([account()]) }, []],
    [
      'where an account is that is called a user',
      { kind: 'ClusterRoleBinding', after: clusterBinding([user('system:serviceaccount:a:x')]) },
      ['a'],
    ],
    [
      'none: users and groups that are no accounts',
      { kind: 'ClusterRoleBinding', after: clusterBinding([user('alice'), group('dev')]) },
      [],
    ],
    [
      'all: every account',
      { kind: 'ClusterRoleBinding', after: clusterBinding([group('system:authenticated')]) },
      'all',
    ],
    [
      'the accounts of a namespace',
      { kind: 'ClusterRoleBinding', after: clusterBinding([group('system:serviceaccounts:a')]) },
      ['a'],
    ],
    ['its own: a binding in a namespace', { kind: 'RoleBinding', after: binding([account()]) }, ['a']],
    [
      'its own: a binding of a cluster role',
      { kind: 'RoleBinding', after: binding([account()], 'ClusterRole') },
      ['a'],
    ],
    [
      'its own: a binding of all accounts',
      { kind: 'RoleBinding', after: binding([group('system:serviceaccounts')]) },
      ['a'],
    ],
    ['none: a binding of an account from elsewhere', { kind: 'RoleBinding', after: binding([account('b')]) }, []],
    ['none: a binding of nobody', { kind: 'RoleBinding', after: { metadata: { namespace: 'a' } } }, []],
  ];
  for (const [name, change, expected] of cases) {
    test(name, () => {
      const reach = findAffectedNamespaces(change, CONTEXT);
      assert.deepEqual(reach === 'all' ? reach : [...reach].sort(), expected);
    });
  }
});
