/** Reviews the pods of the Operator Lifecycle Manager (OLM), and hardens them if the mode requires it. */
import { type AdmissionRequest, allow, type Decision } from '../../kube/admission.ts';
import { defined } from '../../kube/defined.ts';
import { metadataProblem } from '../../kube/names.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type Pod } from '../../kube/types.ts';
import { decodeMutablePod, type PodFields } from '../pod/index.ts';
import { catalogMode } from './catalog-source.ts';
import { type Hardened, hardenPod, type ProfileId } from './hardening.ts';
import { type Recognized, recognizeWorkload, resolveCatalogSource } from './recognition.ts';

/** A pod that was recognized as an OLM pod. */
interface OlmPod {
  readonly metadata: NonNullable<Pod['metadata']>;
  readonly pod: PodFields;
  readonly recognized: Recognized;
}

/** Reads the pod in a request. Returns `undefined` for other pods, and for pods that API servers reject. */
export function readOlmPod({ object, namespace }: AdmissionRequest): OlmPod | undefined {
  if (!isObject(object)) return undefined;
  const own = object['metadata'] ?? {};
  if (!isObject(own) || metadataProblem(own)) return undefined;
  const decoded = decodeMutablePod(object);
  if ('error' in decoded) return undefined;
  const { pod } = decoded;
  const metadata = { ...own, ...defined({ namespace }) };
  const names = (list: string): readonly string[] =>
    pod.containers.filter((container) => container.list === list).map(({ name }) => name);
  const [containers, initContainers] = [names('containers'), names('initContainers')];
  const recognized = recognizeWorkload({ kind: 'Pod', metadata, containers, initContainers });
  return recognized && { metadata, pod, recognized };
}

interface OlmPodState {
  readonly mode: 'report' | 'fill' | 'force';
  /** True if SCC admission sets the user of the pod. */
  readonly isOpenShift: boolean;
  /** Returns a CatalogSource in the pod's namespace. */
  findCatalog: Parameters<typeof resolveCatalogSource>[1];
  readonly namespaceLabels: Parameters<typeof catalogMode>[1];
}

interface OlmPodReview {
  readonly profile: ProfileId;
  readonly result: 'hardened' | 'reported' | 'compliant' | 'conflict' | 'legacy';
  readonly decision: Decision;
}

/** Hardens a pod. In `report` mode, only reports the fields that would change. Never denies a pod. */
export function reviewOlmPod({ metadata, pod, recognized }: OlmPod, state: OlmPodState): OlmPodReview {
  const { mode, isOpenShift } = state;
  const { profile } = recognized;
  const isCatalog = profile === 'catalog-source' || profile === 'run-bundle';
  const catalog = isCatalog ? reviewCatalog(metadata, profile, state) : { isLegacy: false, problems: [] };
  const { problems, isLegacy } = catalog;
  if (isLegacy) return { profile, result: 'legacy', decision: decide({ result: 'legacy', problems, mode, profile }) };
  const hardened = hardenPod({ ...recognized, isOpenShift, isForced: mode === 'force', pod });
  const changed = mode === 'report' ? 'reported' : 'hardened';
  const unchanged = hardened.conflicts.length > 0 ? 'conflict' : 'compliant';
  const result = hardened.changes.length > 0 ? changed : unchanged;
  return { profile, result, decision: decide({ result, problems, hardened, mode, profile }) };
}

/** Reads the security context mode from the CatalogSource, because users can forge pod labels. */
function reviewCatalog(
  metadata: OlmPod['metadata'],
  profile: ProfileId,
  { findCatalog, namespaceLabels }: OlmPodState,
) {
  const { namespace = '' } = metadata;
  const { name, catalog } = resolveCatalogSource(metadata, findCatalog);
  const { mode, problems } = catalogMode(catalog, namespaceLabels);
  const isLegacy = mode === 'legacy';
  return {
    isLegacy,
    problems: [
      ...(catalog ? [] : [`CatalogSource ${quote(name)} not found in namespace ${quote(namespace)}; ${BY_NAMESPACE}`]),
      ...(isLegacy && profile === 'run-bundle' ? [LEGACY_BUNDLE] : []),
      ...problems,
    ],
  };
}

const BY_NAMESPACE = 'the enforce label of the namespace determines the security context of its pods';
const LEGACY_BUNDLE =
  'catalog pod runs without a restricted security context; set --security-context-config=restricted or rebuild the catalog';

interface Outcome extends Pick<OlmPodReview, 'profile' | 'result'> {
  readonly mode: OlmPodState['mode'];
  readonly problems: readonly string[];
  readonly hardened?: Hardened;
}

function decide({ result, problems, hardened, mode, profile }: Outcome): Decision {
  const { pod, changes = [], conflicts = [] } = hardened ?? {};
  const fields = [...new Set(changes.map(fieldName))].join(', ');
  const warnings = [
    ...(mode === 'report' && changes.length > 0 ? [`the profile ${profile} would set ${fields}`] : []),
    ...conflicts.map(({ message }) => message),
    ...problems,
  ].map((text) => (text === LEGACY_BUNDLE ? text : `OLM hardening: ${text}`));
  return allow({
    ...(mode === 'report' || changes.length === 0 ? {} : { object: pod }),
    ...(warnings.length === 0 ? {} : { warnings }),
    facts: { profile, hardening: result, ...(fields === '' ? {} : { fields }) },
  });
}

/**
 * Returns the part of a path after the security context, such as `capabilities.drop` for
 * `spec.containers[0].securityContext.capabilities.drop`.
 */
function fieldName(path: string): string {
  return path.replace(/^.*securityContext\./, '');
}
