/**
 * Tests limits and formats of reports. test/controllers/readiness.test.ts validates reports against the published
 * schemas.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { finishSteps } from '../../../src/kube/steps.ts';
import type { Report } from '../../../src/kube/types.ts';
import type {
  ExceptedWorkload,
  NamespaceEvaluation,
  ViolatingWorkload,
} from '../../../src/policy/rollout/evaluation.ts';
import {
  buildClusterReport,
  buildReport,
  REPORT_APIS,
  type ReportedWorkload,
} from '../../../src/policy/rollout/reports.ts';

const [OPENREPORTS, WGPOLICY] = REPORT_APIS;
const COMMON = { api: OPENREPORTS, owner: undefined, seconds: 1 };
const NAMESPACE = { apiVersion: 'v1', kind: 'Namespace', name: 'ns' };
const CLEAN: NamespaceEvaluation = {
  ...{ name: 'ns', current: 'privileged', currentVersion: 'latest', level: 'baseline', version: 'latest' },
  isSelected: true,
  ...{ verdict: 'clean', categories: [], workloads: [], excepted: [] },
};

const violating = (count: number, detail = ''): NamespaceEvaluation => {
  const violation = {
    check: 'hostPorts',
    reason: 'hostPort',
    detail,
    fields: Array<string>(30).fill('a'),
    fix: 'Fix.',
  };
  const workload = (_: unknown, index: number): ViolatingWorkload => ({
    ...{ kind: 'Pod', name: `p${index}`, verdict: 'wouldBeDenied', level: 'baseline', version: 'latest' },
    ...{ pods: 1, causes: ['serviceAccount'], violations: [violation] },
  });
  return {
    ...CLEAN,
    verdict: 'violating',
    categories: ['unknown'],
    workloads: Array.from({ length: count }, workload),
  };
};

const EXCEPTED: ExceptedWorkload = {
  ...{ kind: 'Deployment', name: 'd0', level: 'baseline', version: 'latest' },
  exceptions: [{ name: 'gateway', expiresAt: '2027-01-15T00:00:00Z' }],
  violations: [
    { check: 'hostPorts', reason: 'hostPort', detail: 'container "app" uses hostPort 80', fields: ['a'], fix: 'Fix.' },
  ],
};

const passed = (count: number): readonly ReportedWorkload[] =>
  Array.from({ length: count }, (_, index) => ({
    subject: { kind: 'Deployment', namespace: 'ns', name: `d${index}` },
  }));

interface Case {
  readonly name: string;
  readonly report: () => Report;
  readonly summary: Partial<Report['summary']>;
  /** The number of results by value, in the order of the results. */
  readonly results: string;
}

const namespaced = (evaluation: NamespaceEvaluation, workloads: readonly ReportedWorkload[] = []) =>
  finishSteps(buildReport(evaluation, { ...COMMON, namespace: NAMESPACE, workloads }));
const cluster = (...evaluations: readonly NamespaceEvaluation[]) =>
  finishSteps(buildClusterReport(evaluations, { ...COMMON, namespaceSubject: (name) => ({ ...NAMESPACE, name }) }));

const CASES: readonly Case[] = [
  { name: 'are empty for a namespace without workloads', report: () => namespaced(CLEAN), summary: {}, results: '' },
  { name: 'are empty for a cluster without namespaces', report: () => cluster(), summary: {}, results: '' },
  {
    name: 'list failures before passes, and at most 200 results',
    report: () => namespaced(violating(150), passed(100)),
    summary: { fail: 150, pass: 100 },
    results: '150 fail, 50 pass',
  },
  {
    name: 'have at most 256 KiB in total',
    report: () => namespaced(violating(200, 'ä'.repeat(2000))),
    summary: { fail: 200 },
    results: '105 fail',
  },
  {
    name: 'leave out a result that is larger than 256 KiB',
    report: () =>
      namespaced(violating(1), [{ subject: { ...NAMESPACE, apiVersion: 'x'.repeat(300_000) } }, ...passed(2)]),
    summary: { fail: 1, pass: 3 },
    results: '1 fail, 2 pass',
  },
  {
    name: 'have status skip for a workload that an exception allows, and fail for a denied workload',
    report: () => namespaced({ ...violating(1), excepted: [EXCEPTED] }, passed(2)),
    summary: { fail: 1, skip: 1, pass: 1 },
    results: '1 fail, 1 skip, 1 pass',
  },
  {
    name: 'have status skip for a privileged namespace',
    report: () => namespaced({ ...CLEAN, level: 'privileged' }, passed(1)),
    summary: { skip: 1 },
    results: '1 skip',
  },
  {
    name: 'list the namespaces of a cluster by decreasing severity',
    report: () =>
      cluster(
        CLEAN,
        { ...CLEAN, level: 'privileged' },
        { ...CLEAN, verdict: 'inconclusive', error: 'no ranges' },
        violating(2),
      ),
    summary: { pass: 1, skip: 1, error: 1, fail: 1 },
    results: '1 fail, 1 error, 1 skip, 1 pass',
  },
  {
    name: 'list at most 500 namespaces of a cluster',
    report: () => cluster(...Array.from({ length: 600 }, (_, index) => ({ ...CLEAN, name: `n${index}` }))),
    summary: { pass: 600 },
    results: '500 pass',
  },
];

suite('the results of a report', () => {
  for (const { name, report, summary, results } of CASES) {
    test(name, () => {
      const built = report();
      assert.deepEqual(built.summary, { pass: 0, fail: 0, warn: 0, error: 0, skip: 0, ...summary });
      const counts = [...Map.groupBy(built.results, ({ result }) => result)];
      assert.equal(counts.map(([result, all]) => `${all.length} ${result}`).join(', '), results);
      assert.ok(JSON.stringify(built.results).length <= 256 * 1024 + 500);
    });
  }

  test('have messages and fields that are truncated', () => {
    const [result] = namespaced(violating(1, 'x'.repeat(2000))).results;
    assert.equal(result?.message.length, 1024);
    assert.equal(result.properties?.['fields'], Array(20).fill('a').join(', '));
  });

  test('have messages with the verdict of the namespace', () => {
    const error = { ...CLEAN, verdict: 'inconclusive', error: 'annotation x is missing' } as const;
    const allowed = { ...CLEAN, excepted: [EXCEPTED] };
    const { results } = cluster(violating(2), error, { ...CLEAN, level: 'privileged' }, CLEAN, allowed);
    assert.deepEqual(
      results.map(({ severity, scored, message }) => `${severity} ${scored} ${message}`),
      [
        'high true 2 workloads violate the baseline level.',
        'medium true annotation x is missing',
        'info false The privileged level has no checks.',
        'info true All workloads satisfy the baseline level.',
        'info true All workloads satisfy the baseline level, except for 1 that exceptions allow.',
      ],
    );
  });

  test('contain the violation, the exception and its expiry time for a skipped workload', () => {
    const [result] = namespaced({ ...CLEAN, excepted: [EXCEPTED] }, passed(1)).results;
    assert.deepEqual(
      [result?.rule, result?.scored, result?.message, result?.properties],
      [
        'hostPorts',
        false,
        'hostPort (container "app" uses hostPort 80), allowed by the PodSecurityException gateway until 2027-01-15T00:00:00Z.',
        { exception: 'gateway', expiresAt: '2027-01-15T00:00:00Z', cis: '5.2.12', nsa: 'no host ports', fields: 'a' },
      ],
    );
  });

  test('have a source in the wgpolicyk8s.io API, in which the report itself has none', () => {
    const report = finishSteps(
      buildReport(CLEAN, { ...COMMON, api: WGPOLICY, namespace: NAMESPACE, workloads: passed(1) }),
    );
    assert.deepEqual(
      [report.source, report.results[0]?.source, report.kind],
      [undefined, 'portcullis', 'PolicyReport'],
    );
  });
});
