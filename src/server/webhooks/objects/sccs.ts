import type { Store } from '../../../cluster/store.ts';
import { type AdmissionRequest, allow, deny } from '../../../kube/admission.ts';
import type { FieldError } from '../../../kube/field-error.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { invalid, type Status } from '../../../kube/status.ts';
import { isObject, type Namespace, objectMember } from '../../../kube/types.ts';
import {
  defaultScc,
  findSccTypeError,
  sccMode,
  type SccSettings,
  sccWarnings,
  validateSccObject,
} from '../../../policy/scc/index.ts';
import { sccAccess } from '../../../views/access.ts';
import { isReplaced } from '../../../views/workloads.ts';
import type { Discloses } from '../../disclosure.ts';
import type { Evaluations } from '../../evaluations.ts';
import type { ObjectReviewer } from '../../webhook.ts';

const KIND = { group: RESOURCES.SecurityContextConstraints.group, kind: 'SecurityContextConstraints' };

interface SccObjectsDeps {
  settings(): SccSettings;
  /** True if a controller restores the standard SCCs after changes. */
  restoresStandardSccs?: (() => boolean) | undefined;
  readonly evaluate: Evaluations;
  readonly discloses: Discloses;
}

/**
 * Creates the reviewer that defaults SCCs, denies invalid SCCs, and warns about the effects of valid SCCs on existing
 * pods. API servers validate the schema after defaulting, and would otherwise report every field that an SCC omits. An
 * SCC with a field of the wrong type cannot be defaulted, and is denied with an error that names the field.
 */
export function createSccObjectReviewer(deps: SccObjectsDeps): ObjectReviewer {
  const isOff = (): boolean => deps.settings().mode === 'off';
  return {
    enforces: () => !isOff(),
    change(request) {
      // A review without an object cannot be patched. The validating review denies it.
      if (isOff() || request.object == null) return allow();
      const scc = requestedScc(request);
      const error = findSccTypeError(scc);
      return error ? deny(invalidScc(request, [error])) : allow({ object: defaultScc(scc) });
    },
    async validate(request, context) {
      if (isOff()) return allow();
      const scc = requestedScc(request);
      const errors = validateSccObject(scc);
      if (errors.length > 0) return deny(invalidScc(request, errors));
      // In `openshift` compatibility mode, there are no warnings, because OpenShift does not warn about SCCs.
      if (deps.settings().compatibility === 'openshift') return allow();
      return allow({ warnings: await deps.evaluate(findWarnings(scc, request, context.store, deps), context) });
    },
  };
}

/** Maximum number of pods to evaluate for warnings. */
const MAX_PODS = 3000;

function findWarnings(
  scc: SecurityContextConstraints,
  request: AdmissionRequest,
  store: Store,
  deps: SccObjectsDeps,
): ReturnType<typeof sccWarnings> {
  const settings = deps.settings();
  const { oldObject } = request;
  return sccWarnings({
    scc,
    ...(isObject(oldObject) ? { oldScc: oldObject } : {}),
    sccs: store.list('SecurityContextConstraints'),
    pods: store.list('Pod').filter((pod) => isReplaced(pod, store)),
    findNamespace: (name) => findNamespace(store, name, settings),
    access: sccAccess(store),
    maxPods: MAX_PODS,
    showsNamespaces: deps.discloses(request, store, 'SecurityContextConstraints'),
    reconcilesStandardSccs: deps.restoresStandardSccs?.() ?? false,
  });
}

/** Returns the namespace, or `undefined` if SCCs do not apply to it. */
function findNamespace(store: Store, name: string, settings: SccSettings): Namespace | undefined {
  const namespace = store.get('Namespace', name);
  return namespace && sccMode(namespace, settings).mode !== 'off' ? namespace : undefined;
}

/** Returns the SCC that a request writes, with fields of any type. */
function requestedScc({ object }: AdmissionRequest): SecurityContextConstraints {
  return isObject(object) ? object : {};
}

/** Returns the API server's 422 status for an invalid object. */
function invalidScc(request: AdmissionRequest, errors: readonly FieldError[]): Status {
  const { name } = objectMember(request.object, 'metadata');
  return invalid(KIND, typeof name === 'string' ? name : (request.name ?? ''), errors);
}
