/** The pods that workloads create, as admission defaults them. */
import { type FindServiceAccount, getControllerPod, type PodCreator } from '../../kube/controller-pod.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { type DecodedPod, decodePod, type PodFields } from '../pod/pod.ts';
import { printFieldPath } from '../pod/templates.ts';
import { completeTemplate, type DefaultsSettings } from '../psa/defaults.ts';
import { admitTemplate, type TemplateInput } from '../scc/assign.ts';
import type { SccMode } from '../scc/mode.ts';

/** A pod that a workload would create, as admission would default it. */
export interface TemplatePod {
  readonly kind: string;
  readonly name: string;
  /** Path of the template in the workload, such as `spec.template`. */
  readonly path: string;
  readonly pod: DecodedPod;
}

/** Input for admitting the pods of a template. */
interface TemplateContext extends TemplateInput {
  /** SCC mode of the namespace. Unless it is `enforce`, SCC admission does not change pods. */
  readonly sccMode: SccMode;
  /** The pod defaults for namespaces where SCCs are not enforced. If absent, no defaults are applied. */
  readonly defaults?: DefaultsSettings | undefined;
  readonly findAccount?: FindServiceAccount;
}

/**
 * Returns the pod of a workload as SCC admission defaults it for the service account, or with the pod defaults. It is
 * unchanged if no SCC admits it. Without this step, nearly every template would violate the level. Returns `undefined`
 * for an object without a pod template.
 */
export function getTemplatePod(source: PodCreator, context: TemplateContext): TemplatePod | undefined {
  const { kind, object } = source;
  const path = source.template ?? podTemplatePath(RESOURCES[source.kind].group, kind);
  const created = getControllerPod(source, context.findAccount);
  if (path === undefined || created === undefined) return undefined;
  const { name = '' } = object.metadata ?? {};
  const decoded = decodePod(created.pod);
  const pod = decoded.pod ? { pod: completePod(decoded.pod, context) } : decoded;
  return { kind, name, path: printFieldPath(path), pod };
}

/** Returns the pod as admission defaults it. It is unchanged if no SCC admits it. */
export function completePod(pod: PodFields, context: TemplateContext): PodFields {
  const { sccMode, namespace, defaults } = context;
  if (sccMode === 'enforce') return admitTemplate(pod, context).pod;
  return defaults ? completeTemplate(pod, namespace, defaults) : pod;
}
