import { checkSize, TooLargeError } from '../cluster/json.ts';
import type { OlmSettings } from '../config/settings.ts';
import { type AdmissionRequest, allow, type Decision } from '../kube/admission.ts';
import { LIMITS } from '../kube/limits.ts';
import {
  CATALOG_SOURCE_LABEL,
  MARKETPLACE_NAMESPACE,
  OLM_GROUP,
  OLM_NAMESPACES,
  readOlmPod,
  reviewOlmPod,
  UNPACK_LABEL,
} from '../policy/olm/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { WebhookContext } from './webhook.ts';

const CATALOG_POD = `has(object.metadata.labels) && '${CATALOG_SOURCE_LABEL}' in object.metadata.labels`;
const CATALOG_OWNER = `has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, owner.kind == 'CatalogSource' && owner.apiVersion.startsWith('${OLM_GROUP}/'))`;
const UNPACK_POD = `has(object.metadata.labels) && '${UNPACK_LABEL}' in object.metadata.labels`;
const CONTROLLER_NAMESPACES = JSON.stringify([...OLM_NAMESPACES, MARKETPLACE_NAMESPACE]);

/**
 * Matches catalog pods, also without the label, and pods that `operator-sdk run bundle`, unpack Jobs and OLM controllers
 * create.
 */
export const OLM_POD = {
  name: 'olm-pod',
  expression: `(${CATALOG_POD}) || (${CATALOG_OWNER}) || (${UNPACK_POD}) || request.namespace in ${CONTROLLER_NAMESPACES}`,
};

interface HardeningDeps {
  /** Returns the effective mode. */
  mode(): OlmSettings['hardening']['mode'];
  readonly metrics: Metrics['olm'];
}

/** Creates the function that hardens OLM pods on creation. It never denies a pod. */
export function createOlmHardening({ mode: currentMode, metrics }: HardeningDeps) {
  return (request: AdmissionRequest, { store }: Pick<WebhookContext, 'store'>): Decision => {
    const mode = currentMode();
    const pod = mode === 'off' ? undefined : readOlmPod(request);
    if (mode === 'off' || pod === undefined) return allow();
    const warning = findDepthWarning(request.object);
    if (warning !== undefined) return allow({ warnings: [warning] });
    const { namespace = '' } = request;
    const { profile, result, decision } = reviewOlmPod(pod, {
      mode,
      isOpenShift: store.list('SecurityContextConstraints').length > 0,
      findCatalog: (name) => store.get('CatalogSource', name, namespace),
      namespaceLabels: store.get('Namespace', namespace)?.metadata?.labels,
    });
    metrics.hardening.cell({ profile, result }).count++;
    return decision;
  };
}

/** The patch replaces whole lists, so it may contain members of any depth. Returns the warning for a pod that is too deep. */
function findDepthWarning(object: unknown): string | undefined {
  try {
    checkSize(Buffer.from(JSON.stringify(object)), { values: 'jsonValues', levels: 'nestingLevels' });
    return undefined;
  } catch (error) {
    // A RangeError means that the stack does not suffice for the depth.
    if (!(error instanceof TooLargeError || error instanceof RangeError)) throw error;
    countExceeded('nestingLevels');
    return `OLM hardening: the pod is not hardened, because it is nested more than ${LIMITS.nestingLevels} levels deep`;
  }
}
