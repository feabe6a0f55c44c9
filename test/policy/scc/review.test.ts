/**
 * Tests the review APIs, which return the SCC that admits a pod for a subject. The cases are in
 * `test/fixtures/scc-cases/reviews.yaml`.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { answerReview, type ReviewInput } from '../../../src/policy/scc/review.ts';
import { accessBy, laxScc } from '../../support/scc.ts';
import {
  ALICE,
  createRequest,
  DEMO_NAMESPACE,
  readCases,
  type RequestFixture,
  STANDARD,
  STANDARD_GRANTS,
} from './requests.ts';

interface Given extends Partial<ReviewInput> {
  readonly kind: string;
  readonly template?: { readonly spec?: JsonObject; readonly metadata?: JsonObject } | undefined;
  readonly spec?: JsonObject;
  readonly metadata?: JsonObject;
}

function answer({ kind, template, spec, metadata, ...rest }: Given) {
  const pod = template && {
    metadata: template.metadata ?? {},
    spec: { containers: [{ name: 'app', image: 'app:1' }], ...template.spec },
  };
  return answerReview({
    review: { kind, spec: { ...spec, ...(pod && { template: pod }) }, ...(metadata && { metadata }) },
    namespace: DEMO_NAMESPACE,
    sccs: STANDARD,
    userInfo: ALICE,
    access: accessBy([STANDARD_GRANTS]),
    hasServiceAccount: (name) => name === 'default' || name === 'builder',
    ...rest,
  });
}

type ReviewCase = Pick<Given, 'kind' | 'template' | 'spec' | 'metadata'> &
  Pick<RequestFixture, 'sccs' | 'usable' | 'compatibility'> & { readonly name: string };

function answerCase({ sccs, usable, compatibility, ...given }: ReviewCase) {
  const input = createRequest({ ...(sccs && { sccs }), ...(usable && { usable }) });
  return answer({ ...given, sccs: input.sccs, access: input.access, compatibility });
}

interface ReviewCases {
  readonly denied: readonly (ReviewCase & { readonly code: number; readonly message: string })[];
  readonly answered: readonly (ReviewCase & { readonly status: JsonObject; readonly warnings?: readonly string[] })[];
}

const { denied, answered } = readCases<ReviewCases>('reviews.yaml');

describe('a review that has no answer is an error:', () => {
  for (const { code, message, ...given } of denied) {
    test(given.name, () => {
      const result = answerCase(given);
      assert.ok('error' in result);
      assert.deepEqual([result.error.code, result.error.message], [code, message]);
    });
  }
});

describe('a valid review gets a status:', () => {
  for (const { status, warnings = [], ...given } of answered) {
    test(given.name, () => assert.deepEqual(answerCase(given), { status, warnings }));
  }

  test('the reference to an SCC in a status contains its UID and resource version', () => {
    const identity = { name: 'lax', uid: 'u1', resourceVersion: '7' };
    const sccs = [{ ...laxScc({}), metadata: identity }];
    const expected = { kind: 'SecurityContextConstraints', apiVersion: 'security.openshift.io/v1', ...identity };
    const result = answer({
      kind: 'PodSecurityPolicySelfSubjectReview',
      template: {},
      sccs,
      access: { canUse: () => true },
    });
    assert.deepEqual(result, { status: { allowedBy: expected }, warnings: [] });
  });

  test('in OpenShift compatibility mode, reviewed service accounts lack system:authenticated, and the required SCC is the only candidate', () => {
    const required = { metadata: { annotations: { 'openshift.io/required-scc': 'nope' } } };
    const given = { kind: 'PodSecurityPolicyReview', spec: { serviceAccountNames: ['default'] } };
    const allowed = (result: ReturnType<typeof answer>): unknown =>
      'status' in result && result.status['allowedServiceAccounts'];
    const admitted = (scc: string) => [
      {
        name: 'default',
        allowedBy: { kind: 'SecurityContextConstraints', name: scc, apiVersion: 'security.openshift.io/v1' },
      },
    ];
    assert.deepEqual(allowed(answer({ ...given, template: {}, compatibility: 'openshift' })), []);
    assert.deepEqual(allowed(answer({ ...given, template: {} })), admitted('restricted-v2'));
    const access = accessBy([{ group: 'system:serviceaccounts', sccs: ['anyuid'] }]);
    assert.deepEqual(
      allowed(answer({ ...given, template: {}, compatibility: 'openshift', access })),
      admitted('anyuid'),
    );
    assert.deepEqual(allowed(answer({ ...given, template: required, compatibility: 'openshift', access })), []);
  });
});
