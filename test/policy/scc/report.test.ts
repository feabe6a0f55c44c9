import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStatus } from '../../../src/kube/status.ts';
import { reportScc } from '../../../src/policy/scc/assign.ts';
import type { SccDecision } from '../../../src/policy/scc/request.ts';

const PREFIX = 'would be refused if security context constraints were enforced: ';

function refusal(message: string, rest: Partial<Pick<SccDecision, 'warnings' | 'auditAnnotations'>> = {}): SccDecision {
  return {
    allowed: false,
    status: createStatus(403, 'Forbidden', message),
    warnings: [],
    auditAnnotations: {},
    ...rest,
  };
}

suite('a refusal becomes a warning', () => {
  const many = Array.from({ length: 40 }, (_, index) => `e${index}`).join(',');
  const LONG = `unable to validate against any security context constraint: [${many},${many}]`;
  const ONE =
    'unable to validate against any security context constraint: provider v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]';
  const cases: readonly {
    readonly name: string;
    readonly refused: SccDecision;
    readonly warnings: readonly string[];
  }[] = [
    { name: 'short', refused: refusal('no SCC'), warnings: [`${PREFIX}no SCC`] },
    {
      name: 'few errors',
      refused: refusal('unable to validate against any security context constraint: [a, b]'),
      warnings: [`${PREFIX}unable to validate against any security context constraint: [a, b]`],
    },
    {
      name: 'errors that other warnings sum up',
      refused: refusal('unable to validate against any security context constraint: [a, b]', { warnings: ['do this'] }),
      warnings: [`${PREFIX}unable to validate against any security context constraint`, 'do this'],
    },
    {
      name: 'one error in which there is a list',
      refused: refusal(ONE, { warnings: ['do this'] }),
      warnings: [`${PREFIX}${ONE}`, 'do this'],
    },
    {
      name: 'one error that is too long, and that other warnings sum up',
      refused: refusal(ONE.replace('v2', 'x'.repeat(100)), { warnings: ['do this'] }),
      warnings: [`${PREFIX}unable to validate against any security context constraint`, 'do this'],
    },
    {
      name: 'too many errors: those of the first SCC that may be used',
      refused: refusal(LONG, {
        auditAnnotations: { 'too-restrictive-b': 'what b says', 'too-restrictive-a': 'what a says', denied: 'x' },
      }),
      warnings: [`${PREFIX}what b says`],
    },
    {
      name: 'too many errors, and no SCC may be used',
      refused: refusal(LONG, { auditAnnotations: { denied: 'x' } }),
      warnings: [`${(PREFIX + LONG).slice(0, 255)}…`],
    },
    {
      name: 'too long without errors',
      refused: refusal('x'.repeat(300)),
      warnings: [`${(PREFIX + 'x'.repeat(300)).slice(0, 255)}…`],
    },
  ];
  for (const { name, refused, warnings } of cases) {
    test(name, () => {
      const report = reportScc(refused);
      assert.equal(report.allowed, true);
      assert.deepEqual(report.warnings, warnings);
      assert.ok(report.warnings?.every((warning) => warning.length <= 256));
      assert.deepEqual(report.facts, {
        mode: 'report',
        verdict: 'deny',
        reason: refused.allowed ? '' : refused.status.message,
      });
      assert.deepEqual(report.auditAnnotations, { ...refused.auditAnnotations, mode: 'report' });
    });
  }
});

test('what is admitted stays as it is', () => {
  const facts = { scc: 'anyuid', subjectType: 'user' };
  const object = { kind: 'Pod' };
  assert.deepEqual(reportScc({ allowed: true, object, warnings: ['mind'], auditAnnotations: { denied: '' }, facts }), {
    allowed: true,
    warnings: ['mind'],
    auditAnnotations: { denied: '', mode: 'report' },
    facts: { ...facts, mode: 'report' },
  });
});
