import assert from 'node:assert/strict';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { isObject, type JsonObject, type Namespace } from '../../../src/kube/types.ts';
import { answerReview } from '../../../src/policy/scc/review.ts';
import { canUseBy } from '../scc.ts';
import { area, type Area } from './area.ts';

interface ReviewCase {
  readonly kind: string;
  readonly namespace: Namespace;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly spec: JsonObject;
  readonly requester?: { readonly name: string; readonly groups: readonly string[] };
  readonly serviceAccounts?: readonly string[];
}

interface ReviewExpect {
  readonly allowedBy?: string | null;
  readonly templateFilled?: boolean;
  readonly reason?: string;
  readonly allowedServiceAccounts?: readonly { readonly name: string; readonly allowedBy: string }[];
  readonly error?: string;
}

/** The review APIs; no case grants anything beyond the users and groups of the SCCs. */
export const REVIEW_AREAS: Readonly<Record<string, Area>> = {
  subjectReview: area('answerReview', (input: ReviewCase, expect: ReviewExpect) => {
    const answer = answerReview({
      review: { kind: input.kind, spec: input.spec },
      namespace: input.namespace,
      sccs: input.sccs,
      userInfo: { username: input.requester?.name ?? '', groups: input.requester?.groups ?? [] },
      hasServiceAccount: (name) => input.serviceAccounts?.includes(name) ?? false,
      canUse: canUseBy([]),
      compatibility: 'openshift',
    });
    if ('error' in answer) {
      assert.equal(answer.error.message, expect.error);
      return;
    }
    assert.equal(expect.error, undefined);
    const { allowedBy, template, reason, allowedServiceAccounts } = answer.status;
    if (expect.allowedBy !== undefined) assert.equal(nameIn(allowedBy), expect.allowedBy);
    if (expect.templateFilled !== undefined) assert.equal(template !== undefined, expect.templateFilled);
    if (expect.reason !== undefined) assert.equal(reason, expect.reason);
    if (expect.allowedServiceAccounts === undefined) return;
    assert.ok(Array.isArray(allowedServiceAccounts));
    assert.deepEqual(
      allowedServiceAccounts
        .filter(isObject)
        .map((one) => ({ name: one['name'], allowedBy: nameIn(one['allowedBy']) })),
      expect.allowedServiceAccounts,
    );
  }),
};

function nameIn(reference: unknown): unknown {
  return isObject(reference) ? reference['name'] : null;
}
