import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allow, deny, type AdmissionRequest, type Decision } from '../../../src/kube/admission.ts';
import { badRequest, createStatus } from '../../../src/kube/status.ts';
import type { Pod } from '../../../src/kube/types.ts';
import {
  compliantPod,
  hostNetworkPod,
  namespaceRequest,
  namespaceWith,
  PLAIN_REASONS,
  plainPod,
  podRequest,
  review,
  type Given,
  type Labels,
} from '../../support/pod-security.ts';

interface Case {
  readonly name: string;
  readonly given: Given;
  readonly expected: Decision;
}

const create = (labels: Labels) => namespaceRequest('CREATE', namespaceWith(labels), null);
const update = (before: Labels, after: Labels) =>
  namespaceRequest('UPDATE', namespaceWith(after), namespaceWith(before));

const refused = (message: string, cause?: string): Decision =>
  deny(badRequest(message), { auditAnnotations: { error: cause === undefined ? message : `${message}: ${cause}` } });

const invalidLabel = (label: string, value: string): Decision => {
  const field = `metadata.labels[pod-security.kubernetes.io/${label}]`;
  const message = `Invalid value: "${value}": must be one of privileged, baseline, restricted`;
  return deny(
    createStatus(422, 'Invalid', `Namespace "ns" is invalid: ${field}: ${message}`, {
      name: 'ns',
      kind: 'Namespace',
      causes: [{ reason: 'FieldValueInvalid', message, field }],
    }),
  );
};

const pods = () => [plainPod('b'), hostNetworkPod('c'), compliantPod(), plainPod('a')];
const unlisted = () => assert.fail('pods are listed without need');
const violated = (policy: string) =>
  `existing pods in namespace "ns" violate the new PodSecurity enforce level "${policy}"`;
const exemption = (list: string) =>
  `namespace "ns" is exempt from Pod Security, and the policy (${list}) will be ignored`;

const CASES: readonly Case[] = [
  {
    name: 'create: right labels',
    given: { request: create({ enforce: 'baseline' }), pods: unlisted },
    expected: allow(),
  },
  {
    name: 'create: a wrong label, though users and namespace are exempt',
    given: { exemptions: { usernames: ['alice'], namespaces: ['ns'] }, request: create({ warn: 'x' }) },
    expected: invalidLabel('warn', 'x'),
  },
  {
    name: 'create: exempt, with all three set',
    given: {
      exemptions: { namespaces: ['ns'] },
      request: create({ enforce: 'baseline', 'audit-version': 'v1.30', audit: 'restricted', warn: 'baseline' }),
    },
    expected: allow({
      warnings: [exemption('enforce=baseline:latest, audit=restricted:v1.30, warn=baseline:latest')],
    }),
  },
  {
    name: 'create: exempt, the raised warn is not listed',
    given: { exemptions: { namespaces: ['ns'] }, request: create({ enforce: 'restricted' }) },
    expected: allow({ warnings: [exemption('enforce=restricted:latest')] }),
  },
  {
    name: 'create: exempt, and privileged against defaults that are not',
    given: {
      defaults: { enforce: 'baseline', audit: 'baseline', warn: 'baseline' },
      exemptions: { namespaces: ['ns'] },
      request: create({ enforce: 'privileged' }),
    },
    expected: allow({ warnings: [exemption('')] }),
  },
  {
    name: 'create: exempt, and as the defaults',
    given: {
      defaults: { enforce: 'baseline', 'audit-version': 'v1.20' },
      exemptions: { namespaces: ['ns'] },
      request: create({ 'enforce-version': 'latest' }),
    },
    expected: allow(),
  },
  {
    name: 'create: with generateName the request has no namespace, so it is not exempt',
    given: {
      exemptions: { namespaces: ['ns'] },
      request: { ...create({ enforce: 'restricted' }), namespace: '', name: '' },
    },
    expected: allow(),
  },
  {
    name: 'create: another kind',
    given: { request: namespaceRequest('CREATE', compliantPod(), null) },
    expected: refused('failed to decode namespace'),
  },
  {
    name: 'create: a wrong type',
    given: { request: namespaceRequest('CREATE', { metadata: { labels: { a: 1 } } }, null) },
    expected: refused(
      'failed to decode object',
      'json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string',
    ),
  },
  {
    name: 'a subresource',
    given: { request: { ...create({ enforce: 'x' }), requestSubResource: 'finalize' } },
    expected: allow(),
  },
  {
    name: 'delete',
    given: { request: namespaceRequest('DELETE', null, namespaceWith({ enforce: 'x' })) },
    expected: allow(),
  },
  {
    name: 'update: without the old object',
    given: { request: namespaceRequest('UPDATE', namespaceWith({}), null) },
    expected: refused('failed to decode  old namespace'),
  },
  {
    name: 'update: an old object with a wrong type',
    given: { request: namespaceRequest('UPDATE', namespaceWith({}), { metadata: 1 }) },
    expected: refused(
      'failed to decode  old object',
      'json: cannot unmarshal number into Go struct field Namespace.metadata of type v1.ObjectMeta',
    ),
  },
  {
    name: 'update: a wrong label is new',
    given: { request: update({}, { enforce: 'x' }), pods: unlisted },
    expected: invalidLabel('enforce', 'x'),
  },
  {
    name: 'update: a wrong label is replaced by another',
    given: { request: update({ enforce: 'y' }, { enforce: 'x' }), pods: unlisted },
    expected: invalidLabel('enforce', 'x'),
  },
  {
    name: 'update: one of two wrong labels is repaired',
    given: { request: update({ enforce: 'x', audit: 'y' }, { enforce: 'x' }), pods: unlisted },
    expected: invalidLabel('enforce', 'x'),
  },
  {
    name: 'update: a wrong label stays',
    given: { request: update({ enforce: 'x' }, { enforce: 'x', audit: 'baseline' }), pods: unlisted },
    expected: allow(),
  },
  {
    name: 'update: a wrong label, which counts as restricted, becomes restricted',
    given: { request: update({ enforce: 'x' }, { enforce: 'restricted' }), pods: unlisted },
    expected: allow(),
  },
  {
    name: 'update: only audit and warn change',
    given: { request: update({}, { audit: 'restricted', warn: 'restricted' }), pods: unlisted },
    expected: allow(),
  },
  {
    name: 'update: to privileged, whatever the version',
    given: {
      request: update({ enforce: 'baseline' }, { enforce: 'privileged', 'enforce-version': 'v1.1' }),
      pods: unlisted,
    },
    expected: allow(),
  },
  {
    name: 'update: relaxed at the same version',
    given: { request: update({ enforce: 'restricted' }, { enforce: 'baseline' }), pods: unlisted },
    expected: allow(),
  },
  {
    name: 'update: the implicit version becomes explicit',
    given: {
      request: update({ enforce: 'baseline' }, { enforce: 'baseline', 'enforce-version': 'latest' }),
      pods: unlisted,
    },
    expected: allow(),
  },
  {
    name: 'update: relaxed, at another version',
    given: {
      request: update({ enforce: 'restricted' }, { enforce: 'baseline', 'enforce-version': 'v1.30' }),
      pods,
    },
    expected: allow({ warnings: [violated('baseline:v1.30'), 'c: host namespaces'] }),
  },
  {
    name: 'update: tightened; pods with equal violations are one line, lines are sorted',
    given: { request: update({}, { enforce: 'restricted' }), pods },
    expected: allow({
      warnings: [violated('restricted:latest'), `a (and 1 other pod): ${PLAIN_REASONS}`, 'c: host namespaces'],
    }),
  },
  {
    name: 'update: a label is removed, the default is stricter',
    given: {
      defaults: { enforce: 'restricted' },
      request: update({ enforce: 'baseline' }, {}),
      pods: () => ['y', 'x', 'Z'].map(plainPod),
    },
    expected: allow({ warnings: [violated('restricted:latest'), `Z (and 2 other pods): ${PLAIN_REASONS}`] }),
  },
  {
    name: 'update: tightened, and all pods keep it',
    given: { request: update({}, { enforce: 'restricted' }), pods: () => [compliantPod()] },
    expected: allow(),
  },
  {
    name: 'update: tightened in an exempt namespace',
    given: {
      exemptions: { namespaces: ['ns'] },
      request: update({}, { enforce: 'restricted' }),
      pods: unlisted,
    },
    expected: allow({ warnings: [exemption('enforce=restricted:latest')] }),
  },
  {
    name: 'update: pods of an exempt runtime class count nowhere',
    given: {
      exemptions: { runtimeClasses: ['kata'] },
      limits: { maxPods: 1 },
      request: update({}, { enforce: 'restricted' }),
      pods: () => [compliantPod({ runtimeClassName: 'kata', hostPID: true }), plainPod('b')],
    },
    expected: allow({ warnings: [violated('restricted:latest'), `b: ${PLAIN_REASONS}`] }),
  },
  {
    name: 'update: the pods cannot be listed',
    given: { request: update({}, { enforce: 'restricted' }), pods: () => undefined },
    expected: allow({ warnings: ['failed to list pods while checking new PodSecurity enforce level'] }),
  },
  {
    name: 'update: more pods than the limit, none found',
    given: {
      limits: { maxPods: 1 },
      request: update({}, { enforce: 'restricted' }),
      pods: () => [compliantPod(), plainPod('a')],
    },
    expected: allow({
      warnings: ['new PodSecurity enforce level only checked against the first 1 of 2 existing pods'],
    }),
  },
];

suite('a request about a namespace', () => {
  for (const { name, given, expected } of CASES) {
    test(name, () => assert.deepEqual(review(given), { decision: expected, counts: [] }));
  }
});

const ownedBy = (uid: string, name: string, controller: unknown = true): Pod => ({
  ...plainPod(name),
  metadata: {
    name,
    ownerReferences: [{ uid, controller, apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r' }],
  } as Pod['metadata'] & object,
});

interface LimitCase {
  readonly name: string;
  readonly pods: readonly Pod[];
  readonly maxPods?: number;
  readonly timeoutMs?: number;
  readonly deadlineMs?: number;
  /** How long each evaluation takes. */
  readonly stepMs?: number;
  readonly checked: number;
  /** Who is named in the warning. */
  readonly found: string;
}

const four = ['a', 'b', 'c', 'd'].map(plainPod);

const LIMITS: readonly LimitCase[] = [
  {
    name: 'siblings of one controller come last',
    pods: [ownedBy('1', 'r2'), ownedBy('1', 'r1'), plainPod('z')],
    maxPods: 2,
    checked: 2,
    found: 'r2 (and 1 other pod)',
  },
  {
    name: 'an owner that is no controller does not make siblings',
    pods: [ownedBy('1', 'r2', false), ownedBy('1', 'r1', null), plainPod('z')],
    maxPods: 2,
    checked: 2,
    found: 'r1 (and 1 other pod)',
  },
  {
    name: 'time is up after the second pod, which counts',
    pods: four,
    timeoutMs: 150,
    stepMs: 100,
    checked: 2,
    found: 'a (and 1 other pod)',
  },
  {
    name: 'time is up with the last pod',
    pods: four,
    timeoutMs: 400,
    stepMs: 100,
    checked: 4,
    found: 'a (and 3 other pods)',
  },
  {
    name: 'half of the time that the requester waits',
    pods: four,
    deadlineMs: 400,
    stepMs: 100,
    checked: 2,
    found: 'a (and 1 other pod)',
  },
  { name: 'a deadline in the past', pods: four, deadlineMs: -1, stepMs: 1, checked: 1, found: 'a' },
];

for (const { name, pods: existing, checked, found, stepMs = 0, deadlineMs, ...limits } of LIMITS) {
  test(`limits: ${name}`, () => {
    let calls = 0;
    const { decision } = review({
      request: update({}, { enforce: 'restricted' }),
      pods: () => existing,
      limits,
      // Read once at the start, then after each pod.
      now: () => calls++ * stepMs,
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    });
    const cut = `new PodSecurity enforce level only checked against the first ${checked} of ${existing.length} existing pods`;
    assert.deepEqual(decision.warnings, [
      ...(checked < existing.length ? [cut] : []),
      violated('restricted:latest'),
      `${found}: ${PLAIN_REASONS}`,
    ]);
  });
}

test('an absent API group is the core group', () => {
  const request = (resource: string, given: object) =>
    ({ ...given, resource: { version: 'v1', resource } }) as AdmissionRequest;
  assert.deepEqual(
    review({ request: request('namespaces', create({ enforce: 'x' })) }).decision,
    invalidLabel('enforce', 'x'),
  );
  const pod = request('pods', podRequest(hostNetworkPod()));
  assert.equal(review({ labels: { enforce: 'baseline' }, request: pod }).decision.allowed, false);
});
