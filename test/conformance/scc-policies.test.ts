/** The recorded decisions of the validating pass, and those of the generated policies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../src/kube/scc.ts';
import { validateScc, type SccInput } from '../../src/policy/scc/index.ts';
import { podAnnotation } from '../../src/policy/scc/request.ts';
import { readLines, skip } from '../support/conformance/cases.ts';
import { canUseBy, type Grant } from '../support/scc.ts';
import { createSccPolicies } from '../support/scc-policies.ts';

interface RecordedRequest extends Omit<SccInput, 'canUse' | 'sccs'> {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly grants: readonly Grant[];
  readonly expect: {
    readonly mutate?: { readonly object?: unknown };
    readonly validate?: { readonly allowed: boolean };
  };
}

const review = createSccPolicies({ scc: { mode: 'enforce', exemptNamespaces: [], compatibility: 'openshift' } });

test('the policies and the recorded decisions', { skip }, () => {
  const counts: Record<string, number> = {};
  for (const file of ['scc-admission-random', 'scc-second-pass-random']) {
    for (const request of readLines<RecordedRequest>(`random/${file}.ndjson.gz`)) {
      const { validate, mutate } = request.expect;
      if (validate === undefined) continue;
      const input = { ...request, object: mutate?.object ?? request.object, canUse: canUseBy(request.grants) };
      const name = podAnnotation(input.object, POD_SCC_ANNOTATIONS.scc);
      const sccs = input.sccs.filter(({ metadata }) => metadata?.name === name);
      // Other SCCs that cannot be used cause the denial of each pod in OpenShift.
      const compatibility = { identity: 'openshift', unprocessedPods: 'evaluate' } as const;
      const fits = validateScc({ ...input, sccs, compatibility }).allowed;
      const [denial] = review(input);
      const scc = name === '' ? 'no SCC is named' : fits ? 'the named SCC fits' : 'the named SCC does not fit';
      const result = `${validate.allowed ? 'allowed' : 'denied'}, ${scc}: ${denial === undefined ? 'admitted' : 'denied'}`;
      counts[result] = (counts[result] ?? 0) + 1;
    }
  }
  assert.deepEqual(counts, {
    'allowed, the named SCC fits: admitted': 723,
    'denied, the named SCC does not fit: denied': 198,
    // Stricter than OpenShift: another SCC than the named one fits.
    'allowed, the named SCC does not fit: denied': 67,
    // Pods for Windows, and updates that are not evaluated.
    'allowed, no SCC is named: admitted': 237,
    // The fallback level decides.
    'allowed, no SCC is named: denied': 9,
    'denied, no SCC is named: denied': 11,
    'denied, no SCC is named: admitted': 3,
  });
});
