import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { createAuthorizer, type Action, type RbacObjects, type User } from '../../src/policy/rbac/index.ts';

interface Cluster extends RbacObjects {
  readonly id: string;
  readonly requests: readonly { readonly user: User; readonly action: Action }[];
  readonly expect: readonly boolean[];
}

const file = join(process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance', 'random/rbac-random.ndjson.gz');
const skip = existsSync(file) ? false : `no conformance data at ${file}`;

test('random clusters are authorized as by the API server', { skip }, () => {
  const lines = gunzipSync(readFileSync(file)).toString('utf8').trim().split('\n');
  let requests = 0;
  for (const line of lines) {
    const cluster = JSON.parse(line) as Cluster;
    const authorize = createAuthorizer(cluster);
    const answers = cluster.requests.map(({ user, action }) => authorize(user, action));
    assert.deepEqual(answers, cluster.expect, cluster.id);
    requests += answers.length;
  }
  assert.equal(requests, 18_000);
});
