import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  checks,
  checksAt,
  createEvaluator,
  evaluatePod,
  newestVersion,
  type Check,
  type Level,
  type Policy,
  type Revision,
  type Version,
} from '../../../src/policy/pss/index.ts';
import { parsePod } from './cases.ts';

const VIOLATING = parsePod(`
  spec:
    hostNetwork: true
    containers: [{ name: c, securityContext: { privileged: true } }]`);

describe('a pod that violates', () => {
  test('is told all reasons and details, in order', () => {
    assert.deepEqual(evaluatePod(VIOLATING, { level: 'baseline', version: 'latest' }), {
      allowed: false,
      violations: [
        { check: 'hostNamespaces', reason: 'host namespaces', detail: 'hostNetwork=true' },
        {
          check: 'privileged',
          reason: 'privileged',
          detail: 'container "c" must not set securityContext.privileged=true',
        },
      ],
      reason: 'host namespaces, privileged',
      detail:
        'host namespaces (hostNetwork=true), privileged (container "c" must not set securityContext.privileged=true)',
    });
  });

  test('is told the fields where they are asked for', () => {
    const { violations } = evaluatePod(VIOLATING, { level: 'baseline', version: 'latest', fields: true });
    assert.deepEqual(
      violations.map((violation) => violation.fields),
      [
        [{ type: 'FieldValueForbidden', path: 'spec.hostNetwork', value: true, detail: '' }],
        [
          {
            type: 'FieldValueForbidden',
            path: 'spec.containers[0].securityContext.privileged',
            value: true,
            detail: '',
          },
        ],
      ],
    );
  });

  test('passes at level privileged', () => {
    const allowed = { allowed: true, violations: [], reason: '', detail: '' };
    assert.deepEqual(evaluatePod(VIOLATING, { level: 'privileged', version: 'v1.0' }), allowed);
  });
});

describe('policies that no type lets in', () => {
  test('an unknown level is as strict as restricted', () => {
    const level = 'constructor' as Level;
    assert.deepEqual(
      evaluatePod(VIOLATING, { level, version: 'v1.0' }),
      evaluatePod(VIOLATING, { level: 'restricted', version: 'v1.0' }),
    );
  });

  for (const version of ['v1.05', '1.0', '', '__proto__']) {
    test(`${JSON.stringify(version)} as a version is latest`, () => {
      assert.deepEqual(
        evaluatePod(VIOLATING, { level: 'restricted', version: version as Version }),
        evaluatePod(VIOLATING, { level: 'restricted', version: 'latest' }),
      );
    });
  }
});

test('the newest version is that of the newest revision', () => {
  assert.equal(newestVersion, 'v1.37');
  assert.equal(createEvaluator([]).newestVersion, 'v1.0');
});

/** By the numbers of the checks in their registry, from 1 on. */
const SETS: readonly [from: Version, to: Version, baseline: string, restricted: string][] = [
  ['v1.0', 'v1.7', '1 2 3 4 5 7 8 9 10 11 12', '1 2 3 5 7 8 9 10 11 12 16 17'],
  ['v1.8', 'v1.18', '1 2 3 4 5 7 8 9 10 11 12', '1 2 3 5 7 8 9 10 11 12 13 16 17'],
  ['v1.19', 'v1.21', '1 2 3 4 5 7 8 9 10 11 12', '1 2 3 5 7 8 9 11 12 13 16 17 19'],
  ['v1.22', 'v1.22', '1 2 3 4 5 7 8 9 10 11 12', '1 3 5 7 8 9 11 12 13 14 16 17 19'],
  ['v1.23', 'v1.33', '1 2 3 4 5 7 8 9 10 11 12', '1 3 5 7 8 9 11 12 13 14 16 17 18 19'],
  ['v1.34', 'v1.34', '1 2 3 4 5 6 7 8 9 10 11 12', '1 3 5 6 7 8 9 11 12 13 14 16 17 18 19'],
  ['v1.35', 'v1.999', '1 2 3 4 5 6 7 8 9 10 11 12', '1 3 5 6 7 9 11 12 13 14 15 16 17 18 19'],
  ['latest', 'latest', '1 2 3 4 5 6 7 8 9 10 11 12', '1 3 5 6 7 9 11 12 13 14 15 16 17 18 19'],
];

describe('the checks that run', () => {
  for (const [from, to, baseline, restricted] of SETS) {
    for (const version of [from, to]) {
      test(`at ${version}`, () => {
        assert.equal(numbers({ level: 'privileged', version }), '');
        assert.equal(numbers({ level: 'baseline', version }), baseline);
        assert.equal(numbers({ level: 'restricted', version }), restricted);
      });
    }
  }

  function numbers(policy: Policy): string {
    const ids = checks.map(({ id }) => id);
    return checksAt(policy)
      .map(({ id }) => ids.indexOf(id) + 1)
      .join(' ');
  }
});

/** Which revision of the probe check, since v1.34, is in force. */
const EMULATIONS: readonly [version: Version, emulationVersion: Version, runs: boolean][] = [
  ['latest', 'v1.33', false],
  ['v1.34', 'v1.33', false],
  ['v1.999', 'v1.33', false],
  ['latest', 'v1.34', true],
  ['v1.33', 'v1.34', false],
  ['v1.34', 'v1.999', true],
  ['latest', 'latest', true],
];

describe('an emulated release', () => {
  for (const [version, emulationVersion, runs] of EMULATIONS) {
    test(`${emulationVersion} judges ${version} ${runs ? 'with' : 'without'} what v1.34 brought`, () => {
      const ids = checksAt({ level: 'baseline', version, emulationVersion }).map(({ id }) => id);
      assert.equal(ids.includes('hostProbesAndHostLifecycle'), runs);
    });
  }
});

describe('the evaluator', () => {
  test('calls a refusal without a reason by the name that upstream has for it', () => {
    const { evaluatePod: evaluate } = createEvaluator([check('a', 'baseline', [revision('v1.0', '')])]);
    assert.equal(evaluate({}, { level: 'baseline', version: 'latest' }).detail, 'unknown forbidden reason');
  });

  test('takes the checks in any order, and tells them by level and id', () => {
    const revisions = [revision('v1.0')];
    const { evaluatePod: evaluate } = createEvaluator([
      check('b', 'restricted', revisions),
      check('z', 'baseline', revisions),
      check('a', 'restricted', revisions),
      check('Y', 'baseline', revisions),
    ]);
    const { violations } = evaluate({}, { level: 'restricted', version: 'v1.0' });
    assert.deepEqual(
      violations.map((violation) => violation.check),
      ['Y', 'z', 'a', 'b'],
    );
  });
});

const BROKEN: readonly [name: string, registry: readonly Check[], expected: string][] = [
  [
    'a repeated id',
    [check('a', 'baseline', [revision('v1.0')]), check('a', 'restricted', [revision('v1.0')])],
    'invalid checks: check "a" is registered more than once',
  ],
  ['no versions', [check('a', 'baseline', [])], 'invalid checks: check "a" has no versions'],
  [
    'level privileged',
    [check('a', 'privileged' as 'baseline', [revision('v1.0')])],
    'invalid checks: check "a" has level "privileged": must be baseline or restricted',
  ],
  [
    'a start at latest',
    [check('a', 'baseline', [revision('latest')])],
    'invalid checks: check "a" has a revision since "latest": must be a version such as "v1.25"',
  ],
  [
    'a start that is no version',
    [check('a', 'baseline', [revision('v1.01')])],
    'invalid checks: check "a" has a revision since "v1.01": must be a version such as "v1.25"',
  ],
  [
    'the same start twice',
    [check('a', 'baseline', [revision('v1.5'), revision('v1.5')])],
    'invalid checks: check "a" has a revision since "v1.5" after one since "v1.5": versions must rise',
  ],
  [
    'falling starts, compared as numbers',
    [check('a', 'baseline', [revision('v1.10'), revision('v1.9')])],
    'invalid checks: check "a" has a revision since "v1.9" after one since "v1.10": versions must rise',
  ],
  [
    'a baseline check that overrides',
    [check('a', 'baseline', [revision('v1.0', 'r', ['b'])])],
    'invalid checks: check "a" overrides others: only restricted checks may',
  ],
  [
    'an override of a restricted check',
    [check('a', 'restricted', [revision('v1.0', 'r', ['b'])]), check('b', 'restricted', [revision('v1.0')])],
    'invalid checks: check "a" overrides "b", which is not a baseline check',
  ],
  [
    'several at once',
    [check('a', 'baseline', []), check('b', 'baseline', [])],
    'invalid checks: check "a" has no versions; check "b" has no versions',
  ],
];

describe('a list of checks that contradicts itself is refused', () => {
  for (const [name, registry, message] of BROKEN) {
    test(name, () => assert.throws(() => createEvaluator(registry), { message }));
  }

  test('an override of an absent check is none', () => {
    createEvaluator([check('a', 'restricted', [revision('v1.0', 'r', ['gone'])])]);
  });
});

function check(id: string, level: Check['level'], versions: readonly Revision[]): Check {
  return { id, level, versions };
}

function revision(since: Version, reason = 'r', overrides: readonly string[] = []): Revision {
  return { since, overrides, check: () => ({ reason, detail: '', fields: () => [] }) };
}
