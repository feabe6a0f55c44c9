/** Computes the pods that workloads create, including the fields that admission defaults. */
import { type FindServiceAccount, getControllerPod, type PodCreator } from '../../kube/controller-pod.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { type DecodedPod, decodePod, type PodFields, printFieldPath } from '../pod/index.ts';
import { completeTemplate, type DefaultsSettings } from '../psa/index.ts';
import { admitTemplate, type SccMode, type TemplateInput } from '../scc/index.ts';

/** A pod that a workload would create, as admission would default it. */
export interface TemplatePod {
  readonly kind: string;
  readonly name: string;
  /** Path of the template in the workload, such as `spec.template`. */
  readonly path: string;
  readonly pod: DecodedPod;
  /**
   * Returns the path of a pod field in the workload. By default, this is the path of the template followed by the
   * field.
   */
  readonly sourceField?: (podField: string) => string;
}

/** Input for admitting the pod of a template. */
interface TemplateContext extends TemplateInput {
  /** SCC mode of the namespace. SCC admission defaults pods only in `enforce` mode. */
  readonly sccMode: SccMode;
  /** The pod defaults for namespaces that do not enforce SCCs. If absent, no defaults are applied. */
  readonly defaults?: DefaultsSettings | undefined;
  readonly findAccount?: FindServiceAccount;
}

/**
 * Returns the pod of a workload, which is defaulted either by SCC admission for the service account or with the pod
 * defaults. Without defaulting, nearly every template would violate the level. Returns the pod unchanged if no SCC
 * admits it. Returns `undefined` for an object that has no pod template.
 */
export function getTemplatePod(source: PodCreator, context: TemplateContext): TemplatePod | undefined {
  const { kind, object } = source;
  const path = source.template ?? podTemplatePath(RESOURCES[source.kind].group, kind);
  const created = getControllerPod(source, context.findAccount);
  if (path === undefined || created === undefined) return undefined;
  const { name = '' } = object.metadata ?? {};
  const decoded = decodePod(created.pod);
  const pod = decoded.pod ? { pod: admitTemplatePod(decoded.pod, context) } : decoded;
  const sourceField = source.template && source.sourceField;
  return { kind, name, path: printFieldPath(path), pod, ...(sourceField && { sourceField }) };
}

/** Returns the pod as admission would default it, or the unchanged pod if no SCC admits it. */
export function admitTemplatePod(pod: PodFields, context: TemplateContext): PodFields {
  const { sccMode, namespace, defaults } = context;
  if (sccMode === 'enforce') return admitTemplate(pod, context).pod;
  return defaults ? completeTemplate(pod, namespace, defaults) : pod;
}
