import { controllerPodOf, type FindServiceAccount } from '../../../kube/controller-pod.ts';
import { podTemplatePath } from '../../../kube/pod.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { isObject, type Kind, type KubeObject, type Namespace, type PodLike } from '../../../kube/types.ts';
import { serviceAccountSubject } from '../../scc/access.ts';
import { assignScc } from '../../scc/assign.ts';
import type { SccMode } from '../../scc/mode.ts';
import type { CanUse } from '../../scc/types.ts';

/** A pod that a workload would make, as it would be admitted. */
export interface TemplatePod {
  readonly kind: string;
  readonly name: string;
  /** Where the workload keeps the template: `spec.template`. */
  readonly path: string;
  readonly pod: PodLike;
}

/** What the pods of a workload meet on their way in. */
export interface TemplateSurroundings {
  readonly namespace: Namespace;
  /** Of the namespace: unless SCCs are enforced there, pods stay as their template is. */
  readonly sccMode: SccMode;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly canUse: CanUse;
  readonly findAccount?: FindServiceAccount;
}

/**
 * The pod of a workload as SCCs complete it for its service account, since without that nearly every template seems to
 * violate something; as it stands where no SCC admits it. `undefined` for what has no template.
 */
export function templatePodOf(
  kind: Kind,
  object: KubeObject,
  surroundings: TemplateSurroundings,
): TemplatePod | undefined {
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  const made = controllerPodOf(object, kind, surroundings.findAccount);
  if (path === undefined || made === undefined) return undefined;
  const { name = '' } = object.metadata ?? {};
  return { kind, name, path: path.join('.'), pod: admitted(made.pod, surroundings) };
}

function admitted(pod: PodLike, { namespace, sccMode, sccs, canUse }: TemplateSurroundings): PodLike {
  if (sccMode !== 'enforce') return pod;
  const account = pod.spec?.serviceAccountName ?? 'default';
  const userInfo = serviceAccountSubject(namespace.metadata?.name ?? '', account, 'accurate');
  const decision = assignScc({ operation: 'CREATE', object: pod, namespace, userInfo, sccs, canUse });
  return decision.allowed && isObject(decision.object) ? decision.object : pod;
}
