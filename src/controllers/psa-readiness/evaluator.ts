import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES, podSourcesOf, type PodSource } from '../../cluster/workloads.ts';
import type { Reach, ManagementSettings } from '../../policy/rollout/label-sync.ts';
import { isStricter } from '../../policy/psa/policy.ts';
import {
  templatePodOf,
  type TemplatePod,
  type TemplateSurroundings,
  evaluateInSteps,
  isSelected,
  type NamespaceEvaluation,
} from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';
import { createPredictedLevels } from '../../cluster/predicted-level.ts';
import { canUseScc } from '../../cluster/select.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { PodSecurityConfiguration } from '../../policy/psa/configuration.ts';
import { createExemptions, type Exemptions } from '../../policy/psa/exemptions.ts';
import { mayUseAs } from '../../policy/rollout/label-sync/usable-sccs.ts';
import { sccModeOf } from '../../policy/scc/mode.ts';

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
        for (const source of podSourcesOf(store, name, TEMPLATE_KINDS)) {
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
  const levelOf = createPredictedLevels(management);
  const exemptionsOfNow = createCurrentExemptions(exemptions);

  return {
    forget: templates.forget,
    leave: templates.leave,
    reset: templates.reset,
    levelOf,
    isSelected: (namespace) => isSelected(namespace, exemptionsOfNow()),
    *steps(namespace, store) {
      const name = namespace.metadata?.name ?? '';
      const sccMode = sccModeOf(namespace, management.scc).mode;
      const pods = store.list('Pod', name);
      const sccs = store.list('SecurityContextConstraints');
      const missing = sccMode === 'enforce' ? missingFor(namespace, sccs) : undefined;
      if (missing !== undefined) {
        const isEmpty = pods.length === 0 && podSourcesOf(store, name, TEMPLATE_KINDS).length === 0;
        if (!isEmpty) return unknown(name, missing);
      }
      const level = levelOf(namespace, store);
      const canUse = canUseScc(store);
      const findAccount = (account: string) => store.get('ServiceAccount', account, name);
      return yield* evaluateInSteps({
        namespace,
        level,
        pods,
        ...templates.in(store, level ?? 'restricted', { namespace, sccMode, sccs, canUse, findAccount }),
        exemptions: exemptionsOfNow(),
        exists: (kind, owner) => store.get(kind, owner, name) !== undefined,
        sccMode,
        mayUse(account, sccName) {
          const scc = store.get('SecurityContextConstraints', sccName);
          return scc !== undefined && mayUseAs(account, name, canUse)(scc);
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
