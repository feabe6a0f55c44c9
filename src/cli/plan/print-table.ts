import type { RoleBinding } from '../../kube/types.ts';
import { quote } from '../../kube/quote.ts';
import type { PlannedRefusal } from '../../policy/scc/plan.ts';
import { printObstacle } from '../../policy/scc/warnings.ts';
import { printChanges } from '../report/changes.ts';
import type { Style } from '../report/table.ts';
import { printable } from '../report/text.ts';
import { printNextStep, printPlanSummary, summarizePlan } from './summary.ts';
import type { Plan, PlannedNamespace, PlannedWorkload } from './types.ts';

interface TableOptions {
  readonly style: Style;
  /** Where the bindings were written, if they were. */
  readonly bindingsFile: string | undefined;
}

/** For people: of each workload what becomes of its pods and why; at the end the bindings, the summary, the next step. */
export function printPlan(plan: Plan, { style, bindingsFile }: TableOptions): string {
  const blocks = [
    ...plan.namespaces.map((namespace) => printNamespace(namespace, style)),
    ...printBindings(plan, style),
    ...(plan.assumptions.length === 0 ? [] : [`Assumed: ${printable(plan.assumptions.join('; '))}.\n`]),
    `${style('bold', printPlanSummary(plan))}\n${printable(printNextStep(plan, bindingsFile))}\n`,
  ];
  return blocks.join('\n');
}

function printNamespace({ name, mode, problem, workloads }: PlannedNamespace, style: Style): string {
  const title = style('bold', printable(`${name} (${mode})`));
  const [first] = workloads;
  if (first?.result.outcome === 'off') {
    return `${title}\n  ${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}, not judged\n`;
  }
  const width = workloads.reduce((longest, workload) => Math.max(longest, titleOf(workload).length), 0);
  const rows = workloads.flatMap((workload) => printWorkload(workload, width, style));
  const remarks = problem === undefined ? [] : [`  ${style('yellow', printable(problem))}`];
  return `${[title, ...remarks, ...rows].join('\n')}\n`;
}

function printWorkload(workload: PlannedWorkload, width: number, style: Style): readonly string[] {
  const { verdict, details } = tell(workload);
  const emphasis = workload.result.outcome === 'refused' ? style('red', verdict) : verdict;
  const lines = details.map((line) => `    ${style('dim', printable(line))}`);
  return [`  ${titleOf(workload).padEnd(width)}  ${emphasis}`, ...lines];
}

function titleOf({ kind, name }: PlannedWorkload): string {
  return printable(`${kind} ${name}`);
}

interface Told {
  readonly verdict: string;
  readonly details: readonly string[];
}

function tell(workload: PlannedWorkload): Told {
  const { result, serviceAccount } = workload;
  switch (result.outcome) {
    case 'off':
      return { verdict: 'not judged', details: [] };
    case 'ignored':
      return { verdict: 'ignored: pods of Windows, or no template', details: [] };
    case 'admitted':
      return { verdict: result.scc, details: printChanges(result.changes) };
    case 'refused':
      return tellRefusal(result, serviceAccount);
  }
}

function tellRefusal({ nearest, grantable, message }: PlannedRefusal, serviceAccount: string | undefined): Told {
  const obstacles = nearest?.obstacles.map(printObstacle).join(', ');
  const subject = serviceAccount === undefined ? 'its node' : `service account ${quote(serviceAccount)}`;
  const details = [
    ...(nearest ? [`nearest is ${nearest.scc}; in its way: ${obstacles}`] : []),
    ...(grantable === undefined ? [] : [`${grantable} would admit it, if ${subject} might use it`]),
  ];
  return {
    verdict: grantable === undefined ? 'refused, and no binding would help' : 'refused',
    details: details.length === 0 ? [message] : details,
  };
}

function printBindings(plan: Plan, style: Style): readonly string[] {
  const bindings = plan.bindings.filter((one): one is RoleBinding => one.kind === 'RoleBinding');
  if (bindings.length === 0) return [];
  const { refused, grantable } = summarizePlan(plan);
  const title = style('bold', `Bindings that admit ${grantable} of the ${refused} refused`);
  return [`${[title, ...bindings.map((binding) => `  ${printable(printBinding(binding))}`)].join('\n')}\n`];
}

function printBinding({ metadata, roleRef, subjects = [] }: RoleBinding): string {
  const account = subjects[0]?.name ?? '';
  const advice = account === 'default' ? '; all pods without an account of their own get it: better give them one' : '';
  return `${metadata?.namespace ?? ''}: service account ${quote(account)} to ClusterRole ${quote(roleRef.name)}${advice}`;
}
