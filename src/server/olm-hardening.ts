import { checkSize, TooLargeError } from '../cluster/json.ts';
import type { OlmSettings } from '../config/settings.ts';
import { type AdmissionRequest, allow, type Decision } from '../kube/admission.ts';
import { LIMITS } from '../kube/limits.ts';
import { readOlmPod, reviewOlmPod } from '../policy/olm/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { WebhookContext } from './webhook.ts';

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
