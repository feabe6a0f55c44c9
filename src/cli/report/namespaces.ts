/** Plans enforcement for the namespaces of an inventory. */
import { ENFORCE_LABEL } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { finishSteps } from '../../kube/steps.ts';
import type { Namespace } from '../../kube/types.ts';
import { listNewerVersions, resolvePolicies } from '../../policy/psa/index.ts';
import { type Policy, PRIVILEGED, type Version } from '../../policy/pss/index.ts';
import {
  choosePolicies,
  countNamespaces,
  isTerminating,
  type NamespaceCounts,
  type NamespaceEvaluation,
  planExempt,
  planNamespace,
  type PlannedNamespace,
  type PlanScope,
  planUpgrade,
  type Upgrade,
  WORKLOAD_VERDICTS,
  type WorkloadVerdict,
} from '../../policy/rollout/index.ts';
import { evaluateFromStore } from '../../views/evaluation.ts';
import { namespacePolicies, type NamespacePolicies } from '../../views/rollout.ts';
import type { Io } from '../command.ts';
import { findNamespace, listNamespaces, type selectorOption } from '../inventory/inventory.ts';
import type { RolloutFacts } from '../inventory/rollout.ts';
import type { Values } from '../options.ts';
import { mapNamespaces } from '../output/print.ts';
import { nextSteps, upgradeSteps } from './next-steps.ts';

/**
 * Computes the effect of enforcement on one namespace or on all namespaces. Skips terminating namespaces. Prints
 * progress on a terminal. Rejects if the signal is aborted.
 */
export async function planNamespaces(
  facts: RolloutFacts,
  io: Pick<Io, 'stderr' | 'signal'>,
  scope: PlanScope = {},
): Promise<readonly PlannedNamespace[]> {
  const namespaces = listNamespaces(facts.store, scope.only).filter((namespace) => !isTerminating(namespace));
  return await mapNamespaces(namespaces, (namespace) => planOne(namespace, facts, scope), { verb: 'Evaluating', io });
}

/**
 * Counts namespaces and workloads, but only workloads that the leader evaluates, because only these block enforcement.
 * Replicas may not read custom resources, so the leader evaluates their pods but not their pod templates.
 */
export function countEvaluated(
  planned: readonly PlannedNamespace[],
  { customSources }: Pick<RolloutFacts, 'customSources'>,
): NamespaceCounts {
  const custom = new Set(
    customSources.map(({ kind, object: { metadata } }) => [metadata?.namespace, kind, metadata?.name].join('/')),
  );
  return countNamespaces(
    planned.map((namespace) => {
      const workloads = namespace.workloads.filter(
        ({ kind, name, pods }) => pods > 0 || !custom.has([namespace.name, kind, name].join('/')),
      );
      const isViolating = workloads.some(({ verdict }) => verdict === 'wouldBeDenied');
      const isBlocked = namespace.verdict !== 'violating' || isViolating;
      return { ...namespace, workloads, ...(isBlocked ? {} : { verdict: 'clean' as const }) };
    }),
  );
}

/**
 * Returns a note for each policy version or cluster version whose Pod Security Standards this program does not know.
 */
export function findNewerVersions(
  planned: readonly PlannedNamespace[],
  { emulationVersion = 'latest' }: Store,
): readonly string[] {
  const policies = planned.flatMap(({ current, currentVersion, planned: level, plannedVersion }): readonly Policy[] => [
    { level: current, version: currentVersion },
    { level: level ?? 'privileged', version: plannedVersion ?? 'latest' },
  ]);
  return listNewerVersions([{ level: 'restricted', version: emulationVersion }, ...policies]);
}

/** Columns of the counts in the table of several clusters. */
export const COUNT_COLUMNS = ['NAMESPACES', 'DENIED NOW', 'WOULD BE DENIED', 'TO RESTART', 'NOT EVALUATED'];

/** Returns the cells of the count columns. The numbers of workloads are unknown if no namespace was evaluated. */
export function countCells(
  namespaces: number,
  notEvaluated: number,
  countWorkloads: (verdict: WorkloadVerdict) => number,
): readonly string[] {
  const isUnknown = namespaces > 0 && notEvaluated === namespaces;
  const workloads = WORKLOAD_VERDICTS.map((verdict) => (isUnknown ? '?' : countWorkloads(verdict)));
  return [namespaces, ...workloads, notEvaluated].map(String);
}

function planOne(namespace: Namespace, facts: RolloutFacts, scope: PlanScope): PlannedNamespace {
  const { store, podSecurity, management, policies } = facts;
  if (podSecurity.exemptions.namespace(namespace.metadata?.name)) return planExempt(namespace);
  const computed = finishSteps(namespacePolicies(namespace, store, { podSecurity, management }));
  // The policies in the API server determine the current level. Their settings may differ from the settings in a file.
  const { enforce: current } = policies ? resolvePolicies(namespace.metadata?.labels, policies.defaults) : {};
  const { planned, ...context } = choosePolicies({ ...computed, ...(current && { current }) }, scope);
  const evaluation = evaluate(namespace, facts, { ...computed, current: context.current, planned });
  const hasOwnLabel = namespace.metadata?.labels?.[ENFORCE_LABEL] !== undefined;
  const target = { planned: planned?.level, plannedVersion: planned?.version };
  const plan = { ...context, ...target, hasOwnLabel };
  return { ...planNamespace(evaluation, plan), steps: nextSteps(evaluation, plan) };
}

/**
 * Finds the workloads that a Kubernetes version would deny but the current version admits, at the planned level of each
 * namespace. Otherwise works like `planNamespaces`.
 */
export async function planUpgrades(
  facts: RolloutFacts,
  { from, to }: Upgrade,
  { io, ...scope }: PlanScope & { readonly io: Io },
): Promise<readonly PlannedNamespace[]> {
  const namespaces = await planNamespaces(facts, io, scope);
  return namespaces.map((planned) => {
    if (planned.verdict === 'exempt' || planned.verdict === 'inconclusive') return planned;
    const namespace = findNamespace(facts.store, planned.name);
    const policy = { level: planned.planned ?? 'privileged', version: planned.plannedVersion ?? 'latest' } as const;
    const [before, after] = [from, to].map((version) => evaluatePolicy(namespace, facts, policy, version));
    const plan = planUpgrade(planned, { policy, before: before?.workloads ?? [], ...after });
    return { ...plan, steps: upgradeSteps(plan, from) };
  });
}

/** Returns the workloads that the given policy denies, regardless of the policy in force. */
export function evaluatePolicy(
  namespace: Namespace,
  facts: RolloutFacts,
  planned: Policy,
  emulationVersion?: Version,
): Pick<NamespaceEvaluation, 'workloads' | 'error'> {
  const policies = { planned, current: PRIVILEGED, isSelected: false };
  const evaluation = evaluate(namespace, facts, policies, emulationVersion);
  return { ...evaluation, workloads: evaluation.workloads.filter(({ verdict }) => verdict === 'wouldBeDenied') };
}

function evaluate(
  namespace: Namespace,
  { store, podSecurity, management, defaults, customSources, exceptions }: RolloutFacts,
  policies: NamespacePolicies,
  emulationVersion?: Version,
): NamespaceEvaluation {
  const settings = {
    podSecurity: () => podSecurity,
    management,
    defaults,
    customSources,
    // oxlint-disable-next-line require-yield
    *policies() {
      return policies;
    },
    exceptions,
    ...(emulationVersion && { emulationVersion }),
  };
  return finishSteps(evaluateFromStore(namespace, store, settings));
}

/** Returns the planned namespaces that `-n` and `-l` select. */
export function selectNamespaces(
  planned: readonly PlannedNamespace[],
  store: Store,
  { namespace, selector }: Values<typeof selectorOption> & { readonly namespace: string | undefined },
): readonly PlannedNamespace[] {
  if (namespace !== undefined) findNamespace(store, namespace);
  return planned.filter(
    ({ name }) =>
      (namespace === undefined || name === namespace) && selector(store.get('Namespace', name)?.metadata?.labels),
  );
}
