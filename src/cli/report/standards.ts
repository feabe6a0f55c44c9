/** Compares the state of a cluster with the controls of a hardening standard. */
import { printCount } from '../../kube/text.ts';
import { isStricter } from '../../policy/psa/index.ts';
import { type Control, listControls, type Standard, STANDARDS } from '../../policy/pss/index.ts';
import { formatCsv } from '../../web/csv.ts';
import type { DeniedWorkload, ReportData } from '../../web/report-data.ts';
import { type Cell, printData, printTable, type Style } from '../output/print.ts';

const TONES = { partly: 'yellow', 'not enforced': 'red' } as const;

interface ControlState extends Control {
  readonly status: 'enforced' | keyof typeof TONES;
  /** Names of the namespaces whose enforced level does not contain the control, or that are exempt. */
  readonly notEnforced: readonly string[];
  /** Workloads whose pods violate a check of the control, regardless of the level that their namespace enforces. */
  readonly violating: readonly (Omit<DeniedWorkload, 'checks'> & { readonly namespace: string })[];
}

/** Evidence for an audit. Its format is independent of the report format. */
interface StandardReport extends Pick<
  ReportData,
  'cluster' | 'source' | 'time' | 'version' | 'unread' | 'assumptions'
> {
  readonly standard: string;
  readonly namespaces: number;
  /** Namespaces whose workloads could not be evaluated. */
  readonly notEvaluated: readonly string[];
  readonly controls: readonly ControlState[];
}

function evaluateStandard(report: ReportData, standard: Standard): StandardReport {
  const { namespaces, cluster, source, time, version, unread, assumptions } = report;
  const controls = listControls(standard).map((control): ControlState => {
    const notEnforced = namespaces.filter(
      ({ current, currentSource }) => currentSource === 'exemption' || isStricter(control.level, current),
    );
    const violating = namespaces.flatMap(({ name: namespace, denied }) => {
      // Includes the denials of both levels, because a restricted check can replace a baseline check.
      const all = denied ? [...denied.baseline, ...denied.restricted] : [];
      const own = all.filter(({ checks }) => checks.some((check) => control.checks.includes(check)));
      return [...new Map(own.map(({ kind, name }) => [`${kind}/${name}`, { namespace, kind, name }])).values()];
    });
    const status =
      notEnforced.length === 0 ? 'enforced' : notEnforced.length < namespaces.length ? 'partly' : 'not enforced';
    return { ...control, status, notEnforced: notEnforced.map(({ name }) => name), violating };
  });
  const notEvaluated = namespaces.filter(({ denied }) => denied === undefined).map(({ name }) => name);
  return {
    standard: STANDARDS[standard],
    cluster,
    source,
    time,
    version,
    unread,
    assumptions,
    namespaces: namespaces.length,
    notEvaluated,
    controls,
  };
}

const HEADER = ['CONTROL', 'STATUS', 'LEVEL', 'NAMESPACES', 'VIOLATING', 'TITLE'];

/** Formats the controls with the number of namespaces that enforce them, and of workloads that violate them. */
export function printStandard(
  data: ReportData,
  standard: Standard,
  { output, style }: { readonly output: 'html' | 'table' | 'json' | 'csv'; readonly style: Style },
): string {
  const report = evaluateStandard(data, standard);
  if (output === 'json') return printData('json', report);
  const rows = report.controls.map(({ id, status, level, notEnforced, violating, title }) => [
    id,
    status,
    level,
    `${report.namespaces - notEnforced.length} of ${report.namespaces}`,
    String(violating.length),
    id === title ? '' : title,
  ]);
  if (output === 'csv') return formatCsv(HEADER, rows);
  const colored = rows.map(([id = '', status = '', ...others]): readonly Cell[] => {
    const tone = status in TONES ? TONES[status as keyof typeof TONES] : undefined;
    return [id, tone === undefined ? status : [status, tone], ...others];
  });
  const unknown =
    report.notEvaluated.length === 0
      ? ''
      : `The workloads of ${printCount(report.notEvaluated.length, 'namespace')} could not be evaluated.\n`;
  return `${style('bold', report.standard)}\n${printTable([HEADER, ...colored], { style })}${unknown}`;
}
