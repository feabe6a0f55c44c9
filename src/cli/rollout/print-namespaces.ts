import type { FixableViolation, ViolatingWorkload } from '../../policy/rollout/readiness.ts';
import { printColumns } from '../report/columns.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import type { NamespaceCounts, PlannedNamespace } from './types.ts';

/** A line for each namespace. */
export function printNamespaceTable(namespaces: readonly PlannedNamespace[]): string {
  const header = ['NAMESPACE', 'TODAY', 'TO COME', 'VERDICT', 'REFUSED', 'REASON'];
  return printColumns(header, namespaces.map(cellsOf));
}

function cellsOf({ name, today, todayBy, toCome, verdict, workloads, reason, error }: PlannedNamespace): string[] {
  const refused = workloads.length === 0 ? '' : String(workloads.length);
  return [name, `${today} (${todayBy})`, toCome ?? 'unknown', verdict, refused, error ?? reason ?? ''];
}

/** Of each namespace that is in the way what is wrong, where, how to fix it, and what to do; one block each. */
export function namespaceBlocks(namespaces: readonly PlannedNamespace[], style: Style): readonly string[] {
  return namespaces
    .filter(({ verdict }) => verdict === 'violating' || verdict === 'inconclusive')
    .map((namespace) => {
      const { name, toCome = 'unknown', workloads, error, steps } = namespace;
      const lines = [
        style('bold', printable(`${name} (${toCome})`)),
        ...(error === undefined ? [] : [`  ${printable(error)}`]),
        ...workloads.flatMap((workload) => workloadLines(workload, style)),
        ...steps.map((step) => `  ${style('yellow', 'To do:')} ${printable(step)}`),
      ];
      return `${lines.join('\n')}\n`;
    });
}

function workloadLines({ kind, name, pods, causes, violations }: ViolatingWorkload, style: Style): readonly string[] {
  const running = pods === 0 ? '' : `, ${pods} ${pods === 1 ? 'pod' : 'pods'}`;
  const through = causes.includes('user') ? ', let in by the rights of users' : '';
  return [
    `  ${style('red', printable(`${kind} ${name}`))}${running}${through}`,
    ...violations.flatMap((violation) => violationLines(violation, style)),
  ];
}

function violationLines({ check, reason, detail, fields, fix }: FixableViolation, style: Style): readonly string[] {
  const why = detail === '' ? reason : `${reason} (${detail})`;
  return [
    `    ${printable(check)}: ${printable(why)}`,
    ...fields.map((field) => `      ${printable(field)}`),
    `      ${style('dim', `Fix: ${printable(fix)}`)}`,
  ];
}

/** `12 namespaces: 9 clean, 1 violating, 2 labelled; 3 workloads with 7 pods would be refused` */
export function printCounts(counts: NamespaceCounts): string {
  const { namespaces, workloads, pods } = counts;
  const parts = (['clean', 'violating', 'inconclusive', 'labelled', 'exempt'] as const)
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `${counts[verdict]} ${verdict}`);
  const refused =
    workloads === 0
      ? 'nothing would be refused'
      : `${number(workloads, 'workload')} with ${number(pods, 'pod')} would be refused`;
  return `${number(namespaces, 'namespace')}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}; ${refused}`;
}

/** `1 pod`, `2 pods` */
export function number(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
