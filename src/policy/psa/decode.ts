import { type AdmissionRequest, type Decision, deny } from '../../kube/admission.ts';
import { unmarshalError } from '../../kube/field-error.ts';
import { type LimitName, LIMITS } from '../../kube/limits.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { formatApiVersion, parseApiVersion } from '../../kube/resources.ts';
import { badRequest, type Status, tooLarge } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { type GroupVersionKind, isObject, type JsonObject, type KubeObject } from '../../kube/types.ts';
import {
  type ContainerFields,
  type ContainerList,
  createSource,
  type DecodedPod,
  type DecodeError,
  decodePod,
  decodePodAt,
  findPodTemplates,
  int32At,
  objectAt,
  type PodFields,
  printFieldPath,
  type DecodeSource,
  stringAt,
  stringMapAt,
  type WorkloadResource,
} from '../pod/index.ts';

/**
 * The result of decoding an object. `absent` means that the request has no object. The kind of a decoded object comes
 * from the object itself.
 */
export type Decoded = { readonly outcome: 'absent' } | FailedObject | DecodedObject;

interface FailedObject {
  readonly outcome: 'failed';
  readonly error: string;
  /** The limit that an otherwise valid object exceeds. */
  readonly limit: LimitName | undefined;
}

export interface DecodedObject {
  readonly outcome: 'decoded';
  readonly kind: GroupVersionKind;
  readonly object: KubeObject;
  /**
   * The pod or pod template. It is `undefined` for kinds that have no template, and for a ReplicationController that
   * omits its optional template. For other kinds, an absent template is treated as empty, as in Go.
   */
  readonly pod: PodFields | undefined;
}

/**
 * Decodes an object based on its own apiVersion and kind, which default to the request's kind. Ignores unknown fields,
 * as the API server does. If a field that reviews read has the wrong type, returns an error in the API server's
 * wording.
 */
export function decodeObject(raw: unknown, requestKind: GroupVersionKind): Decoded {
  if (raw == null) return { outcome: 'absent' };
  const kind = readKind(raw, requestKind);
  if (typeof kind === 'string') return failed(kind);
  if (!isKnownKind(formatApiVersion(kind), kind.kind)) return failed(notRegistered(kind));
  const object = raw as KubeObject & JsonObject;
  const { pod, error } = readObject(object, kind);
  if (error === undefined) return { outcome: 'decoded', kind, object, pod };
  return failed(error.message, error.field.limit);
}

function failed(error: string, limit?: LimitName): Decoded {
  return { outcome: 'failed', error, limit };
}

/** A pod template in an object of a resource that the settings list. */
interface LocatedTemplate {
  /** Path of the template in the object, followed by a colon. Empty if the object itself is the template. */
  readonly location: string;
  readonly decoded: DecodedPod;
}

/** A decoded workload. Objects of resources that the settings list may have several templates. */
export type DecodedWorkload =
  | Decoded
  | {
      readonly outcome: 'templates';
      readonly templates: readonly LocatedTemplate[];
      /** Paths of containers outside any template. */
      readonly unknown: readonly string[];
    };

/** Maximum number of templates in one object. All templates together may have only as many containers as one pod. */
const MAX_TEMPLATES = 100;

/**
 * Decodes the object of a request. In objects of the given resources, finds templates by their path or shape. The first
 * template beyond the limits is reported as unknown, and later templates are not decoded.
 */
export function decodeWorkload(
  { object, kind, resource: { group, resource } }: AdmissionRequest,
  resources: readonly WorkloadResource[],
): DecodedWorkload {
  const named = resources.find((candidate) => candidate.resource === resource && candidate.group === group);
  if (!named) return decodeObject(object, kind);
  if (!isObject(object)) return { outcome: 'absent' };
  const { templates, composed, unknown } = findPodTemplates(object, named.templatePath);
  const pods = [...templates.map((path) => ({ path, pod: getPodTemplate(object, path) })), ...composed];
  const located: LocatedTemplate[] = [];
  let containers = 0;
  for (const { path, pod } of pods) {
    const decoded = decodePod(pod);
    containers += decoded.pod?.containers.length ?? 0;
    if (located.length >= MAX_TEMPLATES || containers > LIMITS.containers) {
      return { outcome: 'templates', templates: located, unknown: [printFieldPath(path)] };
    }
    located.push({ location: path.length === 0 ? '' : `${printFieldPath(path)}: `, decoded });
  }
  return { outcome: 'templates', templates: located, unknown: unknown.map(printFieldPath) };
}

/** Returns true for a decoded object that has the given kind in the core group. */
export function isCore(decoded: Decoded, kind: string): decoded is DecodedObject {
  return decoded.outcome === 'decoded' && decoded.kind.group === '' && decoded.kind.kind === kind;
}

/** Formats a kind, such as `apps/v1, Kind=Deployment`, or `/v1, Kind=Service` in the core group. */
export function printKind({ group, version, kind }: GroupVersionKind): string {
  return `${group}/${version}, Kind=${kind}`;
}

/** Denies a request with an error. The audit annotation includes the cause, but the response does not. */
export function denyWithError(status: Status, cause?: string): Decision {
  const error = cause === undefined ? status.message : `${status.message}: ${cause}`;
  return deny(status, { auditAnnotations: { error } });
}

/**
 * Denies a request whose object does not have the expected kind. For the old object of an update, `kind` starts with
 * `old `.
 */
export function denyUndecodable(decoded: Decoded, kind: string): Decision {
  if (decoded.outcome !== 'failed') return denyWithError(badRequest(`failed to decode ${kind}`));
  const { error, limit } = decoded;
  if (limit) return { ...denyWithError(tooLarge(error)), limit };
  const old = kind.slice(0, kind.lastIndexOf(' ') + 1);
  return denyWithError(badRequest(`failed to decode ${old}object`), error);
}

/** Returns the object's kind, or an error message. */
function readKind(raw: unknown, requestKind: GroupVersionKind): GroupVersionKind | string {
  const prefix = `couldn't get version/kind; json parse error: `;
  if (!isObject(raw)) return prefix + unmarshalError(raw, '', 'struct');
  const source = createSource(raw, '');
  const apiVersion = stringAt(source, 'apiVersion');
  const kind = stringAt(source, 'kind') || requestKind.kind;
  if (source.state.error !== undefined) return prefix + source.state.error.message;
  if (apiVersion === '') return { ...requestKind, kind };
  if (apiVersion.split('/').length > 2) return `unexpected GroupVersion string: ${apiVersion}`;
  return { ...parseApiVersion(apiVersion), kind };
}

function notRegistered(kind: GroupVersionKind): string {
  return `no kind ${quote(kind.kind)} is registered for version ${quote(formatApiVersion(kind))}`;
}

interface ReadObject {
  readonly pod?: PodFields | undefined;
  readonly error?: DecodeError | undefined;
}

function readObject(object: JsonObject, { group, kind }: GroupVersionKind): ReadObject {
  if (group === '' && kind === 'Pod') return decodePod(object);
  const source = createSource(object, kind);
  const metadata = objectAt(source, 'metadata', 'ObjectMeta');
  if (metadata) {
    stringAt(metadata, 'name');
    stringMapAt(metadata, 'labels');
  }
  const path = podTemplatePath(group, kind);
  const template = path && findTemplate(source, path);
  if (source.state.error !== undefined) return { error: source.state.error };
  if (path === undefined) return {};
  if (template === undefined) return kind === 'ReplicationController' ? {} : decodePod({});
  return decodePodAt(template);
}

/** Finds the template at a path, and verifies the type of `spec.replicas`. */
function findTemplate(source: DecodeSource, path: readonly string[]): DecodeSource | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return source;
  const inner = objectAt(source, key, getStructName(source.struct, key));
  if (inner && source.parent === undefined && key === 'spec') int32At(inner, 'replicas');
  return inner && findTemplate(inner, rest);
}

/** Returns the Go type of a field on the path to a template, such as `DeploymentSpec` for `spec` in `Deployment`. */
function getStructName(struct: string, key: string): string {
  if (key === 'template') return 'PodTemplateSpec';
  if (key === 'jobTemplate') return 'JobTemplateSpec';
  return struct === 'JobTemplateSpec' ? 'JobSpec' : `${struct}Spec`;
}

/** The kinds that the upstream webhook decodes, by apiVersion. It returns an error for objects of any other kind. */
const KINDS: Readonly<Record<string, string>> = {
  v1: `Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node NodeProxyOptions PersistentVolume
    PersistentVolumeClaim Pod PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions
    PodStatusResult PodTemplate RangeAllocation ReplicationController ResourceQuota Secret SerializedReference Service
    ServiceAccount ServiceProxyOptions Status`,
  'apps/v1': 'ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet',
  'batch/v1': 'CronJob Job',
  'admission.k8s.io/v1': 'AdmissionReview',
};

const KNOWN = new Map(Object.entries(KINDS).map(([apiVersion, kinds]) => [apiVersion, new Set(kinds.split(/\s+/))]));

/** Returns true if the upstream webhook decodes objects of this kind. It also decodes lists of these objects. */
export function isKnownKind(apiVersion: string, kind: string): boolean {
  const kinds = KNOWN.get(apiVersion);
  if (kinds === undefined) return false;
  return kinds.has(kind) || (kind.endsWith('List') && kinds.has(kind.slice(0, -'List'.length)));
}

/**
 * Returns true if an update can add violations because it adds or removes a container or changes an image. Containers
 * and init containers are compared by index, and ephemeral containers by name. The other fields that checks read are
 * immutable.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function isSignificantUpdate(pod: PodFields, old: PodFields): boolean {
  return (
    differByPosition(containersIn(pod, 'containers'), containersIn(old, 'containers')) ||
    differByPosition(containersIn(pod, 'initContainers'), containersIn(old, 'initContainers')) ||
    differByName(containersIn(pod, 'ephemeralContainers'), containersIn(old, 'ephemeralContainers'))
  );
}

function containersIn({ containers }: PodFields, list: ContainerList): readonly ContainerFields[] {
  return containers.filter((container) => container.list === list);
}

function differByPosition(containers: readonly ContainerFields[], old: readonly ContainerFields[]): boolean {
  return containers.length !== old.length || containers.some(({ image }, index) => image !== old[index]?.image);
}

/**
 * Returns true if the ephemeral containers changed significantly. Removed containers are not significant. If several
 * containers have the same name, the first one is compared.
 */
function differByName(containers: readonly ContainerFields[], old: readonly ContainerFields[]): boolean {
  const images = new Map(old.toReversed().map(({ name, image }) => [name, image]));
  return containers.some(({ name, image }) => images.get(name) !== image);
}
