/** Nobody grants in the development cluster what they do not hold. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { messageOf } from '../support/answers.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';
import type { ApiClient } from '../support/api-client.ts';

const API = '/apis/rbac.authorization.k8s.io/v1';
const NS = `${API}/namespaces/shop`;
const GROUP = 'rbac.authorization.k8s.io';
const ALICE =
  'user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n';
const PODS = { verbs: ['get', 'list'], apiGroups: [''], resources: ['pods'] };
const SECRETS = { verbs: ['get'], apiGroups: [''], resources: ['secrets'] };
const MISSING_SECRETS = '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}';

type Rules = readonly object[];

function role(kind: 'Role' | 'ClusterRole', name: string, rules: Rules, more: object = {}): object {
  return { apiVersion: `${GROUP}/v1`, kind, metadata: { name }, rules, ...more };
}

function binding(kind: 'RoleBinding' | 'ClusterRoleBinding', name: string, to: string, user: string): object {
  const [roleKind, roleName] = to.split('/');
  return {
    apiVersion: `${GROUP}/v1`,
    kind,
    metadata: { name },
    subjects: [{ kind: 'User', apiGroup: GROUP, name: user }],
    roleRef: { apiGroup: GROUP, kind: roleKind, name: roleName },
  };
}

describe('privilege escalation', () => {
  let cluster: TestCluster;
  let alice: ApiClient;

  const must = async (path: string, body: object): Promise<void> => {
    const { status, text } = await cluster.admin.send('POST', path, body);
    assert.equal(status, 201, text);
  };
  /** Gives a user rules in the whole cluster. */
  const grant = async (user: string, rules: Rules): Promise<void> => {
    await must(`${API}/clusterroles`, role('ClusterRole', `of-${user}`, rules));
    await must(
      `${API}/clusterrolebindings`,
      binding('ClusterRoleBinding', `of-${user}`, `ClusterRole/of-${user}`, user),
    );
  };
  const EDIT = { verbs: ['create', 'update', 'patch', 'get'], apiGroups: [GROUP], resources: ['*'] };

  before(async () => {
    cluster = await startEmptyCluster();
    await must('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } });
    await grant('alice', [EDIT, PODS]);
    await grant('escalator', [EDIT, { verbs: ['escalate'], apiGroups: [GROUP], resources: ['roles'] }]);
    await grant('binder', [
      EDIT,
      { verbs: ['bind'], apiGroups: [GROUP], resources: ['clusterroles'], resourceNames: ['secrets'] },
    ]);
    await grant('owner', [
      { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
      { verbs: ['*'], nonResourceURLs: ['*'] },
    ]);
    await must(`${API}/clusterroles`, role('ClusterRole', 'secrets', [SECRETS]));
    await must(`${API}/clusterroles`, role('ClusterRole', 'pods', [PODS]));
    await must(`${NS}/roles`, role('Role', 'secrets', [SECRETS]));
    alice = cluster.as('alice', ['dev']);
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  interface Case {
    readonly name: string;
    readonly by: string;
    readonly path: string;
    readonly body: object;
    /** Absent: created. */
    readonly refusal?: readonly [status: number, message: string];
  }
  const cases: readonly Case[] = [
    { name: 'a role of what is held', by: 'alice', path: `${NS}/roles`, body: role('Role', 'ok', [PODS]) },
    {
      name: 'a role of more',
      by: 'alice',
      path: `${NS}/roles`,
      body: role('Role', 'more', [PODS, SECRETS]),
      refusal: [403, `roles.${GROUP} "more" is forbidden: ${ALICE}${MISSING_SECRETS}`],
    },
    {
      name: 'a cluster role of more',
      by: 'alice',
      path: `${API}/clusterroles`,
      body: role('ClusterRole', 'more', [SECRETS, { verbs: ['get'], nonResourceURLs: ['/metrics'] }]),
      refusal: [
        403,
        `clusterroles.${GROUP} "more" is forbidden: ${ALICE}${MISSING_SECRETS}\n{NonResourceURLs:["/metrics"], Verbs:["get"]}`,
      ],
    },
    {
      name: 'what would not be valid anyway',
      by: 'alice',
      path: `${NS}/roles`,
      body: role('Role', 'odd', [{ ...SECRETS, apiGroups: [] }]),
      refusal: [
        422,
        `Role.${GROUP} "odd" is invalid: rules[0].apiGroups: Required value: resource rules must supply at least one api group`,
      ],
    },
    {
      name: 'a role by whom may escalate',
      by: 'escalator',
      path: `${NS}/roles`,
      body: role('Role', 'escalated', [SECRETS]),
    },
    {
      name: 'a role by whom may do everything',
      by: 'owner',
      path: `${NS}/roles`,
      body: role('Role', 'owned', [SECRETS]),
    },
    {
      name: 'a binding to what is held',
      by: 'alice',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'ok', 'ClusterRole/pods', 'bob'),
    },
    {
      name: 'a binding to a role of more',
      by: 'alice',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'more', 'Role/secrets', 'alice'),
      refusal: [403, `rolebindings.${GROUP} "more" is forbidden: ${ALICE}${MISSING_SECRETS}`],
    },
    {
      name: 'a binding in the whole cluster to a role of more',
      by: 'alice',
      path: `${API}/clusterrolebindings`,
      body: binding('ClusterRoleBinding', 'more', 'ClusterRole/secrets', 'alice'),
      refusal: [403, `clusterrolebindings.${GROUP} "more" is forbidden: ${ALICE}${MISSING_SECRETS}`],
    },
    {
      name: 'a binding to a role that does not exist',
      by: 'alice',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'none', 'ClusterRole/none', 'alice'),
      refusal: [404, `clusterroles.${GROUP} "none" not found`],
    },
    {
      name: 'the same by an administrator',
      by: '',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'early', 'Role/none', 'bob'),
    },
    {
      name: 'a binding by whom may bind that role',
      by: 'binder',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'bound', 'ClusterRole/secrets', 'bob'),
    },
    {
      name: 'a binding by whom may bind another',
      by: 'binder',
      path: `${NS}/rolebindings`,
      body: binding('RoleBinding', 'other', 'ClusterRole/pods', 'bob'),
      refusal: [
        403,
        `rolebindings.${GROUP} "other" is forbidden: user "binder" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`,
      ],
    },
  ];
  for (const { name, by, path, body, refusal } of cases) {
    test(name, async () => {
      const client = by === '' ? cluster.admin : by === 'alice' ? alice : cluster.as(by);
      const answer = await client.send('POST', path, body);
      if (refusal) assert.deepEqual([answer.status, messageOf(answer)], refusal);
      else assert.equal(answer.status, 201, answer.text);
    });
  }

  test('updates that change the rights are checked, others are not', async () => {
    const path = `${NS}/roles/secrets`;
    const merge = { 'content-type': 'application/merge-patch+json' };
    const labelled = await alice.send('PATCH', path, { metadata: { labels: { a: 'b' } } }, merge);
    assert.equal(labelled.status, 200, labelled.text);
    const replaced = await alice.send('PUT', path, role('Role', 'secrets', [PODS]));
    assert.equal(replaced.status, 200, replaced.text);
    const back = await alice.send('PUT', path, role('Role', 'secrets', [SECRETS]));
    assert.deepEqual(
      [back.status, messageOf(back)],
      [403, `roles.${GROUP} "secrets" is forbidden: ${ALICE}${MISSING_SECRETS}`],
    );
  });
});
