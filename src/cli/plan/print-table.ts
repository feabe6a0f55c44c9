import { quote } from '../../kube/text.ts';
import type { PlannedRefusal } from '../../policy/scc/advice/explain.ts';
import { useRoleNameOf } from '../../policy/scc/standard.ts';
import { printObstacle } from '../../policy/scc/advice/warnings.ts';
import { assumptionBlocks } from '../inventory/print-assumptions.ts';
import { printChanges } from '../report/changes.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import { remarksOn } from './print-grants.ts';
import { printNextStep, printPlanSummary, summarizePlan } from './summary.ts';
import type { Plan, PlannedGrant, PlannedNamespace, PlannedWorkload } from './types.ts';

interface TableOptions {
  readonly style: Style;
  /** Where the bindings were written, if they were. */
  readonly bindingsFile: string | undefined;
}

/** For people: of each workload what becomes of its pods and why; at the end the bindings, the summary, the next step. */
export function printPlan(plan: Plan, { style, bindingsFile }: TableOptions): string {
  const blocks = [
    // What the plan is for, if it is not for what is there.
    ...assumptionBlocks(plan.assumptions),
    ...plan.namespaces.map((namespace) => printNamespace(namespace, style)),
    ...printBindings(plan, style),
    `${style('bold', printPlanSummary(plan))}\n${printable(printNextStep(plan, bindingsFile))}\n`,
  ];
  return blocks.join('\n');
}

function printNamespace({ name, mode, modeFrom, problem, workloads }: PlannedNamespace, style: Style): string {
  const title = style('bold', printable(`${name} (${mode}${modeFrom === undefined ? '' : ', assumed'})`));
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
  const lines = [...details, ...(workload.refusal === undefined ? [] : [workload.refusal])].map(
    (line) => `    ${style('dim', printable(line))}`,
  );
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

function tellRefusal(
  { nearest, grantable, ownScc, message }: PlannedRefusal,
  serviceAccount: string | undefined,
): Told {
  const obstacles = nearest?.obstacles.map(printObstacle).join(', ');
  const subject = serviceAccount === undefined ? 'its node' : `service account ${quote(serviceAccount)}`;
  const details = [
    ...(nearest ? [`nearest is ${nearest.scc}; in its way: ${obstacles}`] : []),
    ...(ownScc ? [`an SCC of its own would admit it, like ${ownScc.like} with ${ownScc.fields.join(', ')}`] : []),
    ...(grantable === undefined
      ? []
      : [`${grantable} would admit it, if ${subject} might use it${ownScc ? ', but allows everything' : ''}`]),
  ];
  return {
    verdict: grantable === undefined ? 'refused, and no binding would help' : 'refused',
    details: details.length === 0 ? [message] : details,
  };
}

function printBindings(plan: Plan, style: Style): readonly string[] {
  if (plan.grants.length === 0) return [];
  const { refused, grantable } = summarizePlan(plan);
  const title = style('bold', `Bindings that admit ${grantable} of the ${refused} refused`);
  return [`${[title, ...plan.grants.flatMap((grant) => printGrant(grant, style))].join('\n')}\n`];
}

function printGrant(grant: PlannedGrant, style: Style): readonly string[] {
  const { namespace, serviceAccount, scc } = grant;
  const binding = `${namespace}: service account ${quote(serviceAccount)} to ClusterRole ${quote(useRoleNameOf(scc))}`;
  return [`  ${printable(binding)}`, ...remarksOn(grant).map((remark) => `    ${style('dim', printable(remark))}`)];
}
