/** The generated policies for SCCs decide as the validating pass for the SCC that a pod names. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { matchesLabelSelector } from '../../../src/kube/label-selector.ts';
import type { SecurityContextConstraints as Scc } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../../../src/kube/well-known.ts';
import { generateSccPolicies } from '../../../src/policy/psa/scc-policies.ts';
import { assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { sccMode, SCC_MODES } from '../../../src/policy/scc/mode.ts';
import { canUseBy, laxScc } from '../../support/scc.ts';
import { createSccPolicies } from '../../support/scc-policies.ts';
import { create, type ListedInput } from '../scc/arbitrary.ts';
import { DENIALS, FALLBACK_LEVELS, FORBIDDEN, listScenes, OLD, UPDATES } from './scc-policy-scenes.ts';
import { ALICE, naming, podWith, request, strategyInputs } from '../scc/requests.ts';

const review = createSccPolicies();

/** Compares the policies with the validating pass, for a pod that names an SCC. */
function compare(input: ListedInput, scc: Scc, name?: string): boolean {
  const object = naming(scc.metadata?.name ?? '', input.object as JsonObject);
  const named = { ...input, object, sccs: [scc] };
  const { allowed } = validateScc(named);
  const denials = review(named);
  assert.equal(denials.length === 0, allowed, `${name ?? JSON.stringify(object)}: ${denials.join()}`);
  return allowed;
}

test('pods at the borders of what an SCC allows', () => {
  const counts = { allowed: 0, denied: 0 };
  for (const { name, input, scc } of [...strategyInputs(), ...listScenes()])
    counts[compare(input, scc, name) ? 'allowed' : 'denied']++;
  assert.ok(counts.allowed > 50 && counts.denied > 50, JSON.stringify(counts));
});

const CAROL = { username: 'carol', groups: ['dev', 'system:authenticated'] };

test('arbitrary pods: what SCC admission admits passes, and what the named SCC does not allow is denied', () => {
  const counts = { admitted: 0, updated: 0, allowed: 0, denied: 0 };
  fc.assert(
    fc.property(create, fc.nat({ max: 999 }), fc.boolean(), (input, index, isUsable) => {
      const decision = assignScc(input);
      if (decision.allowed) {
        const oldObject = decision.object as JsonObject;
        assert.deepEqual(review({ ...input, object: oldObject }), []);
        counts.admitted++;
        const metadata = { ...(oldObject['metadata'] as JsonObject), labels: { a: 'b' } };
        const object = { ...oldObject, metadata };
        const update = { ...input, operation: 'UPDATE', oldObject, object, userInfo: CAROL } as const;
        const updated = assignScc(update);
        // The annotation names the SCC that admits the update.
        if (updated.allowed) {
          assert.deepEqual(review({ ...update, object: updated.object }), []);
          counts.updated++;
        }
      }
      const completed = input.sccs.map((scc) => ({ scc, ...assignScc({ ...input, sccs: [scc], canUse: () => true }) }));
      const fitting = completed.filter((one) => one.allowed);
      const list = fitting.length > 0 ? fitting : completed;
      const { scc, object = input.object } = list[index % list.length] as { scc: Scc; object?: unknown };
      counts[compare({ ...input, object, ...(isUsable && { canUse: () => true }) }, scc) ? 'allowed' : 'denied']++;
    }),
    { numRuns: 150, seed: 1 },
  );
  for (const [name, count] of Object.entries(counts)) assert.ok(count >= 20, `${name}: ${count}`);
});

const atBaseline = createSccPolicies({ fallbackLevel: 'baseline' });

describe('denials', () => {
  for (const [name, given, denial] of DENIALS) {
    test(name, () => {
      assert.deepEqual(atBaseline(request({ userInfo: ALICE, ...given })), denial === undefined ? [] : [denial]);
    });
  }
});

test('users and groups that are null grant nothing', () => {
  const scc: Scc = laxScc({ name: 'some', users: null, groups: null });
  const object = naming('some', podWith({}));
  const usable = request({ object, sccs: [scc], grants: [{ user: 'alice', sccs: ['some'] }], userInfo: ALICE });
  assert.deepEqual(review(usable), []);
  assert.deepEqual(review({ ...usable, canUse: canUseBy([]) }), [
    `${FORBIDDEN} "some": Forbidden: not usable by user or serviceaccount]`,
  ]);
});

test('the groups of service accounts include system:authenticated, except in OpenShift', () => {
  const sccs: readonly Scc[] = [laxScc({ name: 'some', groups: ['system:authenticated'] })];
  const userInfo = { username: 'system:anonymous', groups: ['system:unauthenticated'] };
  const input = request({ object: naming('some', podWith({})), sccs, userInfo, canUse: canUseBy([]) });
  assert.deepEqual(review(input), []);
  const scc = { mode: 'enforce', exemptNamespaces: [], compatibility: 'openshift' } as const;
  assert.equal(createSccPolicies({ scc })(input).length, 1);
});

describe('the level of pods that name no SCC is that of the namespace', () => {
  const plain = podWith({});
  const hostPod = podWith({ hostNetwork: true });
  for (const [labels, ...expected] of FALLBACK_LEVELS) {
    test(JSON.stringify(labels), () => {
      const namespace = { metadata: { name: 'demo', labels } };
      const allowed = [plain, hostPod].map((object) => atBaseline(request({ object, namespace })).length === 0);
      assert.deepEqual(allowed, expected);
    });
  }
});

describe('updates are evaluated as by the server', () => {
  for (const { name, change, subResource, named = false, unnamed = false } of UPDATES) {
    test(name, () => {
      const object = { ...OLD, ...change };
      const update = request({ operation: 'UPDATE', subResource, object, oldObject: OLD });
      assert.equal(atBaseline(update).length, Number(unnamed));
      const isAnnotated = { ...update, object: naming('privileged', object), oldObject: naming('privileged', OLD) };
      // The webhook does not receive updates of the status.
      assert.equal(name !== 'a status' && !validateScc(isAnnotated).allowed, named);
      assert.equal(atBaseline(isAnnotated).length, Number(named));
    });
  }
});

test('the policies apply to the namespaces in which SCCs are enforced', () => {
  const values: Readonly<Record<string, readonly (string | undefined)[]>> = {
    'portcullis.dev/scc': [undefined, ...SCC_MODES, 'Off'],
    'openshift.io/run-level': [undefined, '0', '1', '2'],
    'security.openshift.io/disable-securitycontextconstraints': [undefined, 'true', 'false'],
  };
  const combinations = Object.entries(values).reduce<Readonly<Record<string, string>>[]>(
    (all, [key, list]) =>
      all.flatMap((labels) => list.map((value) => (value === undefined ? labels : { ...labels, [key]: value }))),
    [{}],
  );
  const exemptNamespaces = ['kube-system'];
  for (const mode of SCC_MODES) {
    const policies = generateSccPolicies(
      { scc: { mode, exemptNamespaces, compatibility: {} }, fallbackLevel: 'restricted' },
      { sccNames: [], namespace: 'portcullis', kubernetesMinor: 37 },
    );
    assert.equal(policies.length, mode === 'off' ? 0 : 4);
    for (const { spec } of policies.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')) {
      const { namespaceSelector } = spec['matchConstraints'] as JsonObject;
      for (const labels of combinations) {
        for (const name of ['demo', 'kube-system', 'portcullis']) {
          const scope = { mode, exemptNamespaces: [...exemptNamespaces, 'portcullis'] };
          const { mode: expected } = sccMode({ metadata: { name, labels } }, scope);
          const all = { ...labels, [NAMESPACE_NAME_LABEL]: name };
          assert.equal(matchesLabelSelector(namespaceSelector, all), expected === 'enforce', JSON.stringify(all));
        }
      }
    }
  }
});

test('expressions are within the limits of the API server', () => {
  const sccNames = Array.from({ length: 500 }, (_, index) => `${'a'.repeat(50)}-${index}`);
  const settings = {
    scc: { mode: 'enforce', exemptNamespaces: [], compatibility: {} },
    fallbackLevel: 'restricted',
  } as const;
  for (const kubernetesMinor of [30, 37]) {
    const policies = generateSccPolicies(settings, { sccNames, namespace: 'portcullis', kubernetesMinor });
    for (const { metadata, spec } of policies) {
      const {
        variables = [],
        validations = [],
        matchConditions = [],
      } = spec as Readonly<Record<string, Record<string, string>[]>>;
      for (const { expression = '', messageExpression = '' } of [...variables, ...validations, ...matchConditions]) {
        // The parser of the API server reads 100,000 characters.
        assert.ok(expression.length < 50_000, `${metadata.name}: ${expression.length}`);
        assert.ok(messageExpression.length <= 5 * 1024);
        // Expressions of messages cannot use the authorizer.
        assert.ok(!/authorizer|isUsable/.test(messageExpression));
      }
      assert.ok(JSON.stringify(spec).length < 100_000);
      if (kubernetesMinor < 35) assert.ok(!/\.(?:flatten|distinct|sort)\(\)/.test(JSON.stringify(spec)));
    }
  }
});
