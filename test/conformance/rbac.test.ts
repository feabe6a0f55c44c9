import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Action, createAuthorizer, type RbacObjects, type User } from '../../src/policy/rbac/index.ts';
import { readLines } from '../support/conformance/cases.ts';

interface Cluster extends RbacObjects {
  readonly id: string;
  readonly requests: readonly { readonly user: User; readonly action: Action }[];
  readonly expect: readonly boolean[];
}

test('the authorizer decides about random clusters like the authorizer of Kubernetes', () => {
  let requests = 0;
  for (const cluster of readLines<Cluster>('random/rbac-random.ndjson')) {
    const authorize = createAuthorizer(cluster);
    const results = cluster.requests.map(({ user, action }) => authorize(user, action));
    assert.deepEqual(results, cluster.expect, cluster.id);
    requests += results.length;
  }
  assert.equal(requests, 18_000);
});
