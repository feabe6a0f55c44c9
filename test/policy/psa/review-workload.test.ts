import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allow } from '../../../src/kube/admission.ts';
import type { PodSecurityReview } from '../../../src/policy/psa/review.ts';
import {
  compliantPod,
  deploymentRequest,
  hostNetworkPod,
  PLAIN_DETAILS,
  plainPod,
  review,
  type Given,
} from '../../support/pod-security.ts';

interface Case {
  readonly name: string;
  readonly given: Given;
  readonly expected: PodSecurityReview;
}

const NOTHING: PodSecurityReview = { decision: allow(), counts: [] };

const letThrough = (error: string): PodSecurityReview => ({
  decision: allow({ auditAnnotations: { error } }),
  counts: [{ metric: 'errors', fatal: true }],
});

const deployment = (template: unknown, more: object = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  spec: { template, ...more },
});

const warned = (level: 'baseline' | 'restricted', text: string): PodSecurityReview => ({
  decision: allow({ warnings: [`would violate PodSecurity "${level}:latest": ${text}`] }),
  counts: [{ metric: 'evaluations', decision: 'deny', mode: 'warn', policy: { level, version: 'latest' } }],
});

const CASES: readonly Case[] = [
  {
    name: 'what enforce forbids is a warning',
    given: { labels: { enforce: 'restricted' }, request: deploymentRequest(deployment(plainPod())) },
    expected: warned('restricted', PLAIN_DETAILS),
  },
  {
    name: 'a default enforce policy does not warn',
    given: { defaults: { enforce: 'restricted' }, labels: {}, request: deploymentRequest(deployment(plainPod())) },
    expected: NOTHING,
  },
  {
    name: 'audit and wrong labels are noted',
    given: {
      labels: { enforce: 'bogus', audit: 'baseline' },
      request: deploymentRequest(deployment(hostNetworkPod())),
    },
    expected: {
      decision: allow({
        auditAnnotations: {
          error:
            'Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "bogus": must be one of privileged, baseline, restricted',
          'audit-violations': 'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        },
      }),
      counts: [
        { metric: 'errors', fatal: false },
        {
          metric: 'evaluations',
          decision: 'deny',
          mode: 'audit',
          policy: { level: 'baseline', version: 'latest' },
        },
      ],
    },
  },
  {
    name: 'a template that keeps everything',
    given: { labels: { enforce: 'restricted' }, request: deploymentRequest(deployment(compliantPod())) },
    expected: NOTHING,
  },
  {
    name: 'the annotations of the workload are not those of its pods',
    given: {
      labels: { warn: 'baseline' },
      request: deploymentRequest({
        ...deployment(compliantPod()),
        metadata: { annotations: { 'container.apparmor.security.beta.kubernetes.io/c': 'unconfined' } },
      }),
    },
    expected: NOTHING,
  },
  {
    name: 'an absent template is an empty one',
    given: { labels: { warn: 'restricted' }, request: deploymentRequest({ ...deployment(null) }) },
    expected: NOTHING,
  },
  {
    name: 'any subresource',
    given: {
      labels: { warn: 'baseline' },
      request: deploymentRequest({ apiVersion: 'autoscaling/v1', kind: 'Scale' }, { requestSubResource: 'scale' }),
    },
    expected: NOTHING,
  },
  {
    name: 'warn and audit privileged: the object is not decoded',
    given: { labels: { enforce: 'restricted', warn: 'privileged' }, request: deploymentRequest(7) },
    expected: NOTHING,
  },
  {
    name: 'an exempt namespace',
    given: { exemptions: { namespaces: ['ns'] }, request: deploymentRequest(7) },
    expected: { decision: allow({ auditAnnotations: { exempt: 'namespace' } }), counts: [{ metric: 'exemptions' }] },
  },
  {
    name: 'an exempt runtime class, in the template',
    given: {
      exemptions: { runtimeClasses: ['kata'] },
      labels: { warn: 'baseline' },
      request: deploymentRequest(deployment({ spec: { runtimeClassName: 'kata', hostPID: true } })),
    },
    expected: { decision: allow({ auditAnnotations: { exempt: 'runtimeClass' } }), counts: [{ metric: 'exemptions' }] },
  },
  {
    name: 'the namespace does not exist',
    given: { request: deploymentRequest(deployment(plainPod()), { namespace: 'a"b' }) },
    expected: letThrough('failed to lookup namespace "a\\"b": namespaces "a\\"b" not found'),
  },
  {
    name: 'no object',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest(null) },
    expected: letThrough('failed to extract pod template: unexpected object type: <nil>'),
  },
  {
    name: 'another kind',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest({ apiVersion: 'v1', kind: 'Service' }) },
    expected: letThrough('failed to extract pod template: unexpected object type: /v1, Kind=Service'),
  },
  {
    name: 'a kind of another group that has the same name',
    given: {
      labels: { warn: 'baseline' },
      request: deploymentRequest({ apiVersion: 'extensions/v1beta1', kind: 'Deployment' }),
    },
    expected: letThrough(
      'failed to decode object: no kind "Deployment" is registered for version "extensions/v1beta1"',
    ),
  },
  {
    name: 'an apiVersion with too many parts',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest({ apiVersion: 'a/b/c' }) },
    expected: letThrough('failed to decode object: unexpected GroupVersion string: a/b/c'),
  },
  {
    name: 'an object that is a text',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest('Deployment') },
    expected: letThrough(
      "failed to decode object: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct",
    ),
  },
  {
    name: 'a kind that is a number',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest({ kind: 7 }) },
    expected: letThrough(
      "failed to decode object: couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
    ),
  },
  {
    name: 'a template that is a list',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest(deployment([])) },
    expected: letThrough(
      'failed to decode object: json: cannot unmarshal array into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec',
    ),
  },
  {
    name: 'a wrong type in the template',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest(deployment({ spec: { hostPID: 1 } })) },
    expected: letThrough(
      'failed to decode object: json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.hostPID of type bool',
    ),
  },
  {
    name: 'a wrong type outside of the template',
    given: { labels: { warn: 'baseline' }, request: deploymentRequest(deployment(plainPod(), { replicas: '3' })) },
    expected: letThrough(
      'failed to decode object: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32',
    ),
  },
];

suite('a request about a workload', () => {
  for (const { name, given, expected } of CASES) test(name, () => assert.deepEqual(review(given), expected));
});

const template = hostNetworkPod();

const KINDS: readonly { readonly group: string; readonly kind: string; readonly object: unknown }[] = [
  { group: '', kind: 'PodTemplate', object: { template } },
  { group: '', kind: 'ReplicationController', object: { spec: { template } } },
  { group: 'apps', kind: 'ReplicaSet', object: { spec: { template } } },
  { group: 'apps', kind: 'StatefulSet', object: { spec: { template } } },
  { group: 'apps', kind: 'DaemonSet', object: { spec: { template } } },
  { group: 'batch', kind: 'Job', object: { spec: { template } } },
  { group: 'batch', kind: 'CronJob', object: { spec: { jobTemplate: { spec: { template } } } } },
];

for (const { group, kind, object } of KINDS) {
  // The object says nothing of its kind: that of the request counts.
  const request = deploymentRequest(object, {
    kind: { group, version: 'v1', kind },
    resource: { group, version: 'v1', resource: `${kind.toLowerCase()}s` },
  });
  test(`the template of a ${kind} is judged, on an update too`, () => {
    const expected = warned('baseline', 'host namespaces (hostNetwork=true)');
    assert.deepEqual(review({ labels: { warn: 'baseline' }, request }), expected);
    const update = { ...request, operation: 'UPDATE' as const, oldObject: object };
    assert.deepEqual(review({ labels: { warn: 'baseline' }, request: update }), expected);
  });
}

test('a ReplicationController may do without a template', () => {
  const kind = { group: '', version: 'v1', kind: 'ReplicationController' };
  const resource = { group: '', version: 'v1', resource: 'replicationcontrollers' };
  const request = deploymentRequest({ spec: {} }, { kind, resource });
  assert.deepEqual(review({ labels: { warn: 'restricted' }, request }), NOTHING);
});
