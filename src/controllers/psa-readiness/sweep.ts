import type { Cluster } from '../../cluster/port.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import type { Namespace } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type { DefaultLevel } from '../../policy/rollout/enforcement.ts';
import { verdictOfWarnings, type NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { ReconcileContext } from '../controller.ts';
import { evaluateAll, namesOf } from './evaluate-all.ts';
import type { NamespaceEvaluator } from './evaluator.ts';

/** Dry runs are written under this name. */
const DRY_RUN_MANAGER = 'pod-security-readiness-controller';

/** What an API server says of a level for a namespace. */
interface DryRunVerdict extends Pick<NamespaceEvaluation, 'verdict'> {
  readonly error?: string;
}

/**
 * Asks the API server what it would warn of if the namespace were held to a level, without doing it; a namespace that is
 * gone violates nothing.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/blob/main/pkg/operator/podsecurityreadinesscontroller/violation.go
 */
async function askByDryRun(
  cluster: Pick<Cluster, 'apply'>,
  { metadata }: Namespace,
  { level, currentEnforce }: { readonly level: Level; readonly currentEnforce: DefaultLevel },
): Promise<DryRunVerdict> {
  // Every call has a list of its own: what a call that failed has left behind says nothing about the next namespace.
  const warnings: string[] = [];
  const labels = { [POD_SECURITY_LABELS.enforce]: level };
  const asked = { apiVersion: apiVersionOf('Namespace'), kind: 'Namespace', metadata: identityOf(metadata, labels) };
  try {
    await cluster.apply('Namespace', asked, {
      fieldManager: DRY_RUN_MANAGER,
      dryRun: true,
      onWarning: (text) => void warnings.push(text),
    });
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return { verdict: 'clean' };
    return { verdict: 'inconclusive', error: `dry run: ${error instanceof Error ? error.message : String(error)}` };
  }
  const verdict = verdictOfWarnings(warnings, currentEnforce);
  return verdict === 'inconclusive' ? { verdict, error: errorOf(warnings, currentEnforce) } : { verdict };
}

/** Without the uid a namespace that is gone would be created. */
function identityOf(
  metadata: Namespace['metadata'],
  labels: Readonly<Record<string, string>>,
): NonNullable<Namespace['metadata']> {
  const { name = '', uid } = metadata ?? {};
  return { name, ...(uid === undefined ? {} : { uid }), labels };
}

function errorOf(warnings: readonly string[], currentEnforce: DefaultLevel): string {
  return currentEnforce === 'restricted'
    ? 'dry run: while namespaces are held to restricted already, a dry run says nothing'
    : `dry run: ${warnings.join('; ')}`;
}

/** An evaluation of all namespaces that has come to its end. Times are in milliseconds since 1970. */
export interface CompletedSweep {
  readonly evaluations: readonly NamespaceEvaluation[];
  readonly startMs: number;
  readonly endMs: number;
}

/** An evaluation of all namespaces that is under way. */
export interface Sweep {
  readonly startMs: number;
  /** Of the configuration object when it began. */
  readonly generation: number | undefined;
  readonly settings: RolloutSettings;
  readonly evaluations: Map<string, NamespaceEvaluation>;
  /** The names that are still to come; absent: it has yet to begin. */
  pending?: string[];
}

interface Tools {
  readonly evaluator: NamespaceEvaluator;
  /** What namespaces without a label are held to today. */
  readonly currentEnforce: DefaultLevel;
}

/** Goes on with an evaluation; resolves to `undefined` at its end, else to when it is to go on. */
export async function proceed(
  sweep: Sweep,
  tools: Tools,
  context: ReconcileContext,
): Promise<{ readonly requeueAfterMs: number } | undefined> {
  const { evaluator } = tools;
  const note = (name: string, evaluation: NamespaceEvaluation | undefined): void => {
    if (evaluation) sweep.evaluations.set(name, evaluation);
  };
  const names = namesOf(context.cluster.store.list('Namespace'));
  if (sweep.settings.evaluator === 'InProcess') {
    sweep.evaluations.clear();
    await evaluateAll(evaluator, names, context, note);
    return undefined;
  }
  // The API server is asked a few at a time, and not more often than it bears.
  const { clientBurst, clientQps } = sweep.settings;
  sweep.pending ??= [...names];
  const batch = sweep.pending.slice(0, Math.max(1, Math.floor(clientBurst)));
  for (const name of batch) {
    note(name, await evaluateByDryRun(name, tools, context));
    sweep.pending.shift();
    context.signal.throwIfAborted();
  }
  return sweep.pending.length === 0 ? undefined : { requeueAfterMs: (batch.length / clientQps) * 1000 };
}

/** The API server says whether a namespace violates; what it is that violates is found out here. */
async function evaluateByDryRun(
  name: string,
  { evaluator, currentEnforce }: Tools,
  context: ReconcileContext,
): Promise<NamespaceEvaluation | undefined> {
  const { cluster } = context;
  const namespace = cluster.store.get('Namespace', name);
  if (!namespace || !evaluator.isSelected(namespace)) return undefined;
  const level = evaluator.levelOf(namespace, cluster.store);
  const nothing = { name, level: level ?? 'restricted', categories: [], workloads: [] } as const;
  if (level === undefined) {
    return { ...nothing, verdict: 'inconclusive', error: 'the managed fields of the namespace cannot be read' };
  }
  if (level === 'privileged') return { ...nothing, verdict: 'clean' };
  const { verdict, error } = await askByDryRun(cluster, namespace, { level, currentEnforce });
  const now = cluster.store.get('Namespace', name);
  if (!now || now.metadata?.uid !== namespace.metadata?.uid || !evaluator.isSelected(now)) return undefined;
  if (verdict !== 'violating') return { ...nothing, verdict, ...(error === undefined ? {} : { error }) };
  let found: NamespaceEvaluation | undefined;
  await evaluateAll(evaluator, [name], context, (_name, evaluation) => (found = evaluation));
  if (found?.verdict === 'violating') return found;
  const doubt = 'dry run: the API server warns of pods that violate, and there are none any more';
  return { ...nothing, verdict: 'inconclusive', error: doubt };
}
