/** Evaluates the workloads of namespaces. */
import type { Store } from '../cluster/store.ts';
import type { CustomPodSource } from '../kube/controller-pod.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../kube/scc.ts';
import type { Namespace } from '../kube/types.ts';
import type { PodDefaults, PodSecurity } from '../policy/psa/index.ts';
import type { ExceptionIndex, Version } from '../policy/pss/index.ts';
import {
  admitTemplatePod,
  createSccAccess,
  evaluateStepwise,
  getTemplatePod,
  inconclusive,
  type ManagementSettings,
  type NamespaceEvaluation,
} from '../policy/rollout/index.ts';
import { sccMode, type SccSettings } from '../policy/scc/index.ts';
import { sccAccess, getSccSet } from './access.ts';
import type { NamespacePolicies } from './rollout.ts';
import { listPodCreators, TEMPLATE_KINDS } from './workloads.ts';

export interface EvaluationSettings {
  /** Returns the effective Pod Security configuration. */
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
  /** Limit for the violation details of evaluations that are kept in memory. If absent, there is no limit. */
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
  const { current, planned, isSelected } = yield* settings.policies(namespace, store);
  const { mode } = sccMode(namespace, management.scc);
  const pods = store.list('Pod', name);
  const sccs = store.list('SecurityContextConstraints');
  const missing = mode === 'enforce' ? missingPrerequisite(namespace, sccs) : undefined;
  const workloads = yield* listPodCreators(store, name, customSources, TEMPLATE_KINDS);
  const isLimited = isSelected || current.level !== 'privileged' || planned?.level !== 'privileged';
  if (missing !== undefined && isLimited && pods.length + workloads.length > 0) {
    return inconclusive({ name, current: current.level, currentVersion: current.version, isSelected }, missing);
  }
  const exceptions = settings.exceptions?.(name, store);
  yield;
  const context = templateContext(namespace, store, { defaults, scc: management.scc });
  return yield* evaluateStepwise({
    namespace,
    current,
    planned,
    isSelected,
    emulationVersion,
    pods,
    detailCharacters: settings.detailCharacters,
    complete: (pod) => admitTemplatePod(pod, context),
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
      return scc !== undefined && createSccAccess(account, name, context.access)(scc);
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
    access: sccAccess(store),
    findAccount: (account: string) => store.get('ServiceAccount', account, namespace.metadata?.name ?? ''),
    defaults: defaults && { defaults, scc },
    compatibility: scc.compatibility,
    preferUserNamespaces: scc.preferUserNamespaces,
  };
}

/**
 * Returns the reason why SCC admission cannot default pod templates, or `undefined` if it can. Without defaulting,
 * nearly all workloads would violate the restricted level.
 */
function missingPrerequisite({ metadata }: Namespace, sccs: readonly unknown[]): string | undefined {
  if ((metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') === '') {
    return `annotation ${NAMESPACE_RANGE_ANNOTATIONS.uidRange} is missing`;
  }
  return sccs.length === 0 ? 'no SecurityContextConstraints exist' : undefined;
}
