import type { AdmissionRequest } from '../../kube/admission.ts';
import { isObject, type Namespace } from '../../kube/types.ts';
import { SCC_MODE_LABEL, sccModeOf, type SccSettings } from './mode.ts';

type ModeSettings = Pick<SccSettings, 'mode' | 'exemptNamespaces'>;

/**
 * What whoever labels a namespace has to know of the label that says its mode, in the words that authors of pods will get:
 * `undefined` if nothing, or if it was so before.
 */
export function warnOfModeLabel(request: AdmissionRequest, settings: ModeSettings): string | undefined {
  const { kind, operation, subResource } = request;
  if (kind.kind !== 'Namespace' || kind.group || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const problem = problemOf(request.object, settings);
  return problem === problemOf(request.oldObject, settings) ? undefined : problem;
}

function problemOf(object: unknown, settings: ModeSettings): string | undefined {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  if (!isObject(labels) || typeof labels[SCC_MODE_LABEL] !== 'string') return undefined;
  return sccModeOf(object as Namespace, settings).problem;
}
