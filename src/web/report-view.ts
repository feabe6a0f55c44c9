/**
 * Determines the content of the report page from the filters in the URL, the order of fixes, and the CSV export. Does
 * not use the DOM.
 */
import { matchesLabelSelector, parseLabelSelector } from '../kube/label-selector.ts';
import { countNamespaces } from '../policy/rollout/index.ts';
import { orderChecks } from './check-order.ts';
import { formatCsv } from './csv.ts';
import { createFragment } from './fragment.ts';
import type { DeniedWorkload, DenyingLevel, ReportData, ReportNamespace, ReportWorkload } from './report-data.ts';

/** Fields of the filter, and the ID of the element to show. */
const FIELDS = ['namespace', 'label', 'verdict', 'check', 'level', 'at'] as const;

export const { parse: parseView, format: formatView } = createFragment(FIELDS);

/** The page state in the URL fragment. Absent fields do not restrict the report. */
export type View = ReturnType<typeof parseView>;

/** Namespace verdicts by the workload verdict that leads to them. */
const NAMESPACE_VERDICTS = { deniedNow: 'deniedNow', wouldBeDenied: 'violating', restart: 'restart' } as const;

/**
 * Returns the part of the report that a view selects. A namespace matches by its full name or, if no namespace has that
 * name, by a part of its name. The rollout and the SCCs apply to the whole cluster and are not filtered.
 */
export function selectReport(
  data: ReportData,
  { namespace = '', label = '', verdict, check, level }: View,
): ReportData {
  if (namespace + label === '' && (verdict ?? check ?? level) === undefined) return data;
  const isWhole = data.namespaces.some(({ name }) => name === namespace);
  // An incomplete selector, which a user may be typing, selects nothing.
  const selector = parseLabelSelector(label);
  const hasCheck = (checks: readonly string[]): boolean => check === undefined || checks.includes(check);
  const violates = (subject: { readonly violations: ReportWorkload['violations'] }): boolean =>
    hasCheck(subject.violations.map((violation) => violation.check));
  const selectDenied = (denied: readonly DeniedWorkload[]): readonly DeniedWorkload[] =>
    denied.filter(({ checks }) => hasCheck(checks));
  const namespaces = data.namespaces.flatMap((source): readonly ReportNamespace[] => {
    if (isWhole ? source.name !== namespace : !source.name.includes(namespace)) return [];
    if (!matchesLabelSelector(selector, source.labels)) return [];
    const workloads = workloadsAt(source, level, data.fixes)
      .filter(violates)
      .filter((workload) => verdict === undefined || NAMESPACE_VERDICTS[workload.verdict] === verdict);
    const excepted = source.excepted.filter(violates);
    const isFound =
      workloads.length > 0 ||
      (check === undefined ? verdict === undefined || verdict === source.verdict : excepted.length > 0);
    const denied = source.denied && {
      baseline: selectDenied(source.denied.baseline),
      restricted: selectDenied(source.denied.restricted),
    };
    return isFound ? [{ ...source, workloads, excepted, denied }] : [];
  });
  const names = new Set(namespaces.map(({ name }) => name));
  const isSelected = (subject: { readonly namespace?: string | undefined }): boolean =>
    subject.namespace === undefined || names.has(subject.namespace);
  const { comparison } = data;
  return {
    ...data,
    namespaces,
    summary: countNamespaces(namespaces),
    sccDenials: data.sccDenials.filter(isSelected),
    unreviewedPods: data.unreviewedPods.filter(isSelected),
    exceptions: data.exceptions.filter(isSelected),
    exemptions: data.exemptions.filter((exemption) =>
      exemption.kind === 'namespace' ? names.has(exemption.name) : isSelected(exemption),
    ),
    comparison: comparison && {
      ...comparison,
      added: comparison.added.filter(isSelected),
      fixed: comparison.fixed.filter(isSelected),
    },
  };
}

/** Returns the workloads that a level denies. Without a level, uses the level in force and the planned level. */
function workloadsAt(
  { denied, workloads, currentVersion: version }: ReportNamespace,
  level: string | undefined,
  fixes: ReportData['fixes'],
): readonly ReportWorkload[] {
  if (level !== 'baseline' && level !== 'restricted') return workloads;
  return (denied?.[level] ?? []).map(({ kind, name, checks }) => {
    const known = workloads.find((workload) => workload.kind === kind && workload.name === name);
    const violations = checks.flatMap((check) => {
      const found = known?.violations.filter((violation) => violation.check === check) ?? [];
      return found.length > 0 ? found : [{ check, reason: '', detail: '', fields: [], fix: fixes[check] ?? '' }];
    });
    const isSame = known?.level === level && known.verdict !== 'restart';
    if (known && isSame) return known;
    const verdict = known?.verdict === 'deniedNow' ? 'deniedNow' : 'wouldBeDenied';
    const policy: { readonly level: DenyingLevel; readonly version: typeof version } = { level, version };
    return { kind, name, ...policy, verdict, pods: known?.pods ?? 0, causes: [], violations };
  });
}

interface NamedWorkload extends ReportWorkload {
  readonly namespace: string;
}

/** A check, and the denied workloads that its fix helps to admit. */
interface CheckStep {
  readonly check: string;
  /** The denied workloads that violate the check. */
  readonly workloads: readonly NamedWorkload[];
  /** Number of workloads that are admitted once this check and all previous checks are fixed. */
  readonly admitted: number;
}

/**
 * Returns the violated checks in the order in which to fix them. The fix of each check admits the most additional
 * workloads at that point.
 */
export function listCheckSteps(namespaces: readonly ReportNamespace[]): readonly CheckStep[] {
  const workloads = namespaces
    .flatMap(({ name, workloads: found }) => found.map((workload) => ({ ...workload, namespace: name })))
    .filter(({ verdict }) => verdict !== 'restart')
    .map((workload) => ({ workload, checks: new Set(workload.violations.map(({ check }) => check)) }));
  const groups = workloads.map(({ checks }) => ({ checks, workloads: 1 }));
  return orderChecks(groups).map(({ check, admitted }) => ({
    check,
    workloads: workloads.filter(({ checks }) => checks.has(check)).map(({ workload }) => workload),
    admitted,
  }));
}

/** Groups workloads that have the same verdict and violate the same checks. The largest group comes first. */
export function groupByCause(workloads: readonly ReportWorkload[]): readonly (readonly ReportWorkload[])[] {
  const groups = Map.groupBy(workloads, ({ verdict, violations }) =>
    [verdict, ...violations.map(({ check }) => check)].join(' '),
  );
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

/** Returns the violations of all workloads as CSV. */
export function toCsv(namespaces: readonly ReportNamespace[]): string {
  const rows = namespaces.flatMap(({ name: namespace, workloads }) =>
    workloads.flatMap(({ kind, name, verdict, level, pods, violations }) =>
      violations.map(({ check, reason, detail, fix }) => {
        return { namespace, kind, name, verdict, level, pods, check, reason, detail, fix };
      }),
    ),
  );
  const header = ['namespace', 'kind', 'name', 'verdict', 'level', 'pods', 'check', 'reason', 'detail', 'fix'];
  return formatCsv(
    header,
    rows.map((row) => Object.values(row)),
  );
}
