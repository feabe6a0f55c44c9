import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { grantObjects, type Grant } from '../../../src/policy/scc/standard.ts';

const grant = (namespace: string, serviceAccount: string, scc: string): Grant => ({ namespace, serviceAccount, scc });

/** Kind, namespace and name of each object. */
function named(grants: readonly Grant[], roles: readonly string[]): readonly string[] {
  return grantObjects(grants, { hasRole: (scc) => roles.includes(scc) }).map(
    ({ kind, metadata }) => `${kind ?? ''} ${metadata?.namespace ?? '-'} ${metadata?.name ?? ''}`,
  );
}

describe('the objects that grant the use of SCCs', () => {
  test('none for nothing', () => assert.deepEqual(named([], []), []));

  test('one binding for each account and SCC, sorted', () => {
    const grants = [
      grant('shop', 'web', 'b'),
      grant('shop', 'web', 'a'),
      grant('lab', 'web', 'b'),
      grant('shop', 'web', 'b'),
      grant('shop', 'db', 'b'),
    ];
    assert.deepEqual(named(grants, ['a', 'b']), [
      'RoleBinding lab portcullis:scc:b:web',
      'RoleBinding shop portcullis:scc:b:db',
      'RoleBinding shop portcullis:scc:a:web',
      'RoleBinding shop portcullis:scc:b:web',
    ]);
  });

  test('names that could be taken apart in two ways stay two', () => {
    const grants = [grant('shop', 'c', 'a-b'), grant('shop', 'b-c', 'a')];
    assert.equal(new Set(named(grants, ['a', 'a-b'])).size, 2);
  });

  test('complete, with the role where it is missing', () => {
    assert.deepEqual(grantObjects([grant('shop', 'web', 'custom')], { hasRole: () => false }), [
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: { name: 'system:openshift:scc:custom' },
        rules: [
          {
            apiGroups: ['security.openshift.io'],
            resources: ['securitycontextconstraints'],
            resourceNames: ['custom'],
            verbs: ['use'],
          },
        ],
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'portcullis:scc:custom:web', namespace: 'shop' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:openshift:scc:custom' },
        subjects: [{ kind: 'ServiceAccount', name: 'web', namespace: 'shop' }],
      },
    ]);
  });
});
