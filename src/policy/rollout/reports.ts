/** Builds reports of evaluation results in the openreports.io and wgpolicyk8s.io formats. */
import { PART_OF, PART_OF_LABEL } from '../../api/names.ts';
import { defined } from '../../kube/defined.ts';
import type { Kind } from '../../kube/kinds.ts';
import { typeMeta } from '../../kube/resources.ts';
import { printCount, truncate } from '../../kube/text.ts';
import type { ObjectMeta, Report, ReportResult, ReportSubject } from '../../kube/types.ts';
import { isStricter, printEvaluatedAs, printLevel } from '../psa/index.ts';
import { checkControls, isBaselineCheck, type Level, type Policy } from '../pss/index.ts';
import type { ExceptedWorkload, FixableViolation, NamespaceEvaluation, ViolatingWorkload } from './evaluation.ts';

/** Name of the cluster report, and of the report in each evaluated namespace. */
export const REPORT_NAME = 'portcullis-pod-security';

/** Report kinds by API group. */
export const REPORT_APIS = [
  { group: 'openreports.io', namespaced: 'Report', cluster: 'ClusterReport' },
  { group: 'wgpolicyk8s.io', namespaced: 'PolicyReport', cluster: 'ClusterPolicyReport' },
] as const satisfies readonly { readonly group: string; readonly namespaced: Kind; readonly cluster: Kind }[];

export type ReportApi = (typeof REPORT_APIS)[number];

/** Maximum number of results in a report, and maximum size of the results in bytes. Failures are retained first. */
const MAX_RESULTS = 200;
const MAX_CLUSTER_RESULTS = 500;
const MAX_BYTES = 256 * 1024;
const MAX_MESSAGE = 1024;
const MAX_FIELDS = 20;

const NO_CHECKS = 'The privileged level has no checks.';

/** Reference to the object that owns a report. Kubernetes garbage-collects the report when its owner is deleted. */
export type ReportOwner = NonNullable<ObjectMeta['ownerReferences']>[number];

/** A workload in a namespace, or a pod that belongs to no workload. */
export interface ReportedWorkload {
  readonly subject: ReportSubject;
  /** The runtime class of its pods if the class is exempt. */
  readonly exemptRuntimeClass?: string | undefined;
}

interface ReportInput {
  readonly api: ReportApi;
  readonly owner: ReportOwner | undefined;
  /** Time of the evaluation in seconds since the epoch. */
  readonly seconds: number;
}

interface NamespaceReportInput extends ReportInput {
  readonly namespace: ReportSubject;
  /** All workloads in the namespace. */
  readonly workloads: readonly ReportedWorkload[];
}

/**
 * Builds the report for a namespace. It contains a `fail` result for each violation, a `warn` result for each workload
 * to restart, a `skip` result for each violation that exceptions allow, and a `pass` or `skip` result for each other
 * workload. Yields after each workload.
 */
export function* buildReport(
  evaluation: NamespaceEvaluation,
  input: NamespaceReportInput,
): Generator<undefined, Report> {
  const { api, namespace, workloads } = input;
  const results = createResults(MAX_RESULTS);
  const subjects = new Map<string, ReportSubject>();
  for (const { subject } of workloads) {
    subjects.set(`${subject.kind}/${subject.name}`, subject);
    yield;
  }
  const reported = new Set<ReportSubject>();
  const findSubject = ({ kind, name }: Pick<ReportSubject, 'kind' | 'name'>): ReportSubject => {
    const subject = subjects.get(`${kind}/${name}`) ?? { kind, namespace: evaluation.name, name };
    reported.add(subject);
    return subject;
  };
  for (const workload of evaluation.workloads) {
    const base = baseResult(workload.level, findSubject(workload), input);
    if (workload.verdict === 'restart') results.add(restartResult(workload, base));
    else for (const violation of workload.violations) results.add(failure(violation, workload, base));
    yield;
  }
  for (const workload of evaluation.excepted) {
    const base = baseResult(workload.level, findSubject(workload), input);
    for (const violation of workload.violations) results.add(exceptedResult(violation, workload, base));
    yield;
  }
  for (const workload of workloads) {
    if (!reported.has(workload.subject)) results.add(otherResult(workload, evaluation, input));
    yield;
  }
  return {
    ...typeMeta(api.namespaced),
    metadata: metadata(input.owner, evaluation.name),
    scope: namespace,
    ...results.content(api),
  };
}

/** Builds the report for the cluster, with one result for each evaluated namespace. Yields after each namespace. */
export function* buildClusterReport(
  evaluations: readonly NamespaceEvaluation[],
  input: ReportInput & { namespaceSubject(name: string): ReportSubject },
): Generator<undefined, Report> {
  const results = createResults(MAX_CLUSTER_RESULTS);
  for (const evaluation of evaluations) {
    results.add(namespaceResult(evaluation, input));
    yield;
  }
  return { ...typeMeta(input.api.cluster), metadata: metadata(input.owner), ...results.content(input.api) };
}

function metadata(owner: ReportOwner | undefined, namespace?: string): ObjectMeta {
  return {
    name: REPORT_NAME,
    ...defined({ namespace }),
    labels: { [PART_OF_LABEL]: PART_OF },
    ...(owner ? { ownerReferences: [owner] } : {}),
  };
}

/** Order of results in a report. Failures come first, because the number of results is limited. */
const RESULT_ORDER = ['fail', 'error', 'warn', 'skip', 'pass'] as const;

/**
 * Collects the results of a report. The summary counts all results, but the report lists only the results within the
 * limits.
 */
function createResults(maxResults: number) {
  const summary = { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
  const first = new Map<ReportResult['result'], ReportResult[]>();
  return {
    add(result: ReportResult): void {
      const same = first.get(result.result) ?? [];
      first.set(result.result, same);
      if (same.length < maxResults) same.push(result);
      summary[result.result]++;
    },
    content(api: ReportApi) {
      const sorted = RESULT_ORDER.flatMap((result) => first.get(result) ?? []);
      let bytes = 0;
      const results = sorted.slice(0, maxResults).filter((result) => {
        const size = Buffer.byteLength(JSON.stringify(result));
        const fits = bytes + size <= MAX_BYTES;
        if (fits) bytes += size;
        return fits;
      });
      return { ...(api.namespaced === 'Report' ? { source: PART_OF } : {}), summary, results };
    },
  };
}

type BaseResult = ReturnType<typeof baseResult>;

function baseResult(level: Level, subject: ReportSubject, { seconds }: ReportInput) {
  return {
    source: PART_OF,
    policy: `pod-security-${level}`,
    category: 'Pod Security Standards',
    timestamp: { seconds, nanos: 0 },
    resources: [subject],
  };
}

function failure(violation: FixableViolation, workload: ViolatingWorkload, base: BaseResult): ReportResult {
  return {
    ...base,
    rule: violation.check,
    severity: isBaselineCheck(violation.check) ? 'high' : 'medium',
    result: 'fail',
    scored: true,
    message: truncate(`${printViolation(violation)}. ${violation.fix}`, MAX_MESSAGE - 1),
    properties: { ...workloadProperties(workload), ...checkControls(violation.check), ...fieldProperties(violation) },
  };
}

function exceptedResult(violation: FixableViolation, { exceptions }: ExceptedWorkload, base: BaseResult): ReportResult {
  return {
    ...base,
    rule: violation.check,
    severity: 'info',
    result: 'skip',
    scored: false,
    message: truncate(`${printViolation(violation)}, ${printExceptions(exceptions)}.`, MAX_MESSAGE - 1),
    properties: {
      exception: exceptions.map(({ name }) => name).join(', '),
      expiresAt: exceptions.map(({ expiresAt }) => expiresAt).join(', '),
      ...checkControls(violation.check),
      ...fieldProperties(violation),
    },
  };
}

/** Formats exceptions, such as `allowed by the PodSecurityException gateway until 2027-01-15T00:00:00Z`. */
export function printExceptions(exceptions: ExceptedWorkload['exceptions']): string {
  const names = exceptions.map(({ name, expiresAt }) => `${name} until ${expiresAt}`).join(' and ');
  return `allowed by the PodSecurityException${exceptions.length === 1 ? '' : 's'} ${names}`;
}

function printViolation({ reason, detail }: FixableViolation): string {
  return detail === '' ? reason : `${reason} (${detail})`;
}

function fieldProperties({ fields }: FixableViolation): Readonly<Record<string, string>> {
  return fields.length === 0 ? {} : { fields: fields.slice(0, MAX_FIELDS).join(', ') };
}

function workloadProperties({ verdict, version, pods, causes }: ViolatingWorkload) {
  const pinned = version === 'latest' ? {} : { version };
  return { verdict, ...pinned, pods: String(pods), causes: causes.join(', ') };
}

/** Formats a level. If its version is not known, adds the version that is evaluated. */
function describeLevel(policy: Policy): string {
  return `${printLevel(policy)}${printEvaluatedAs(policy)}`;
}

function restartResult(workload: ViolatingWorkload, base: BaseResult): ReportResult {
  return {
    ...base,
    rule: 'restart',
    severity: 'low',
    result: 'warn',
    scored: true,
    message: `The running pods violate the ${describeLevel(workload)} level, but new pods satisfy it. Restart the workload.`,
    properties: workloadProperties(workload),
  };
}

/** Returns the stricter of the current policy and the planned policy. */
function evaluatedPolicy({ current, currentVersion, level, version }: NamespaceEvaluation): Policy {
  return isStricter(current, level) ? { level: current, version: currentVersion } : { level, version };
}

/**
 * Returns the result for a workload that has no violations. Exempt workloads and workloads in privileged namespaces are
 * not evaluated.
 */
function otherResult(
  { subject, exemptRuntimeClass }: ReportedWorkload,
  evaluation: NamespaceEvaluation,
  input: ReportInput,
): ReportResult {
  const policy = evaluatedPolicy(evaluation);
  const { level } = policy;
  const exemption = exemptRuntimeClass && `Runtime class ${exemptRuntimeClass} is exempt.`;
  const skipped = level === 'privileged' ? NO_CHECKS : exemption;
  return {
    ...baseResult(level, subject, input),
    rule: level,
    severity: 'info',
    ...(skipped === undefined
      ? { result: 'pass', scored: true, message: `The workload satisfies the ${describeLevel(policy)} level.` }
      : { result: 'skip', scored: false, message: skipped }),
  };
}

function namespaceResult(
  evaluation: NamespaceEvaluation,
  input: ReportInput & { namespaceSubject(name: string): ReportSubject },
): ReportResult {
  const { name, workloads, categories, verdict } = evaluation;
  const outcome = namespaceOutcome(evaluation);
  return {
    ...baseResult(evaluatedPolicy(evaluation).level, input.namespaceSubject(name), input),
    rule: 'namespace',
    scored: outcome.result !== 'skip',
    ...outcome,
    ...(workloads.length > 0
      ? {
          properties: {
            verdict,
            workloads: String(workloads.length),
            ...(categories.length === 0 ? {} : { categories: categories.join(', ') }),
          },
        }
      : {}),
  };
}

function namespaceOutcome(evaluation: NamespaceEvaluation): Pick<ReportResult, 'result' | 'severity' | 'message'> {
  const { verdict, workloads, excepted, error = '' } = evaluation;
  const policy = evaluatedPolicy(evaluation);
  const level = describeLevel(policy);
  if (verdict === 'inconclusive') {
    return { result: 'error', severity: 'medium', message: truncate(error, MAX_MESSAGE - 1) };
  }
  const denied = workloads.filter((workload) => workload.verdict !== 'restart');
  const now = denied.filter((workload) => workload.verdict === 'deniedNow').length;
  const restarts = workloads.length - denied.length;
  const failures = denied.length === 1 ? '1 workload violates' : `${denied.length} workloads violate`;
  const restart = restarts === 0 ? [] : [`The running pods of ${printCount(restarts, 'workload')} need a restart.`];
  if (denied.length > 0) {
    const isHigh = denied.some(({ violations }) => violations.some(({ check }) => isBaselineCheck(check)));
    const inForce =
      now === 0
        ? ''
        : now === denied.length
          ? ', which is in force'
          : `, and ${now} of them ${now === 1 ? 'is' : 'are'} denied now`;
    const message = [`${failures} the ${level} level${inForce}.`, ...restart].join(' ');
    return { result: 'fail', severity: isHigh ? 'high' : 'medium', message };
  }
  if (restarts > 0) return { result: 'warn', severity: 'low', message: restart.join(' ') };
  if (policy.level === 'privileged') return { result: 'skip', severity: 'info', message: NO_CHECKS };
  const allowed = excepted.length === 0 ? '' : `, except for ${excepted.length} that exceptions allow`;
  return { result: 'pass', severity: 'info', message: `All workloads satisfy the ${level} level${allowed}.` };
}
