/**
 * Each expression of the policies for SCCs, altered in one place, is detected by a pod. `PORTCULLIS_ALL_POLICY_CASES=1`
 * alters all places instead of a sample (`npm run test:policies`).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { generateSccPolicies } from '../../../src/policy/psa/scc-policies.ts';
import type { CelVariable } from '../../../src/policy/pss/cel-policy.ts';
import type { SccInput } from '../../../src/policy/scc/index.ts';
import { compileVariables } from '../../../src/dev-cluster/cel.ts';
import { celInput, findUsed, mutate } from '../../support/cel.ts';
import { policyRequest } from '../../support/scc-policies.ts';
import { laxScc } from '../../support/scc.ts';
import { create } from '../scc/arbitrary.ts';
import { naming, podWith, request, STANDARD, strategyInputs } from '../scc/requests.ts';
import { DENIALS, FALLBACK_LEVELS, listScenes, OLD, UPDATES } from './scc-policy-scenes.ts';

const ALL = process.env['PORTCULLIS_ALL_POLICY_CASES'] !== undefined;

/** A sample takes one of this number of mutations. */
const SAMPLE = 20;

interface Expressions {
  readonly variables: readonly CelVariable[];
  readonly matchConditions: readonly { readonly expression: string }[];
  readonly validations: readonly { readonly expression: string; readonly messageExpression: string }[];
}

/** All expressions of a policy as variables. */
function listExpressions({ variables, matchConditions, validations }: Expressions): readonly CelVariable[] {
  return [
    ...variables,
    ...matchConditions.map(({ expression }, index) => ({ name: `condition${index}`, expression })),
    ...validations.flatMap(({ expression, messageExpression }, index) => [
      { name: `validation${index}`, expression },
      { name: `message${index}`, expression: messageExpression },
    ]),
  ];
}

const [named, unnamed] = generateSccPolicies(
  { scc: { mode: 'enforce', exemptNamespaces: [], compatibility: {} }, fallbackLevel: 'baseline' },
  { sccNames: ['privileged', 'restricted-v2'], namespace: 'portcullis', kubernetesMinor: 37 },
)
  .filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
  .map(({ spec }) => listExpressions(spec as unknown as Expressions));

type Values = ReturnType<typeof celInput>;

/** The values of a request for the policy with an SCC as parameter. */
function createValues(input: Omit<SccInput, 'sccs'>, scc: SecurityContextConstraints): Values {
  const name = scc.metadata?.name ?? '';
  const object = naming(name, input.object as JsonObject);
  const old = input.oldObject === undefined ? {} : { oldObject: naming(name, input.oldObject as JsonObject) };
  return celInput(policyRequest({ ...input, object, ...old }), scc);
}

const [privileged = {}] = STANDARD.filter(({ metadata }) => metadata?.name === 'privileged');
const anonymous = { username: 'system:anonymous', groups: ['system:unauthenticated'] };
const ACCESS: readonly JsonObject[] = [
  { users: ['system:serviceaccount:demo:default'] },
  ...['', ':demo', ':other'].map((group) => ({ groups: [`system:serviceaccounts${group}`] })),
  { groups: ['system:authenticated'] },
  {},
];

/** The requests for the policy with parameters. Most mutants need few of them. */
const NAMED: readonly (() => Values)[] = [
  ...[...strategyInputs(), ...listScenes()].map(
    ({ input, scc }) =>
      () =>
        createValues(input, scc),
  ),
  ...DENIALS.flatMap(([, given]) => {
    const input = request(given);
    return input.sccs.map((scc) => () => celInput(policyRequest(input), scc));
  }),
  ...UPDATES.map(({ change }) => () => {
    const object = { ...OLD, ...change };
    return createValues(request({ operation: 'UPDATE', object, oldObject: OLD }), privileged);
  }),
  ...ACCESS.flatMap((scc) =>
    ['default', undefined].map((serviceAccountName) => () => {
      const input = request({ object: podWith({ serviceAccountName }), userInfo: anonymous, canUse: () => false });
      return createValues(input, laxScc(scc));
    }),
  ),
  ...fc
    .sample(create, { numRuns: 50, seed: 1 })
    .flatMap((input) => input.sccs.slice(-2).map((scc) => () => createValues(input, scc))),
];

const UNNAMED: readonly (() => Values)[] = [
  ...DENIALS.map(
    ([, given]) =>
      () =>
        celInput(policyRequest(request(given))),
  ),
  ...FALLBACK_LEVELS.flatMap(([labels]) =>
    [{}, { hostNetwork: true }].map((spec) => () => {
      const namespace = { metadata: { name: 'demo', labels } };
      return celInput(policyRequest(request({ object: podWith(spec), namespace })));
    }),
  ),
];

/** Mutants with the same meaning: of values that are compared with others only, and of lists with one item at most. */
const EQUIVALENT: readonly RegExp[] = [
  /orValue\("~"\) (?:==|!=) "[^"]/,
  /^\w+Blocks: .*orValue\("~"\)/,
  /^condition0: .*orValue\("~"\) (?:&&|in) /,
  /^(?:userType|seLinuxType|seLinuxLevelOfNamespace): .*orValue\("~"\)/,
  /level\.orValue\("~"\)/,
  /localhostProfile\.value\(\) : "~"\)/,
  /^uidBlocks: .*(?:texts|blocks)\.exists\(/,
  /: \[\]\)\.exists\(group,/,
  /configMap\.items\.exists\(/,
  /lists\[1\]\.all\(category,|size\(parts\[1\]\)/,
  // An invalid level means restricted.
  /"baseline", "restricted~"\]/,
  // Limits of lists that API servers do not accept.
  / <= 17 /,
  // More containers than the limit are too many items, too.
  /^isSmall: size\(variables\.containers\) <= 501 /,
];

interface Policy {
  readonly expressions: readonly CelVariable[] | undefined;
  readonly requests: readonly (() => Values)[];
  /** The expressions whose results are compared, if they depend on the mutant. Otherwise, the mutant itself is. */
  readonly results: readonly string[];
  isMutated(name: string): boolean;
}

/** The number of mutants, and those that no request detects. */
function mutateAll({ expressions = [], requests, results, isMutated }: Policy) {
  const evaluate = compileVariables(expressions);
  const scenes = requests.map((create) => {
    let values: Values | undefined;
    const known = new Map<string, unknown>();
    let run: ReturnType<typeof evaluate> | undefined;
    return {
      values: () => (values ??= create()),
      expected(name: string): unknown {
        if (!known.has(name)) known.set(name, (run ??= evaluate(this.values()))(`variables.${name}`));
        return known.get(name);
      },
    };
  });
  const isDetected = (mutant: CelVariable): boolean => {
    const dependent = results.filter((result) => findUsed(result, expressions).has(mutant.name));
    const names = dependent.length === 0 || results.includes(mutant.name) ? [mutant.name] : dependent;
    const altered = compileVariables(expressions.map((one) => (one.name === mutant.name ? mutant : one)));
    return scenes.some((scene) => {
      const run = altered(scene.values());
      return names.some((name) => !isDeepStrictEqual(run(`variables.${name}`), scene.expected(name)));
    });
  };
  const mutants = expressions.flatMap(({ name, expression }) =>
    isMutated(name) ? [...mutate(expression)].map((mutant) => ({ name, expression: mutant })) : [],
  );
  const survivors = mutants.filter((mutant, index) => {
    if (!ALL && index % SAMPLE > 0) return false;
    try {
      return !isDetected(mutant);
    } catch {
      return false;
    }
  });
  const texts = survivors.map(({ name, expression }) => `${name}: ${expression}`);
  return { count: mutants.length, survivors: texts.filter((text) => !EQUIVALENT.some((one) => one.test(text))) };
}

test('each altered expression of the policy with parameters is detected', () => {
  const rules = [
    ...findUsed(
      'allowed',
      (named ?? []).filter(({ name }) => name === 'allowed'),
    ),
  ].slice(1);
  const results = ['uidBlocks', 'groupBlocks', 'namespaceProblem', 'required', 'isUsable', ...rules];
  const { count, survivors } = mutateAll({ expressions: named, requests: NAMED, results, isMutated: () => true });
  assert.deepEqual(survivors, []);
  assert.ok(count > 700, String(count));
});

test('each altered expression of the policy without parameters is detected', () => {
  const own = /^(?:fallbackLabel|level|sccName|allowed|condition[01]|validation0|message0)$/;
  const isMutated = (name: string): boolean => own.test(name);
  const { count, survivors } = mutateAll({
    expressions: unnamed,
    requests: UNNAMED,
    results: ['allowed', 'message0'],
    isMutated,
  });
  assert.deepEqual(survivors, []);
  assert.ok(count > 20, String(count));
});
