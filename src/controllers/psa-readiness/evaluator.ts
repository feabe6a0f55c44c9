import { createPredictedLevels } from '../../cluster/predicted-level.ts';
import { canUseScc } from '../../cluster/select.ts';
import type { Store } from '../../cluster/store.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { PodSecurityConfiguration } from '../../policy/psa/configuration.ts';
import { createExemptions, type Exemptions } from '../../policy/psa/exemptions.ts';
import type { ManagementSettings } from '../../policy/rollout/label-sync.ts';
import { mayUseAs } from '../../policy/rollout/label-sync/usable-sccs.ts';
import { evaluateInSteps, isSelected, type NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';
import { sccModeOf } from '../../policy/scc/mode.ts';
import { podSourcesOf } from '../../cluster/workloads.ts';
import { createAdmittedTemplates, TEMPLATE_KINDS, type AdmittedTemplates } from './admitted-templates.ts';

export interface EvaluatorOptions {
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
