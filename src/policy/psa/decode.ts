import { isObject, type JsonObject, type GroupVersionKind, type KubeObject } from '../../kube/types.ts';
import { unmarshalError } from '../../kube/field-error.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { quote } from '../../kube/text.ts';
import { decodeError } from '../pss/evaluate.ts';
import { isKnownKind } from './known-kinds.ts';

/** The types of some fields; `*` stands for every key. Fields that a shape does not name may hold anything. */
export type Shape = 'string' | 'int32' | { readonly [field: string]: Shape };

/** Names the first field that has a wrong type, in the words of the API server's decoder; null fits every type. */
export function wrongType(value: unknown, shape: Shape, path: string): string | undefined {
  if (value == null) return undefined;
  if (typeof shape === 'string') return isOfType(value, shape) ? undefined : unmarshalError(value, path, shape);
  if (!isObject(value)) return unmarshalError(value, path, Object.hasOwn(shape, '*') ? 'map[string]string' : 'struct');
  for (const [field, type] of Object.entries(shape)) {
    for (const key of field === '*' ? Object.keys(value) : [field]) {
      const error = wrongType(own(value, key), type, `${path}.${key}`);
      if (error !== undefined) return error;
    }
  }
  return undefined;
}

function own(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function isOfType(value: unknown, type: 'string' | 'int32'): boolean {
  return type === 'string' ? typeof value === 'string' : typeof value === 'number' && (value | 0) === value;
}

/** The object of a request: there is none, or it cannot be decoded, or here it is with its own kind. */
export type Decoded = { readonly outcome: 'absent' } | { readonly outcome: 'failed'; readonly error: string } | Found;

interface Found {
  readonly outcome: 'decoded';
  readonly kind: GroupVersionKind;
  readonly object: KubeObject;
}

const ABSENT: Decoded = { outcome: 'absent' };

/**
 * Decodes an object by its own apiVersion and kind, or where it has none by those of the request. Unknown fields are
 * ignored, as by the API server; a wrong type in a field that decisions read is a failure.
 */
export function decodeObject(raw: unknown, requestKind: GroupVersionKind): Decoded {
  if (raw == null) return ABSENT;
  const kind = kindOf(raw, requestKind);
  if (typeof kind === 'string') return { outcome: 'failed', error: kind };
  const error = isKnownKind(printVersion(kind), kind.kind) ? wrongTypeIn(raw, kind) : notRegistered(kind);
  return error === undefined ? { outcome: 'decoded', kind, object: raw } : { outcome: 'failed', error };
}

/** True for an object of that kind of the core group. */
export function isCore(decoded: Decoded, kind: string): decoded is Found {
  return decoded.outcome === 'decoded' && decoded.kind.group === '' && decoded.kind.kind === kind;
}

/** `apps/v1, Kind=Deployment`; in the core group `/v1, Kind=Service`. */
export function printKind({ group, version, kind }: GroupVersionKind): string {
  return `${group}/${version}, Kind=${kind}`;
}

const TYPE_META: Shape = { apiVersion: 'string', kind: 'string' };

/** The kind, or what is wrong with what stands in its place. */
function kindOf(raw: unknown, requestKind: GroupVersionKind): GroupVersionKind | string {
  if (
    isObject(raw) &&
    raw.apiVersion === requestKind.version &&
    raw.kind === requestKind.kind &&
    requestKind.group === ''
  ) {
    return requestKind;
  }
  const error = wrongType(raw, TYPE_META, '');
  if (error !== undefined) return `couldn't get version/kind; json parse error: ${error}`;
  const { apiVersion, kind } = raw as KubeObject;
  const parts = apiVersion == null || apiVersion === '' ? undefined : apiVersion.split('/');
  if (parts && parts.length > 2) return `unexpected GroupVersion string: ${apiVersion ?? ''}`;
  const [version = '', group = ''] = parts?.reverse() ?? [requestKind.version, requestKind.group];
  return { group, version, kind: kind == null || kind === '' ? requestKind.kind : kind };
}

function printVersion({ group, version }: GroupVersionKind): string {
  return group === '' ? version : `${group}/${version}`;
}

function notRegistered(kind: GroupVersionKind): string {
  return `no kind ${quote(kind.kind)} is registered for version ${quote(printVersion(kind))}`;
}

/** What is read of objects of every kind. */
const OBJECT: Shape = { metadata: { name: 'string', labels: { '*': 'string' } } };
const WORKLOAD: Shape = { ...OBJECT, spec: { replicas: 'int32' } };

function wrongTypeIn(object: KubeObject, { group, kind }: GroupVersionKind): string | undefined {
  if (group === '' && kind === 'Pod') return decodeError(object);
  const path = podTemplatePath(group, kind);
  if (!path) return wrongType(object, OBJECT, kind);
  // The way to the template is paved with objects; the template itself is decoded as a pod.
  const way = path.reduceRight<Shape>((inner, name) => ({ [name]: inner }), {});
  const template = getPodTemplate(object, path);
  return wrongType(object, WORKLOAD, kind) ?? wrongType(object, way, kind) ?? (template && decodeError(template));
}
