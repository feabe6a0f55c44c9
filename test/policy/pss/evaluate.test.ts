import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { PodLike } from '../../../src/kube/types.ts';
import {
  type Check,
  compareVersions,
  createEvaluator,
  evaluatePod,
  isLevel,
  type Level,
  LEVELS,
  parseVersion,
  type Revision,
  type Version,
} from '../../../src/policy/pss/library.ts';

const VIOLATING = {
  spec: { hostNetwork: true, containers: [{ name: 'c', securityContext: { privileged: true } }] },
} as PodLike;

describe('the evaluation of a pod with several violations', () => {
  test('returns all reasons and details in order', () => {
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

  test('contains the violating fields if they are requested', () => {
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

  test('passes at the privileged level', () => {
    const allowed = { allowed: true, violations: [], reason: '', detail: '' };
    assert.deepEqual(evaluatePod(VIOLATING, { level: 'privileged', version: 'v1.0' }), allowed);
  });
});

describe('policies with invalid values', () => {
  test('deny every pod if the level is unknown', () => {
    const { allowed, detail } = evaluatePod({ kind: 'Pod' }, { level: 'constructor' as Level, version: 'v1.0' });
    assert.equal(allowed, false);
    assert.equal(
      detail,
      'undecodable field (options.level: Unsupported value: "constructor": supported values: "privileged", "baseline", "restricted")',
    );
  });

  for (const version of ['v1.05', '1.0', '', '__proto__']) {
    test(`apply the latest version if the version is ${JSON.stringify(version)}`, () => {
      assert.deepEqual(
        evaluatePod(VIOLATING, { level: 'restricted', version: version as Version }),
        evaluatePod(VIOLATING, { level: 'restricted', version: 'latest' }),
      );
    });
  }
});

test('the newest version is that of the newest check revision', () => {
  assert.equal(createEvaluator([check('a', 'baseline', [revision('v1.3'), revision('v1.12')])]).newestVersion, 'v1.12');
  assert.equal(createEvaluator([]).newestVersion, 'v1.0');
});

describe('createEvaluator', () => {
  test('uses the upstream message if a check returns no reason', () => {
    const { evaluatePod: evaluate } = createEvaluator([check('a', 'baseline', [revision('v1.0', '')])]);
    assert.equal(evaluate({}, { level: 'baseline', version: 'latest' }).detail, 'unknown forbidden reason');
  });

  test('accepts checks in any order, and reports violations by level and ID', () => {
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

test('parseVersion accepts latest and v1 with a minor version of up to 64 bits', () => {
  for (const text of ['latest', 'v1.0', 'v1.30', 'v1.999', 'v1.9223372036854775807']) {
    assert.equal(parseVersion(text), text);
  }
  const tooLarge = ['v1.9223372036854775808', 'v1.10000000000000000000'];
  const malformed = ['', 'v1', 'v1.', 'v1.-1', 'v1.05', 'v1.00', 'v1.25.3', 'v1.25 ', 'v1.25\n', 'v1.٣'];
  for (const text of [...tooLarge, ...malformed, '1.25', 'v2.0', 'V1.25', 'Latest']) {
    assert.equal(parseVersion(text), undefined, text);
  }
});

const ASCENDING: readonly Version[] = [
  ...(['v1.0', 'v1.9', 'v1.10', 'v1.37', 'v1.9223372036854775806', 'v1.9223372036854775807'] as const),
  'latest',
];

test('versions are compared as numbers, and latest is the newest version', () => {
  ASCENDING.forEach((a, i) =>
    ASCENDING.forEach((b, j) => assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} and ${b}`)),
  );
});

test('versions are sorted by their minor number', () => {
  const version = fc.nat().map((minor): Version => `v1.${minor}`);
  fc.assert(
    fc.property(version, version, (a, b) => {
      const numbers = Number(a.slice(3)) - Number(b.slice(3));
      assert.equal(Math.sign(compareVersions(a, b)), Math.sign(numbers));
    }),
  );
});

test('isLevel accepts only the exact names of levels', () => {
  for (const value of LEVELS) assert.ok(isLevel(value));
  for (const value of ['Restricted', 'restricted ', '', 'constructor', undefined, null]) assert.ok(!isLevel(value));
});

function check(id: string, level: Check['level'], versions: readonly Revision[]) {
  return { id, level, versions };
}

function revision(since: Version, reason = 'r'): Revision {
  return {
    since,
    check: () => ({ reason, detail: '', fields: () => [] }),
    cel: () => ({ passes: 'false', text: '""' }),
  };
}
