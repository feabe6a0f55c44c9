import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allow, deny, type AdmissionRequest } from '../../../src/kube/admission.ts';
import { badRequest, createStatus } from '../../../src/kube/status.ts';
import type { PodSecurityReview } from '../../../src/policy/psa/review.ts';
import type { PodSecurityCount } from '../../../src/policy/psa/metrics.ts';
import type { Policy } from '../../../src/policy/pss/policy.ts';
import {
  compliantPod,
  hostNetworkPod,
  PLAIN_DETAILS,
  plainPod,
  podRequest,
  review,
  type Given,
} from '../../support/pod-security.ts';

interface Case {
  readonly name: string;
  readonly given: Given;
  readonly expected: PodSecurityReview;
}

const evaluated = (
  decision: 'allow' | 'deny',
  mode: 'enforce' | 'audit' | 'warn',
  level: Policy['level'],
  version: Policy['version'] = 'latest',
): PodSecurityCount => ({ metric: 'evaluations', decision, mode, policy: { level, version } });

const exemptBy = (exempt: string): PodSecurityReview => ({
  decision: allow({ auditAnnotations: { exempt } }),
  counts: [{ metric: 'exemptions' }],
});

const NOTHING: PodSecurityReview = { decision: allow(), counts: [] };

const refused = (message: string, cause?: string): PodSecurityReview => ({
  decision: deny(badRequest(message), {
    auditAnnotations: { error: cause === undefined ? message : `${message}: ${cause}` },
  }),
  counts: [{ metric: 'errors', fatal: true }],
});

const BOGUS =
  'Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "bogus": must be one of privileged, baseline, restricted';
const HOST = 'host namespaces (hostNetwork=true)';

const CASES: readonly Case[] = [
  {
    name: 'all policies are kept',
    given: { labels: { enforce: 'restricted' }, request: podRequest(compliantPod()) },
    expected: {
      decision: allow({ auditAnnotations: { 'enforce-policy': 'restricted:latest' } }),
      counts: [evaluated('allow', 'enforce', 'restricted')],
    },
  },
  {
    name: 'enforce and audit are violated: a denied request gets no warning',
    given: {
      labels: { enforce: 'baseline', 'enforce-version': 'v1.30', audit: 'restricted', warn: 'restricted' },
      request: podRequest(hostNetworkPod()),
    },
    expected: {
      decision: deny(
        createStatus(403, 'Forbidden', `pods "p" is forbidden: violates PodSecurity "baseline:v1.30": ${HOST}`, {
          name: 'p',
          kind: 'pods',
        }),
        {
          auditAnnotations: {
            'enforce-policy': 'baseline:v1.30',
            'audit-violations': `would violate PodSecurity "restricted:latest": ${HOST}`,
          },
        },
      ),
      counts: [evaluated('deny', 'enforce', 'baseline', 'v1.30'), evaluated('deny', 'audit', 'restricted')],
    },
  },
  {
    name: 'audit and warn are violated',
    given: {
      labels: { enforce: 'baseline', audit: 'restricted', 'audit-version': 'v1.0', warn: 'restricted' },
      request: podRequest(plainPod()),
    },
    expected: {
      decision: allow({
        auditAnnotations: {
          'enforce-policy': 'baseline:latest',
          'audit-violations':
            'would violate PodSecurity "restricted:v1.0": runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        },
        warnings: [`would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`],
      }),
      counts: [
        evaluated('allow', 'enforce', 'baseline'),
        evaluated('deny', 'audit', 'restricted', 'v1.0'),
        evaluated('deny', 'warn', 'restricted'),
      ],
    },
  },
  {
    name: 'a pod with generateName has no name yet',
    given: { labels: { enforce: 'baseline' }, request: { ...podRequest(hostNetworkPod()), name: '' } },
    expected: {
      decision: deny(
        createStatus(403, 'Forbidden', `pods is forbidden: violates PodSecurity "baseline:latest": ${HOST}`, {
          kind: 'pods',
        }),
        { auditAnnotations: { 'enforce-policy': 'baseline:latest' } },
      ),
      counts: [evaluated('deny', 'enforce', 'baseline')],
    },
  },
  {
    name: 'an emulated version does not know the newest checks',
    given: {
      labels: { enforce: 'baseline' },
      emulationVersion: 'v1.33',
      request: podRequest(compliantPod({}, { livenessProbe: { httpGet: { host: 'localhost', port: 80 } } })),
    },
    expected: {
      decision: allow({ auditAnnotations: { 'enforce-policy': 'baseline:latest' } }),
      counts: [evaluated('allow', 'enforce', 'baseline')],
    },
  },
  {
    name: 'fully privileged: the object is not even decoded',
    given: { labels: { 'enforce-version': 'v1.20' }, request: podRequest({ spec: 7 }) },
    expected: {
      decision: allow({ auditAnnotations: { 'enforce-policy': 'privileged:latest' } }),
      counts: [evaluated('allow', 'enforce', 'privileged', 'v1.20')],
    },
  },
  {
    name: 'privileged with a version, and an audit policy',
    given: { labels: { 'enforce-version': 'v1.20', audit: 'baseline' }, request: podRequest(compliantPod()) },
    expected: {
      decision: allow({ auditAnnotations: { 'enforce-policy': 'privileged:v1.20' } }),
      counts: [evaluated('allow', 'enforce', 'privileged', 'v1.20')],
    },
  },
  {
    name: 'a wrong label counts as restricted and is noted',
    given: { labels: { enforce: 'bogus' }, request: podRequest(compliantPod()) },
    expected: {
      decision: allow({ auditAnnotations: { error: BOGUS, 'enforce-policy': 'restricted:latest' } }),
      counts: [{ metric: 'errors', fatal: false }, evaluated('allow', 'enforce', 'restricted')],
    },
  },
  {
    name: 'the namespace does not exist',
    given: { request: podRequest(compliantPod()) },
    expected: {
      decision: deny(
        createStatus(500, 'InternalError', 'Internal error occurred: failed to lookup namespace "ns"', {
          causes: [{ message: 'failed to lookup namespace "ns"' }],
        }),
        {
          auditAnnotations: {
            error: 'Internal error occurred: failed to lookup namespace "ns": namespaces "ns" not found',
          },
        },
      ),
      counts: [{ metric: 'errors', fatal: true }],
    },
  },
  {
    name: 'an exempt namespace need not exist, and wins over the user',
    given: { exemptions: { namespaces: ['ns'], usernames: ['alice'] }, request: podRequest(hostNetworkPod()) },
    expected: exemptBy('namespace'),
  },
  {
    name: 'an exempt user',
    given: {
      exemptions: { usernames: ['alice'] },
      labels: { enforce: 'restricted' },
      request: podRequest(hostNetworkPod()),
    },
    expected: exemptBy('user'),
  },
  {
    name: 'an exempt runtime class; wrong labels are not noted',
    given: {
      exemptions: { runtimeClasses: ['kata'] },
      labels: { enforce: 'bogus' },
      request: podRequest(compliantPod({ runtimeClassName: 'kata', hostNetwork: true })),
    },
    expected: exemptBy('runtimeClass'),
  },
  {
    name: 'groups and other cases do not exempt, nor does nothing',
    given: {
      exemptions: { namespaces: ['NS', ''], usernames: ['Alice', 'admins', ''], runtimeClasses: [''] },
      labels: { enforce: 'baseline' },
      request: podRequest(hostNetworkPod(), { userInfo: { username: '', groups: ['admins'] } }),
    },
    expected: {
      decision: deny(
        createStatus(403, 'Forbidden', `pods "p" is forbidden: violates PodSecurity "baseline:latest": ${HOST}`, {
          name: 'p',
          kind: 'pods',
        }),
        { auditAnnotations: { 'enforce-policy': 'baseline:latest' } },
      ),
      counts: [evaluated('deny', 'enforce', 'baseline')],
    },
  },
  {
    name: 'an ignored subresource precedes exemptions',
    given: {
      exemptions: { namespaces: ['ns'] },
      request: podRequest(null, { operation: 'CONNECT', subResource: 'exec', requestSubResource: 'exec' }),
    },
    expected: NOTHING,
  },
  {
    name: 'an unknown subresource must carry a pod',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest({ apiVersion: 'v1', kind: 'Binding' }, { requestSubResource: 'futuresub' }),
    },
    expected: refused('failed to decode pod'),
  },
  {
    name: 'no object',
    given: { labels: { enforce: 'baseline' }, request: podRequest(null) },
    expected: refused('failed to decode pod'),
  },
  {
    name: 'an object of an unknown kind',
    given: { labels: { enforce: 'baseline' }, request: podRequest({ apiVersion: 'policy/v1', kind: 'Eviction' }) },
    expected: refused('failed to decode object', 'no kind "Eviction" is registered for version "policy/v1"'),
  },
  {
    name: 'a field with a wrong type',
    given: { labels: { enforce: 'baseline' }, request: podRequest({ spec: { hostNetwork: 'yes' } }) },
    expected: refused(
      'failed to decode object',
      'json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool',
    ),
  },
  {
    name: 'a pod that calls itself a decision is a pod',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest({ ...hostNetworkPod(), decision: { allowed: true }, counts: [] }),
    },
    expected: {
      decision: deny(
        createStatus(403, 'Forbidden', `pods "p" is forbidden: violates PodSecurity "baseline:latest": ${HOST}`, {
          name: 'p',
          kind: 'pods',
        }),
        { auditAnnotations: { 'enforce-policy': 'baseline:latest' } },
      ),
      counts: [evaluated('deny', 'enforce', 'baseline')],
    },
  },
  {
    name: 'a request whose kind has no group: the core group',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest(compliantPod(), { kind: { version: 'v1', kind: 'Pod' } as AdmissionRequest['kind'] }),
    },
    expected: {
      decision: allow({ auditAnnotations: { 'enforce-policy': 'baseline:latest' } }),
      counts: [evaluated('allow', 'enforce', 'baseline')],
    },
  },
  {
    name: 'a deletion that was sent by mistake',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest(undefined, { operation: 'DELETE', oldObject: compliantPod() }),
    },
    expected: refused('failed to decode pod'),
  },
  {
    name: 'an update without the old object',
    given: { labels: { enforce: 'baseline' }, request: podRequest(compliantPod(), { operation: 'UPDATE' }) },
    expected: refused('failed to decode old pod'),
  },
  {
    name: 'an update with an old object that cannot be decoded',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest(compliantPod(), { operation: 'UPDATE', oldObject: { spec: { containers: {} } } }),
    },
    expected: refused(
      'failed to decode old object',
      'json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container',
    ),
  },
  {
    name: 'an update that is not significant, with wrong labels',
    given: {
      labels: { enforce: 'bogus' },
      request: podRequest(hostNetworkPod(), { operation: 'UPDATE', oldObject: hostNetworkPod() }),
    },
    expected: NOTHING,
  },
  {
    name: 'an update that adds a container to a pod that violates already',
    given: {
      labels: { enforce: 'baseline' },
      request: podRequest(
        { ...hostNetworkPod(), spec: { ...hostNetworkPod().spec, ephemeralContainers: [{ name: 'debug' }] } },
        { operation: 'UPDATE', requestSubResource: 'ephemeralcontainers', oldObject: hostNetworkPod() },
      ),
    },
    expected: {
      decision: deny(
        createStatus(403, 'Forbidden', `pods "p" is forbidden: violates PodSecurity "baseline:latest": ${HOST}`, {
          name: 'p',
          kind: 'pods',
        }),
        { auditAnnotations: { 'enforce-policy': 'baseline:latest' } },
      ),
      counts: [evaluated('deny', 'enforce', 'baseline')],
    },
  },
];

suite('a request about a pod', () => {
  for (const { name, given, expected } of CASES) test(name, () => assert.deepEqual(review(given), expected));
});

for (const subresource of ['exec', 'attach', 'binding', 'eviction', 'log', 'portforward', 'proxy', 'status']) {
  test(`pods/${subresource} is not judged`, () => {
    const request = podRequest(hostNetworkPod(), { requestSubResource: subresource });
    assert.deepEqual(review({ labels: { enforce: 'restricted' }, request }), NOTHING);
  });
}
