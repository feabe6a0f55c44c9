import type { Store } from '../cluster/store.ts';
import { POD_SOURCES, listPodSources, type PodSource } from '../cluster/workloads.ts';
import { type Reach, type ManagementSettings, createSccAccess } from '../policy/rollout/label-sync.ts';
import { isStricter } from '../policy/psa/policy.ts';
import {
  templatePodOf,
  type TemplatePod,
  type TemplateSurroundings,
  evaluateInSteps,
  isSelected,
  type NamespaceEvaluation,
  parseDryRunWarnings,
} from '../policy/rollout/readiness.ts';
import type { Level } from '../policy/pss/policy.ts';
import { createLevelPredictor } from '../cluster/rollout.ts';
import { canUseScc, getSccSet } from '../cluster/access.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../kube/scc.ts';
import type { Namespace } from '../kube/types.ts';
import { type PodSecurityConfiguration, createExemptions, type Exemptions } from '../policy/psa/configuration.ts';
import { sccMode } from '../policy/scc/mode.ts';
import { type ReconcileContext, forEachYielding } from './controller.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { getApiVersion } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import { POD_SECURITY_LABELS } from '../kube/well-known.ts';
import type { DefaultLevel } from '../policy/rollout/enforcement.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';

/** The templates of namespaces as they would be admitted; each is admitted once, until something about it changes. */
interface AdmittedTemplates {
  /** Those of a namespace that are still to be judged at the level. */
  in(store: Store, level: Level, surroundings: TemplateSurroundings): ToBeJudged;
  /** What was admitted there has to be admitted again. */
  forget(reach: Reach): void;
  /** Nothing is judged there any more. */
  leave(name: string): void;
  reset(): void;
}

/** Templates that have yet to be judged, and those that do not keep the level. */
interface ToBeJudged {
  readonly templates: Iterable<TemplatePod>;
  /** Says that the one that was given last keeps the level. */
  onKept(): void;
}

/** What is kept of a template: a level that it keeps, for that is all that matters; else its pod. */
interface Memory {
  readonly epoch: number;
  keeps?: Level;
  template?: TemplatePod | undefined;
}

const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

/** Makes a memory that knows nothing yet. */
function createAdmittedTemplates(): AdmittedTemplates {
  const memories = new Map<string, ReadonlyMap<object, Memory>>();
  const epochs = new Map<string, number>();
  let epoch = 0;
  let allSince = 0;

  return {
    in(store, level, surroundings) {
      const name = surroundings.namespace.metadata?.name ?? '';
      const since = Math.max(allSince, epochs.get(name) ?? 0);
      let last: Memory | undefined;
      function* templates(): Generator<TemplatePod, void> {
        const known = memories.get(name);
        const seen = new Map<object, Memory>();
        for (const source of listPodSources(store, name, TEMPLATE_KINDS)) {
          const before = known?.get(source.object);
          const isGood = before?.epoch === since && (before.keeps === undefined || !isStricter(level, before.keeps));
          last = isGood ? before : { epoch: since, template: admitted(source, surroundings) };
          seen.set(source.object, last);
          if (last.template) yield last.template;
        }
        if (seen.size > 0) memories.set(name, seen);
        else memories.delete(name);
      }
      return {
        templates: { [Symbol.iterator]: templates },
        onKept() {
          if (last === undefined) return;
          last.keeps = level;
          last.template = undefined;
        },
      };
    },
    forget(reach) {
      epoch++;
      if (reach === 'all') {
        allSince = epoch;
        epochs.clear();
      } else for (const name of reach) epochs.set(name, epoch);
    },
    leave(name) {
      memories.delete(name);
      epochs.delete(name);
    },
    reset() {
      memories.clear();
      epochs.clear();
    },
  };
}

function admitted({ kind, object }: PodSource, surroundings: TemplateSurroundings): TemplatePod | undefined {
  return templatePodOf(kind, object, surroundings);
}

interface EvaluatorOptions {
  /** Of the configuration file. */
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly management: ManagementSettings;
}

/** Finds out from the store what enforcement would refuse. */
export interface NamespaceEvaluator extends Pick<AdmittedTemplates, 'forget' | 'leave' | 'reset'> {
  /** True if enforcement would change something for the namespace. */
  isSelected(namespace: Namespace): boolean;
  /** The level that it would be held to; absent if nobody can tell. */
  levelOf(namespace: Namespace, store: Store): Level | undefined;
  /** Pauses often. */
  steps(namespace: Namespace, store: Store): Generator<undefined, NamespaceEvaluation>;
}

/** Makes an evaluator that remembers how templates are admitted: it has to be told when that may have changed. */
export function createNamespaceEvaluator({ exemptions, management }: EvaluatorOptions): NamespaceEvaluator {
  const templates = createAdmittedTemplates();
  const levelOf = createLevelPredictor(management);
  const exemptionsOfNow = createCurrentExemptions(exemptions);

  return {
    forget: templates.forget,
    leave: templates.leave,
    reset: templates.reset,
    levelOf,
    isSelected: (namespace) => isSelected(namespace, exemptionsOfNow()),
    *steps(namespace, store) {
      const name = namespace.metadata?.name ?? '';
      const mode = sccMode(namespace, management.scc).mode;
      const pods = store.list('Pod', name);
      const sccs = store.list('SecurityContextConstraints');
      const missing = mode === 'enforce' ? missingFor(namespace, sccs) : undefined;
      if (missing !== undefined) {
        const isEmpty = pods.length === 0 && listPodSources(store, name, TEMPLATE_KINDS).length === 0;
        if (!isEmpty) return unknown(name, missing);
      }
      const level = levelOf(namespace, store);
      const canUse = canUseScc(store);
      const findAccount = (account: string) => store.get('ServiceAccount', account, name);
      return yield* evaluateInSteps({
        namespace,
        level,
        pods,
        ...templates.in(store, level ?? 'restricted', {
          namespace,
          sccMode: mode,
          sccs,
          sccSet: getSccSet(store),
          canUse,
          findAccount,
        }),
        exemptions: exemptionsOfNow(),
        exists: (kind, owner) => store.get(kind, owner, name) !== undefined,
        sccMode: mode,
        mayUse(account, sccName) {
          const scc = store.get('SecurityContextConstraints', sccName);
          return scc !== undefined && createSccAccess(account, name, canUse)(scc);
        },
      });
    },
  };
}

/** What has to be there before it can be known what SCCs make of workloads. */
function missingFor({ metadata }: Namespace, sccs: readonly unknown[]): string | undefined {
  if ((metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') === '') {
    return `annotation ${NAMESPACE_RANGE_ANNOTATIONS.uidRange} is still missing`;
  }
  return sccs.length === 0 ? 'there are no SecurityContextConstraints yet' : undefined;
}

/** As they are, without what SCCs make of them, nearly all workloads would violate something. */
function unknown(name: string, error: string): NamespaceEvaluation {
  return { name, level: 'restricted', verdict: 'inconclusive', categories: [], workloads: [], error };
}

/** Made anew only when the configuration has changed. */
function createCurrentExemptions(lists: EvaluatorOptions['exemptions']): () => Exemptions {
  let made: { readonly from: PodSecurityConfiguration['exemptions']; readonly exemptions: Exemptions } | undefined;
  return () => {
    const from = lists();
    if (made?.from !== from) made = { from, exemptions: createExemptions(from) };
    return made.exemptions;
  };
}

/** Evaluates what is to be evaluated among namespaces, and lets others go first whenever that has taken a while. */
export async function evaluateAll(
  evaluator: NamespaceEvaluator,
  names: readonly string[],
  context: ReconcileContext,
  note: (name: string, evaluation: NamespaceEvaluation | undefined) => void,
): Promise<void> {
  const { store } = context.cluster;
  function* all(): Generator<undefined> {
    for (const name of names) {
      const namespace = store.get('Namespace', name);
      const isWanted = namespace !== undefined && evaluator.isSelected(namespace);
      note(name, isWanted ? yield* evaluator.steps(namespace, store) : undefined);
      yield;
    }
  }
  await forEachYielding(all(), () => undefined, context);
}

/** The names of all namespaces. */
export function namesOf(namespaces: readonly Namespace[]): readonly string[] {
  return namespaces.flatMap(({ metadata }) => metadata?.name ?? []);
}

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
  const asked = { apiVersion: getApiVersion('Namespace'), kind: 'Namespace', metadata: identityOf(metadata, labels) };
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
  const verdict = parseDryRunWarnings(warnings, currentEnforce);
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
