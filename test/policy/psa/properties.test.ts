/** Tests properties of reviews for arbitrary requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { AdmissionRequest } from '../../../src/kube/admission.ts';
import { evaluatePod } from '../../../src/policy/pss/index.ts';
import { hostileJson } from '../../support/hostile-json.ts';
import { compliantPod, type Labels, plainPod, review } from '../../support/pod-security.ts';

const json = hostileJson(
  [
    ...[
      'apiVersion',
      'kind',
      'metadata',
      'name',
      'labels',
      'annotations',
      'spec',
      'template',
      'jobTemplate',
      'replicas',
    ],
    ...['containers', 'initContainers', 'ephemeralContainers', 'image', 'securityContext', 'privileged', 'hostNetwork'],
    ...['runtimeClassName', 'ownerReferences', 'controller', 'uid', 'pod-security.kubernetes.io/enforce', 'decision'],
  ],
  ['v1', 'apps/v1', 'a/b/c', 'Pod', 'Namespace', 'Deployment', 'restricted', 'x'],
);

const request = fc.record({
  uid: fc.constant('1'),
  resource: fc.constantFrom(
    { group: '', version: 'v1', resource: 'pods' },
    { group: '', version: 'v1', resource: 'namespaces' },
    { group: 'apps', version: 'v1', resource: 'deployments' },
  ),
  kind: fc.constantFrom(
    { group: '', version: 'v1', kind: 'Pod' },
    { group: '', version: 'v1', kind: 'Namespace' },
    { group: '', version: 'v1', kind: 'ReplicationController' },
    { group: 'apps', version: 'v1', kind: 'Deployment' },
    { group: 'batch', version: 'v1', kind: 'CronJob' },
    { group: 'constructor', version: '__proto__', kind: 'toString' },
  ),
  name: fc.constantFrom('', 'p', '__proto__'),
  namespace: fc.constantFrom('ns', '', 'other'),
  operation: fc.constantFrom<AdmissionRequest['operation']>('CREATE', 'UPDATE', 'DELETE', 'CONNECT'),
  userInfo: fc.constant({ username: 'alice' }),
  object: json,
  oldObject: json,
}) satisfies fc.Arbitrary<AdmissionRequest>;

const label = fc.constantFrom('privileged', 'baseline', 'restricted', 'bogus', '');
const labels: fc.Arbitrary<Labels> = fc.oneof(
  fc.constant({}),
  fc.record({ enforce: label, audit: label, warn: label, 'enforce-version': fc.constantFrom('latest', 'v1.20', '1') }),
);

const runs = { numRuns: 3000 };

test('a review does not throw an error, and does not change the request', () => {
  fc.assert(
    fc.property(request, labels, (given, namespace) => {
      const before = JSON.stringify(given);
      const { decision, counts } = review({ labels: namespace, request: given, pods: () => [plainPod()] });
      assert.equal(JSON.stringify(given), before);
      if (!decision.allowed) assert.ok(decision.status.message !== '' && decision.status.code >= 400);
      if (given.resource.resource === 'deployments') assert.ok(decision.allowed, 'workloads are never denied');
      if (given.resource.resource === 'namespaces') assert.deepEqual(counts, []);
    }),
    runs,
  );
});

test('an allowed pod complies with the policy in its audit annotation', () => {
  const spec = json.map((value) => (typeof value === 'object' && value !== null ? value : {}));
  fc.assert(
    fc.property(spec, fc.constantFrom('baseline' as const, 'restricted' as const), (change, level) => {
      const object = compliantPod(change);
      const given = { uid: '1', kind: { group: '', version: 'v1', kind: 'Pod' } };
      const { decision } = review({
        labels: { enforce: level },
        request: {
          ...given,
          resource: { group: '', version: 'v1', resource: 'pods' },
          namespace: 'ns',
          operation: 'CREATE',
          userInfo: {},
          object,
        },
      });
      assert.equal(decision.allowed, evaluatePod(object, { level, version: 'latest' }).allowed);
    }),
    runs,
  );
});
