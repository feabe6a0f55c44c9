import { checkSize, TooLargeError } from '../cluster/json.ts';
import type { Store } from '../cluster/store.ts';
import type { OlmSettings } from '../config/settings.ts';
import { type AdmissionRequest, allow, type Decision } from '../kube/admission.ts';
import { defined } from '../kube/defined.ts';
import { LIMITS } from '../kube/limits.ts';
import { metadataProblem } from '../kube/names.ts';
import { quote } from '../kube/text.ts';
import { isObject, type Pod } from '../kube/types.ts';
import {
  CATALOG_SOURCE_LABEL,
  catalogMode,
  type Hardened,
  hardenPod,
  MARKETPLACE_NAMESPACE,
  OLM_GROUP,
  OLM_NAMESPACES,
  type ProfileId,
  type Recognized,
  recognizeWorkload,
  resolveCatalogSource,
  UNPACK_LABEL,
} from '../policy/olm/index.ts';
import { decodeMutablePod, type PodFields } from '../policy/pod/index.ts';
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

type Mode = OlmSettings['hardening']['mode'];

interface HardeningDeps {
  /** Returns the effective mode. */
  mode(): Mode;
  readonly metrics: Metrics['olm'];
}

/** Creates the function that hardens OLM pods on creation. It never denies a pod. */
export function createOlmHardening({ mode: currentMode, metrics }: HardeningDeps) {
  return (request: AdmissionRequest, { store }: Pick<WebhookContext, 'store'>): Decision => {
    const mode = currentMode();
    const pod = mode === 'off' ? undefined : readNewPod(request);
    const recognized = pod && recognizePod(pod);
    if (pod === undefined || recognized === undefined) return allow();
    const warning = findDepthWarning(request.object);
    if (warning !== undefined) return allow({ warnings: [warning] });
    const review = reviewPod(pod, { ...recognized, mode, store });
    metrics.hardening.cell({ profile: recognized.profile, result: review.result }).count++;
    return toDecision(review, { mode, profile: recognized.profile });
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

interface NewPod {
  readonly metadata: NonNullable<Pod['metadata']>;
  readonly pod: PodFields;
}

/** Returns the pod in a request, or `undefined` for pods that API servers reject. */
function readNewPod({ object, namespace }: AdmissionRequest): NewPod | undefined {
  if (!isObject(object)) return undefined;
  const metadata = object['metadata'] ?? {};
  if (!isObject(metadata) || metadataProblem(metadata)) return undefined;
  const decoded = decodeMutablePod(object);
  if ('error' in decoded) return undefined;
  return { metadata: { ...metadata, ...defined({ namespace }) }, pod: decoded.pod };
}

function recognizePod({ metadata, pod }: NewPod): Recognized | undefined {
  const names = (list: string): readonly string[] =>
    pod.containers.filter((container) => container.list === list).map(({ name }) => name);
  return recognizeWorkload({
    kind: 'Pod',
    metadata,
    containers: names('containers'),
    initContainers: names('initContainers'),
  });
}

interface Review {
  readonly result: 'hardened' | 'reported' | 'compliant' | 'conflict' | 'legacy';
  readonly problems: readonly string[];
  readonly hardened?: Hardened;
}

interface ReviewContext extends Recognized {
  readonly mode: Mode;
  readonly store: Store;
}

function reviewPod({ metadata, pod }: NewPod, { mode, store, ...recognized }: ReviewContext): Review {
  const { profile } = recognized;
  const catalog = isCatalog(profile) ? reviewCatalog(metadata, profile, store) : { isLegacy: false, problems: [] };
  const { problems } = catalog;
  if (catalog.isLegacy) return { result: 'legacy', problems };
  const isOpenShift = store.list('SecurityContextConstraints').length > 0;
  const hardened = hardenPod({ ...recognized, isOpenShift, isForced: mode === 'force', pod });
  const changed = mode === 'report' ? 'reported' : 'hardened';
  const unchanged = hardened.conflicts.length > 0 ? 'conflict' : 'compliant';
  return { result: hardened.changes.length > 0 ? changed : unchanged, problems, hardened };
}

function isCatalog(profile: ProfileId): boolean {
  return profile === 'catalog-source' || profile === 'run-bundle';
}

/** Reads the security context mode from the CatalogSource, because users can forge pod labels. */
function reviewCatalog(metadata: NewPod['metadata'], profile: ProfileId, store: Store) {
  const { namespace = '' } = metadata;
  const { name, catalog } = resolveCatalogSource(metadata, (source) => store.get('CatalogSource', source, namespace));
  const { mode, problems } = catalogMode(catalog, store.get('Namespace', namespace)?.metadata?.labels);
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

function toDecision({ result, problems, hardened }: Review, { mode, profile }: { mode: Mode; profile: ProfileId }) {
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
 * Returns the field at a path, such as `capabilities.drop` for `spec.containers[0].securityContext.capabilities.drop`.
 */
function fieldName(path: string): string {
  return path.replace(/^.*securityContext\./, '');
}
