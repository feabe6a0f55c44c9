import { PART_OF, PART_OF_LABEL } from '../../../kube/installation.ts';
import { apiVersionOf } from '../../../kube/resources.ts';
import type { Report, ReportResult } from '../../../kube/report.ts';
import type { FixableViolation, NamespaceEvaluation, ViolatingWorkload } from './types.ts';

/** The report of a namespace is called like that. */
export const REPORT_NAME = 'portcullis-pod-security';

/** So many results are in a report at most, each with a message of so many characters. */
const MAX_RESULTS = 200;
const MAX_MESSAGE = 1024;

/** Everything that enforcement would refuse in a namespace, in one report; what is too much is counted only. */
export function reportOf(evaluation: NamespaceEvaluation, { seconds }: { readonly seconds: number }): Report {
  const { name: namespace, workloads } = evaluation;
  const results = workloads.flatMap((workload) =>
    workload.violations.map((violation): ReportResult => resultOf(violation, workload, evaluation, seconds)),
  );
  return {
    apiVersion: apiVersionOf('Report'),
    kind: 'Report',
    metadata: { name: REPORT_NAME, namespace, labels: { [PART_OF_LABEL]: PART_OF } },
    source: PART_OF,
    scope: { apiVersion: 'v1', kind: 'Namespace', name: namespace },
    summary: { pass: 0, fail: results.length, warn: 0, error: 0, skip: 0 },
    results: results.slice(0, MAX_RESULTS),
  };
}

function resultOf(
  { check, reason, detail, fields, fix }: FixableViolation,
  { kind, name, pods, causes }: ViolatingWorkload,
  { name: namespace, level }: NamespaceEvaluation,
  seconds: number,
): ReportResult {
  const text = `${reason}${detail === '' ? '' : ` (${detail})`}. ${fix}`;
  return {
    policy: `pod-security-${level}`,
    rule: check,
    category: 'Pod Security Standards',
    severity: level === 'baseline' ? 'high' : 'medium',
    result: 'fail',
    scored: true,
    message: text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text,
    timestamp: { seconds, nanos: 0 },
    resources: [{ kind, namespace, name }],
    properties: {
      pods: String(pods),
      causes: causes.join(', '),
      ...(fields.length === 0 ? {} : { fields: fields.slice(0, 20).join(', ') }),
    },
  };
}
