/** Prints the namespaces of an enforcement plan as a table, with detail blocks and counts. */
import { printCount } from '../../kube/text.ts';
import { printLevel, printPodSecurity } from '../../policy/psa/index.ts';
import {
  type ExceptedWorkload,
  type FixableViolation,
  type NamespaceCounts,
  needsFix,
  type PlannedNamespace,
  printExceptions,
  type ViolatingWorkload,
  WORKLOAD_VERDICTS,
} from '../../policy/rollout/index.ts';
import { type AdmissionPlan, describeReason, formatFix, listFixes, NO_SCC } from '../../policy/scc/index.ts';
import type { Values } from '../options.ts';
import { type headersOption, printable, printTable, type Style, withHeader } from '../output/print.ts';
import { printStep } from '../report/next-steps.ts';

const VERDICTS: Readonly<Record<PlannedNamespace['verdict'], string>> = {
  violating: 'violating',
  deniedNow: 'denied now',
  inconclusive: 'inconclusive',
  restart: 'to restart',
  clean: 'no violations',
  exempt: 'exempt',
};

/** Maximum number of rows in a summary. */
const MAX_ROWS = 20;

interface SummaryValues extends Partial<Values<typeof headersOption>> {
  readonly output: string;
  readonly namespace?: string | undefined;
  /** Flags that select the cluster in the printed commands. */
  readonly clusterFlags: readonly string[];
}

/**
 * Returns a table of the namespaces with the most denied workloads, and the number of omitted namespaces. With `-o
 * wide` or `-n`, returns a table of all given namespaces and the detail blocks.
 */
export function namespaceSections(
  namespaces: readonly PlannedNamespace[],
  values: SummaryValues,
  style: Style,
): readonly string[] {
  if (namespaces.length === 0) return [];
  if (values.output === 'wide' || values.namespace !== undefined) {
    return [printNamespaceTable(namespaces, values), ...namespaceBlocks(namespaces, values.clusterFlags, style)];
  }
  const sorted = namespaces.toSorted(
    (a, b) => Number(needsFix(b)) - Number(needsFix(a)) || b.workloads.length - a.workloads.length,
  );
  const omitted = sorted.slice(MAX_ROWS);
  const unresolved = omitted.filter(needsFix).length;
  const rest = `${printCount(omitted.length, 'more namespace')}, ${unresolved} of them with denied workloads or inconclusive`;
  return [
    `${printNamespaceTable(sorted.slice(0, MAX_ROWS), values)}${omitted.length === 0 ? '' : `... ${rest}\n`}`,
    ...(sorted.some(hasDetails) ? ['For details and next steps, add -o wide.\n'] : []),
  ];
}

export function listedNamespaces(namespaces: readonly PlannedNamespace[]) {
  return namespaces.map(({ name }) => ({ kind: 'Namespace', name }));
}

function printNamespaceTable(namespaces: readonly PlannedNamespace[], values: SummaryValues): string {
  const header = ['NAMESPACE', 'CURRENT', 'PLANNED', 'VERDICT', 'DENIED', 'RESTART', 'REASON'];
  const rows = namespaces.map(({ name, currentSource, verdict, workloads, ...others }) => [
    name,
    `${printLevel({ level: others.current, version: others.currentVersion })} (${currentSource})`,
    printPlanned(others),
    VERDICTS[verdict],
    printNumber(workloads.filter((workload) => workload.verdict !== 'restart').length),
    printNumber(workloads.filter((workload) => workload.verdict === 'restart').length),
    printReason(others),
  ]);
  return printTable(withHeader(header, rows, { 'no-headers': values['no-headers'] ?? false }));
}

function printPlanned({ planned: level, plannedVersion: version = 'latest' }: Planned): string {
  return level === undefined ? 'unknown' : printLevel({ level, version });
}

type Planned = Pick<PlannedNamespace, 'planned' | 'plannedVersion'>;

function printReason({ error, reason, excepted }: Pick<PlannedNamespace, 'error' | 'reason' | 'excepted'>): string {
  const allowed = excepted.length === 0 ? '' : `${printCount(excepted.length, 'workload')} allowed by exceptions`;
  return error ?? reason ?? allowed;
}

function printNumber(value: number): string {
  return value === 0 ? '' : String(value);
}

function hasDetails(namespace: PlannedNamespace): boolean {
  return needsFix(namespace) || namespace.steps.length + namespace.excepted.length > 0;
}

/** Returns a block for each namespace that has fields to fix, exceptions, an error or next steps. */
function namespaceBlocks(
  namespaces: readonly PlannedNamespace[],
  clusterFlags: readonly string[],
  style: Style,
): readonly string[] {
  const blocks = namespaces.filter(hasDetails);
  return blocks.map((namespace) => {
    const { name, workloads, excepted, error, steps } = namespace;
    const lines = [
      style('bold', printable(`${name} (${printPlanned(namespace)})`)),
      ...(error === undefined ? [] : [`  ${printable(error)}`]),
      ...workloads.flatMap((workload) => workloadLines(workload, style)),
      ...excepted.flatMap((workload) => exceptedLines(workload, style)),
      ...steps.map((step) => `  ${style('yellow', 'Next:')} ${printable(printStep(step, clusterFlags))}`),
    ];
    return `${lines.join('\n')}\n`;
  });
}

/** Returns the lines for a workload. A workload that needs only a restart has no fields to fix. */
function workloadLines(workload: ViolatingWorkload, style: Style): readonly string[] {
  const { kind, name, verdict, pods, causes, violations } = workload;
  const running = pods === 0 || kind === 'Pod' ? '' : ` (${printCount(pods, 'running pod')})`;
  const through = causes.includes('user') ? ", admitted only because of its creator's permissions" : '';
  const color = verdict === 'restart' ? 'yellow' : 'red';
  const decision =
    verdict === 'restart'
      ? 'to restart, new pods comply'
      : `${DECISIONS[verdict]}, violates ${printPodSecurity(workload)}`;
  return [
    `  ${style(color, printable(`${kind} ${name}`))}${running}: ${decision}${through}`,
    ...(verdict === 'restart' ? [] : violations).flatMap((violation) => violationLines(violation, style)),
  ];
}

/** Returns the workloads that no SCC admits, with the same reasons and fixes as `check` and `explain`. */
export function sccBlocks(
  { name: namespace, workloads }: AdmissionPlan,
  source: Pick<Parameters<typeof listFixes>[1], 'files' | 'clusterFlags'>,
  style: Style,
): readonly string[] {
  const lines = workloads.flatMap(({ result, ...workload }) => {
    if (result.outcome !== 'denied') return [];
    const { reason, detail } = describeReason(result);
    return [
      `  ${style('red', printable(`${workload.kind} ${workload.name}`))}: denied, ${NO_SCC}`,
      `    scc-admission: ${printable(detail === '' ? reason : `${reason} (${detail})`)}`,
      ...listFixes(result, { ...workload, ...source }, namespace).map((fix, index) => {
        return `      ${style('dim', printable(`${index === 0 ? 'Fix' : 'Or'}: ${formatFix(fix)}`))}`;
      }),
    ];
  });
  return lines.length === 0 ? [] : [`${style('bold', printable(`${namespace} (SCCs)`))}\n${lines.join('\n')}\n`];
}

function exceptedLines({ kind, name, exceptions, violations }: ExceptedWorkload, style: Style): readonly string[] {
  return [
    `  ${style('yellow', printable(`${kind} ${name}`))}: ${printable(printExceptions(exceptions))}`,
    ...violations.map(({ check, reason, detail }) => `    ${printable(`${check}: ${detail || reason}`)}`),
  ];
}

const DECISIONS = { deniedNow: 'denied now', wouldBeDenied: 'would be denied' } as const;

function violationLines({ check, reason, detail, fields, fix }: FixableViolation, style: Style): readonly string[] {
  const why = detail === '' ? reason : `${reason} (${detail})`;
  return [
    `    ${printable(check)}: ${printable(why)}`,
    ...fields.map((field) => `      ${printable(field)}`),
    `      ${style('dim', `Fix: ${printable(fix)}`)}`,
  ];
}

/**
 * Formats counts, such as `12 namespaces: 1 violating, 11 no violations; 3 workloads (7 running pods) would be denied`.
 */
export function printNamespaceCounts(counts: NamespaceCounts, denial = 'would be denied'): string {
  const verdicts = (Object.keys(VERDICTS) as (keyof typeof VERDICTS)[])
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `${counts[verdict]} ${VERDICTS[verdict]}`);
  const parts = listFindings(counts, denial);
  const isDenied = counts.workloads.deniedNow.workloads + counts.workloads.wouldBeDenied.workloads > 0;
  const findings = [...(isDenied ? [] : [`no workload ${denial}`]), ...parts].join(', ');
  const { namespaces } = counts;
  return `${printCount(namespaces, 'namespace')}${verdicts.length === 0 ? '' : `: ${verdicts.join(', ')}`}; ${findings}`;
}

/** Returns counts, such as `3 workloads (7 running pods) would be denied`. */
function listFindings({ workloads }: NamespaceCounts, denial: string): readonly string[] {
  const texts = { deniedNow: 'denied now', wouldBeDenied: denial, restart: 'to restart' };
  return WORKLOAD_VERDICTS.filter((verdict) => workloads[verdict].workloads > 0).map((verdict) => {
    const { workloads: count, pods } = workloads[verdict];
    return `${printCount(count, 'workload')} (${printCount(pods, 'running pod')}) ${texts[verdict]}`;
  });
}
