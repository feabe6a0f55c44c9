/** What there is to know of the bindings of a plan, in sentences. */
import type { NeededScc, PlannedGrant, WorkloadName } from './types.ts';

const SHOWN = 5;

/** Of a binding: for what it is, and what else it does. */
export function remarksOn({ serviceAccount, scc, workloads, moves }: PlannedGrant): readonly string[] {
  const byScc = Map.groupBy(moves, ({ from }) => from);
  return [
    `for ${enumerate(workloads)}`,
    ...Array.from(byScc, ([from, moved]) => `moves ${enumerate(moved)} from ${from} to ${scc}`),
    ...(serviceAccount === 'default'
      ? ['all pods without an account of their own get it: better give these workloads one']
      : []),
  ];
}

/** What is granted to nobody, since it would be too much. */
export function remarkOnNeeded({ namespace, workload, instead, scc }: NeededScc): string {
  const { like, fields } = scc;
  return `${namespace}: ${workload.kind} ${workload.name} needs an SCC of its own, like ${like} with ${fields.join(', ')}: of those that there are only ${instead} would admit it, which allows everything`;
}

function enumerate(workloads: readonly WorkloadName[]): string {
  const shown = workloads.slice(0, SHOWN).map(({ kind, name }) => `${kind} ${name}`);
  const rest = workloads.length - SHOWN;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
