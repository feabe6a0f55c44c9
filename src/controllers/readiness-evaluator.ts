/** Evaluates namespaces, either from the store or through dry runs on the API server. */
import { canUseScc, getSccSet } from '../cluster/access.ts';
import { isNotFound } from '../cluster/client.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { NamespacePolicies } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import { listPodCreators, POD_SOURCES } from '../cluster/workloads.ts';
import type { CustomPodSource } from '../kube/controller-pod.ts';
import { hasFinished } from '../kube/pod.ts';
import { getApiVersion } from '../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../kube/scc.ts';
import type { Namespace } from '../kube/types.ts';
import { POD_SECURITY_LABELS } from '../kube/well-known.ts';
import type { PodSecurity } from '../policy/psa/configuration.ts';
import type { PodDefaults } from '../policy/psa/defaults.ts';
import type { ExceptionIndex } from '../policy/pss/exceptions.ts';
import type { Level, Version } from '../policy/pss/policy.ts';
import type { DefaultLevel } from '../policy/rollout/enforcement.ts';
import {
  evaluateStepwise,
  inconclusive,
  isEvaluated,
  isSelected,
  type NamespaceEvaluation,
} from '../policy/rollout/evaluation.ts';
import { createSccAccess, type ManagementSettings } from '../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { completePod, getTemplatePod } from '../policy/rollout/template-pod.ts';
import { sccMode, type SccSettings } from '../policy/scc/mode.ts';
import { type ReconcileContext, runYielding } from './controller.ts';

const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

export interface EvaluationSettings {
  /** Returns the effective configuration. */
  podSecurity(): PodSecurity;
  readonly management: ManagementSettings;
  /** Defaults for new pods. If absent, new pods get no defaults. */
  readonly defaults?: PodDefaults;
  /** Pod templates of kinds that are not in the store. */
  readonly customSources?: readonly CustomPodSource[];
  /** Returns a namespace's current and planned policies. Yields often. */
  policies(namespace: Namespace, store: Store): Generator<undefined, NamespacePolicies>;
  /** Returns the exceptions that apply in a namespace. If absent, no exceptions apply. */
  exceptions?(namespace: string, store: Store): ExceptionIndex;
  /** Limit for evaluations that are kept. */
  readonly detailCharacters?: number;
  /** Kubernetes version to emulate. Defaults to the store's version. */
  readonly emulationVersion?: Version;
}

/** Evaluates a namespace's workloads based on the objects in the store. Yields often. */
export function* evaluateFromStore(
  namespace: Namespace,
  store: Store,
  settings: EvaluationSettings,
): Generator<undefined, NamespaceEvaluation> {
  const { management, defaults, customSources = [], emulationVersion = store.emulationVersion } = settings;
  const name = namespace.metadata?.name ?? '';
  const podSecurity = settings.podSecurity();
  const { current, planned, isSelected: isOpen } = yield* settings.policies(namespace, store);
  const { mode } = sccMode(namespace, management.scc);
  const pods = store.list('Pod', name);
  const sccs = store.list('SecurityContextConstraints');
  const missing = mode === 'enforce' ? missingPrerequisite(namespace, sccs) : undefined;
  const workloads = yield* listPodCreators(store, name, customSources, TEMPLATE_KINDS);
  const isLimited = isOpen || current.level !== 'privileged' || planned?.level !== 'privileged';
  if (missing !== undefined && isLimited && pods.length + workloads.length > 0) {
    return inconclusive({ name, current: current.level, currentVersion: current.version, isSelected: isOpen }, missing);
  }
  const exceptions = settings.exceptions?.(name, store);
  yield;
  const context = templateContext(namespace, store, { defaults, scc: management.scc });
  return yield* evaluateStepwise({
    ...{ namespace, current, planned, isSelected: isOpen, emulationVersion, pods },
    detailCharacters: settings.detailCharacters,
    complete: (pod) => completePod(pod, context),
    templates: workloads.values().flatMap((workload) => {
      const template = getTemplatePod(workload, context);
      return template ? [template] : [];
    }),
    exemptions: podSecurity.exemptions,
    exceptions,
    exists: (kind, owner) => store.get(kind, owner, name) !== undefined,
    sccMode: mode,
    mayUse(account, sccName) {
      const scc = context.sccs.byName.get(sccName);
      return scc !== undefined && createSccAccess(account, name, context.canUse)(scc);
    },
  });
}

/** Returns the context in which admission defaults the pods of a namespace's workloads. */
export function templateContext(
  namespace: Namespace,
  store: Store,
  { defaults, scc }: { readonly defaults?: PodDefaults | undefined; readonly scc: SccSettings },
) {
  return {
    namespace,
    sccMode: sccMode(namespace, scc).mode,
    sccs: getSccSet(store),
    canUse: canUseScc(store),
    findAccount: (account: string) => store.get('ServiceAccount', account, namespace.metadata?.name ?? ''),
    defaults: defaults && { defaults, scc },
    compatibility: scc.compatibility,
    preferUserNamespaces: scc.preferUserNamespaces,
  };
}

/**
 * Returns the input for SCC admission to default pod templates. Without defaulting, nearly all workloads would violate
 * the level.
 */
function missingPrerequisite({ metadata }: Namespace, sccs: readonly unknown[]): string | undefined {
  if ((metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') === '') {
    return `annotation ${NAMESPACE_RANGE_ANNOTATIONS.uidRange} is missing`;
  }
  return sccs.length === 0 ? 'no SecurityContextConstraints exist' : undefined;
}

/** Called with the evaluation of a namespace, or `undefined` if the namespace was deleted or is exempt. */
type OnEvaluation = (name: string, evaluation: NamespaceEvaluation | undefined) => void;

/** Evaluates the namespaces that are not exempt. Yields to other work whenever its time slice ends. */
export async function evaluateNamespaces(
  settings: EvaluationSettings,
  names: readonly string[],
  context: Pick<ReconcileContext, 'cluster' | 'now' | 'signal'>,
  onEvaluation: OnEvaluation,
): Promise<void> {
  const { store } = context.cluster;
  function* steps(): Generator<undefined, void> {
    for (const name of names) {
      const namespace = store.get('Namespace', name);
      const isPresent = namespace !== undefined && isEvaluated(namespace, settings.podSecurity().exemptions);
      onEvaluation(name, isPresent ? yield* evaluateFromStore(namespace, store, settings) : undefined);
      yield;
    }
  }
  await runYielding(steps(), context);
}

export function listNamespaces(store: Store): readonly string[] {
  return store.list('Namespace').flatMap(({ metadata }) => metadata?.name ?? []);
}

/** A sweep in progress, which evaluates all namespaces. */
export interface RunningSweep {
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  /** Generation of the configuration object when the sweep started. */
  readonly generation: number | undefined;
  readonly settings: RolloutSettings;
  readonly evaluations: Map<string, NamespaceEvaluation>;
  /** Remaining namespace names in a dry-run sweep. */
  pending?: string[];
}

interface SweepSettings extends EvaluationSettings {
  /** The current level of unlabeled namespaces. */
  readonly currentEnforce: DefaultLevel;
}

/**
 * Continues a sweep. Resolves to `undefined` when it is complete, and otherwise to the delay before the next batch of
 * dry runs.
 */
export async function continueSweep(
  sweep: RunningSweep,
  evaluation: SweepSettings,
  context: ReconcileContext,
): Promise<{ readonly requeueAfterMs: number } | undefined> {
  const { evaluations, settings } = sweep;
  const onEvaluation: OnEvaluation = (name, result) => {
    if (result) evaluations.set(name, result);
  };
  if (settings.evaluator === 'InProcess') {
    evaluations.clear();
    await evaluateNamespaces(evaluation, listNamespaces(context.cluster.store), context, onEvaluation);
    return undefined;
  }
  sweep.pending ??= [...listNamespaces(context.cluster.store)];
  const batch = sweep.pending.slice(0, Math.max(1, Math.floor(settings.clientBurst)));
  for (const name of batch) {
    onEvaluation(name, await evaluateByDryRun(name, evaluation, context));
    sweep.pending.shift();
    context.signal.throwIfAborted();
  }
  return sweep.pending.length === 0 ? undefined : { requeueAfterMs: (batch.length / settings.clientQps) * 1000 };
}

/**
 * The API server determines whether a namespace violates the level. The workloads of a violating namespace,
 * and namespaces that keep their level, are evaluated in-process.
 */
async function evaluateByDryRun(
  name: string,
  settings: SweepSettings,
  context: ReconcileContext,
): Promise<NamespaceEvaluation | undefined> {
  const { cluster } = context;
  const { exemptions } = settings.podSecurity();
  const evaluate = async (): Promise<NamespaceEvaluation | undefined> => {
    let evaluation: NamespaceEvaluation | undefined;
    await evaluateNamespaces(settings, [name], context, (_name, result) => (evaluation = result));
    return evaluation;
  };
  const namespace = cluster.store.get('Namespace', name);
  if (!namespace || !isSelected(namespace, exemptions)) return await evaluate();
  const { current: inForce, planned } = await runYielding(settings.policies(namespace, cluster.store), context);
  const base = { name, current: inForce.level, currentVersion: inForce.version, isSelected: true } as const;
  if (planned === undefined) return inconclusive(base, 'the managed fields of the namespace cannot be parsed');
  const { level, version } = planned;
  const clean: NamespaceEvaluation = {
    ...base,
    level,
    version,
    verdict: 'clean',
    categories: [],
    workloads: [],
    excepted: [],
  };
  if (level === 'privileged') return clean;
  const result = await dryRun(cluster, namespace, level, settings.currentEnforce);
  const current = cluster.store.get('Namespace', name);
  const isCurrent = current?.metadata?.uid === namespace.metadata?.uid && current && isSelected(current, exemptions);
  if (isCurrent !== true) return undefined;
  if (result !== 'violating')
    return { ...clean, ...(result === 'clean' ? {} : { verdict: 'inconclusive', ...result }) };
  const evaluation = await evaluate();
  // The API server ignores exceptions, and evaluates finished pods, although they are not created again.
  const explains = (one: NamespaceEvaluation): boolean =>
    one.workloads.length + one.excepted.length > 0 || cluster.store.list('Pod', name).some(hasFinished);
  if (evaluation !== undefined && explains(evaluation)) return evaluation;
  const error = 'dry run: the API server warned about violating pods, but they no longer exist';
  return { ...clean, verdict: 'inconclusive', error };
}

/** Field manager for dry runs. OpenShift's controller has the same name. */
const DRY_RUN_MANAGER = 'pod-security-readiness-controller';

/**
 * Evaluates a namespace through a dry run that labels it with the level. A deleted namespace has no violations.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/blob/main/pkg/operator/podsecurityreadinesscontroller/violation.go
 */
async function dryRun(
  cluster: Pick<Cluster, 'apply'>,
  { metadata: { name = '', uid } = {} }: Namespace,
  level: Level,
  currentEnforce: DefaultLevel,
): Promise<'clean' | 'violating' | { readonly error: string }> {
  const warnings: string[] = [];
  const labels = { [POD_SECURITY_LABELS.enforce]: level };
  // The UID prevents the apply from recreating a deleted namespace.
  const metadata = { name, ...(uid === undefined ? {} : { uid }), labels };
  try {
    await cluster.apply(
      'Namespace',
      { apiVersion: getApiVersion('Namespace'), kind: 'Namespace', metadata },
      { fieldManager: DRY_RUN_MANAGER, dryRun: true, onWarning: (text) => void warnings.push(text) },
    );
  } catch (error) {
    if (isNotFound(error)) return 'clean';
    return { error: `dry run: ${error instanceof Error ? error.message : String(error)}` };
  }
  const verdict = parseDryRunWarnings(warnings, currentEnforce);
  if (verdict !== 'inconclusive') return verdict;
  return {
    error:
      currentEnforce === 'restricted'
        ? 'dry run: not conclusive while the default level is restricted'
        : `dry run: ${warnings.join('; ')}`,
  };
}

/** Matches the warning that a namespace violates the level. Further warnings name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * Returns the verdict of a dry run that labels a namespace, based on the API server's warnings. If there is no warning,
 * the namespace is clean only if all pods were checked and the default is privileged, because the API server does not
 * check a namespace whose level does not become stricter.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function parseDryRunWarnings(
  warnings: readonly string[],
  currentEnforce: DefaultLevel,
): 'clean' | 'violating' | 'inconclusive' {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  const isPartial = warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED);
  return currentEnforce === 'restricted' || isPartial ? 'inconclusive' : 'clean';
}
