import type { Plan } from './types.ts';
import { summarizePlan } from './summary.ts';

/** For programs: everything that is known. */
export function dataOfPlan(plan: Plan): unknown {
  return {
    summary: summarizePlan(plan),
    assumptions: plan.assumptions,
    namespaces: plan.namespaces.map(({ name, mode, modeFrom, problem }) => ({
      name,
      mode,
      ...(modeFrom === undefined ? {} : { modeFrom }),
      ...(problem === undefined ? {} : { problem }),
    })),
    workloads: plan.namespaces.flatMap(({ name: namespace, mode, workloads }) =>
      workloads.map(({ kind, name, serviceAccount, refusal, result }) => ({
        namespace,
        mode,
        kind,
        name,
        ...(serviceAccount === undefined ? {} : { serviceAccount }),
        ...(refusal === undefined ? {} : { refusal }),
        ...result,
      })),
    ),
    grants: plan.grants,
    bindings: plan.bindings,
  };
}
