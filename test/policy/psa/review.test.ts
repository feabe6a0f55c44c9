/** Tests Pod Security Admission reviews of pods, workloads and namespaces. The cases are in `test/fixtures/psa`. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import type { AdmissionRequest, Decision } from '../../../src/kube/admission.ts';
import type { Pod } from '../../../src/kube/types.ts';
import type { PodSecurityReview } from '../../../src/policy/psa/decision.ts';
import {
  deploymentRequest,
  hostNetworkPod,
  type Labels,
  namespaceRequest,
  namespaceWith,
  PLAIN_REASONS,
  plainPod,
  podRequest,
  review,
  type ReviewFixture,
} from '../../support/pod-security.ts';

function readCases<Case>(file: string): readonly Case[] {
  const text = readFileSync(join(import.meta.dirname, '../../fixtures/psa', file), 'utf8');
  return (parse(text, { merge: true }) as { readonly cases: readonly Case[] }).cases;
}

interface ObjectCase extends Omit<ReviewFixture, 'request'> {
  readonly name: string;
  readonly request: { readonly object?: unknown } & Partial<AdmissionRequest>;
  readonly expected: PodSecurityReview;
}

for (const [file, createRequest] of [
  ['pods.yaml', podRequest],
  ['workloads.yaml', deploymentRequest],
] as const) {
  suite(`reviews decide as in ${file}:`, () => {
    for (const { name, request, expected, ...given } of readCases<ObjectCase>(file)) {
      test(name, () => {
        assert.deepEqual(review({ ...given, request: createRequest(request.object, request) }), expected);
      });
    }
  });
}

interface NamespaceCase extends Omit<ReviewFixture, 'request' | 'pods'> {
  readonly name: string;
  readonly before?: Labels;
  readonly after?: Labels;
  readonly request?: Partial<AdmissionRequest>;
  /** `undefined` if the review must not list the pods, and null if the list fails. */
  readonly pods?: readonly Pod[] | null;
  readonly expected: Decision;
}

const update = (before: Labels, after: Labels) =>
  namespaceRequest('UPDATE', namespaceWith(after), namespaceWith(before));

function namespaceCaseRequest({ before, after, request }: NamespaceCase): AdmissionRequest {
  const operation = before === undefined ? 'CREATE' : 'UPDATE';
  return namespaceRequest(operation, after && namespaceWith(after), before ? namespaceWith(before) : null, request);
}

suite('reviews decide as in namespaces.yaml:', () => {
  for (const given of readCases<NamespaceCase>('namespaces.yaml')) {
    const { name, pods, expected, defaults = {}, exemptions = {}, limits = {} } = given;
    test(name, () => {
      const listPods = () => (pods === undefined ? assert.fail('the review lists the pods') : (pods ?? undefined));
      const input = { defaults, exemptions, limits, pods: listPods, request: namespaceCaseRequest(given) };
      assert.deepEqual(review(input), { decision: expected, counts: [] });
    });
  }
});

interface LimitCase {
  readonly name: string;
  readonly pods: readonly Pod[];
  readonly maxPods?: number;
  readonly timeoutMs?: number;
  readonly deadlineMs?: number;
  /** The duration of each evaluation. */
  readonly stepMs?: number;
  readonly checked: number;
  /** The pods that the warning lists. */
  readonly found: string;
}

const four = ['a', 'b', 'c', 'd'].map(plainPod);

const LIMITS: readonly LimitCase[] = [
  {
    name: 'until the timeout, which passes during the last pod',
    pods: four,
    timeoutMs: 400,
    stepMs: 100,
    checked: 4,
    found: 'a (and 3 other pods)',
  },
  {
    name: 'until half the timeout of the request',
    pods: four,
    deadlineMs: 400,
    stepMs: 100,
    checked: 2,
    found: 'a (and 1 other pod)',
  },
  { name: 'to one pod if the deadline has passed', pods: four, deadlineMs: -1, stepMs: 1, checked: 1, found: 'a' },
];

for (const { name, pods: existing, checked, found, stepMs = 0, deadlineMs, ...limits } of LIMITS) {
  test(`the evaluation of the pods of a namespace is limited ${name}`, () => {
    let calls = 0;
    const { decision } = review({
      request: update({}, { enforce: 'restricted' }),
      pods: () => existing,
      limits,
      // The clock is read once at the start and after each pod.
      now: () => calls++ * stepMs,
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    });
    const cut = `new PodSecurity enforce level only checked against the first ${checked} of ${existing.length} existing pods`;
    assert.deepEqual(decision.warnings, [
      ...(checked < existing.length ? [cut] : []),
      'existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"',
      `${found}: ${PLAIN_REASONS}`,
    ]);
  });
}

test('an absent API group in a request means the core group', () => {
  const request = (resource: string, given: object) =>
    ({ ...given, resource: { version: 'v1', resource } }) as AdmissionRequest;
  const namespace = namespaceRequest('CREATE', namespaceWith({ enforce: 'x' }), null);
  const { decision } = review({ request: request('namespaces', namespace) });
  assert.equal(decision.allowed ? 0 : decision.status.code, 422);
  const pod = request('pods', podRequest(hostNetworkPod()));
  assert.equal(review({ labels: { enforce: 'baseline' }, request: pod }).decision.allowed, false);
});
