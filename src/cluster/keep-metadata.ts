import { isObject, type JsonObject } from '../kube/types.ts';
import { createInternText } from './intern-text.ts';
import type { Intern } from './intern.ts';

/** Keeps the metadata of objects; what is equal in many is held but once, and what is no object stays as it is. */
export interface MetadataKeeper {
  /** All but who owns which field. */
  whole(metadata: unknown): unknown;
  /** That, and not what kubectl has applied last. */
  withoutLastApplied(metadata: unknown): unknown;
  /** All, and the sets of owned fields shared. */
  withOwners(metadata: unknown): unknown;
  /** Of objects of which there are many: what names them, where they come from, and what decisions may read. */
  part(metadata: unknown): unknown;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** Of many objects not worth their memory: nobody reads them. */
const UNREAD: readonly string[] = ['managedFields', 'labels', 'generateName', 'creationTimestamp', 'selfLink'];
/** More than a large cluster has namespaces. */
const NAMESPACES = 20_000;

export function createMetadataKeeper(intern: Intern): MetadataKeeper {
  const internText = createInternText(NAMESPACES);
  const share = (metadata: JsonObject): JsonObject => {
    const { namespace, labels, ownerReferences } = metadata;
    return {
      ...metadata,
      ...(typeof namespace === 'string' ? { namespace: internText(namespace) } : {}),
      ...(labels == null ? {} : { labels: intern(labels) }),
      ...(ownerReferences == null ? {} : { ownerReferences: intern(ownerReferences) }),
    };
  };
  const withAnnotations = (metadata: JsonObject, keep: (annotations: JsonObject) => JsonObject): JsonObject => {
    const { annotations } = metadata;
    return isObject(annotations) ? { ...metadata, annotations: intern(keep(annotations)) } : metadata;
  };
  const ifObject =
    (keep: (metadata: JsonObject) => JsonObject) =>
    (metadata: unknown): unknown =>
      isObject(metadata) ? keep(metadata) : metadata;
  const whole = (metadata: JsonObject): JsonObject => share(without(metadata, 'managedFields'));

  return {
    whole: ifObject(whole),
    withoutLastApplied: ifObject((metadata) =>
      withAnnotations(whole(metadata), (annotations) => without(annotations, LAST_APPLIED)),
    ),
    withOwners: ifObject((metadata) => {
      const { managedFields } = metadata;
      return Array.isArray(managedFields)
        ? { ...share(metadata), managedFields: managedFields.map((entry) => shareFields(entry, intern)) }
        : share(metadata);
    }),
    part: (metadata) => {
      if (!isObject(metadata)) return {};
      return withAnnotations(share(without(metadata, ...UNREAD)), readAnnotations);
    },
  };
}

function shareFields(entry: unknown, intern: Intern): unknown {
  return isObject(entry) && isObject(entry['fieldsV1']) ? { ...entry, fieldsV1: intern(entry['fieldsV1']) } : entry;
}

/** Domains whose annotations decisions may read; those of others, such as of networks, differ from pod to pod. */
const DOMAINS: readonly string[] = ['kubernetes.io', 'k8s.io', 'openshift.io', 'portcullis.dev'];

function readAnnotations(annotations: JsonObject): JsonObject {
  return filter(annotations, (key) => key !== LAST_APPLIED && isReadable(key));
}

function isReadable(key: string): boolean {
  const slash = key.indexOf('/');
  const domain = key.slice(0, Math.max(0, slash));
  return slash < 0 || DOMAINS.some((one) => domain === one || domain.endsWith(`.${one}`));
}

/** An object without some of its members. */
export function without(object: JsonObject, ...names: readonly string[]): JsonObject {
  return names.some((name) => Object.hasOwn(object, name)) ? filter(object, (key) => !names.includes(key)) : object;
}

function filter(object: JsonObject, isKept: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => isKept(key)));
}
