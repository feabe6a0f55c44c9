import { dnsLabelErrors, dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from '../../kube/names.ts';
import { forbiddenField, invalidValue, requiredField, tooLong, type FieldError } from '../../kube/field-error.ts';
import { compareBytes } from '../../kube/text.ts';
import { MAX_ANNOTATIONS_BYTES } from '../../kube/pod.ts';
import type { JsonObject } from '../../kube/types.ts';
import { metadataOf, type ApiObject } from '../types.ts';
import { objectAt, objectsAt, textAt, textsAt } from './read.ts';

/** What is wrong with a name, in the API server's words. */
export type NameRule = (name: string) => readonly string[];

/** How the objects of a kind are named, and where. */
export interface Naming {
  readonly namespaced: boolean;
  readonly nameErrors: NameRule;
}

/** The rule for the names of most kinds. */
export const SUBDOMAIN: NameRule = dnsSubdomainErrors;
export const LABEL: NameRule = dnsLabelErrors;
/** The rule for RBAC: whatever can stand in a URL path. */
export const PATH_SEGMENT: NameRule = (name) => {
  if (name === '.' || name === '..') return [`may not be '${name}'`];
  return ['/', '%'].filter((part) => name.includes(part)).map((part) => `may not contain '${part}'`);
};

/**
 * Field errors of the metadata of a new object.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validation/objectmeta.go
 */
export function validateMetadata(object: ApiObject, naming: Naming): FieldError[] {
  const { name, namespace, generateName } = metadataOf(object);
  return [
    ...(generateName ? generateNameErrors(generateName, naming.nameErrors) : []),
    ...(name ? named('metadata.name', name, naming.nameErrors) : [missingName]),
    ...namespaceErrors(namespace ?? '', naming.namespaced),
    ...commonErrors(object.metadata ?? {}),
    ...textsAt(object.metadata, 'finalizers').flatMap((text) => named('metadata.finalizers', text, labelKeyErrors)),
  ];
}

/** Field errors of the metadata of a changed object. */
export function validateMetadataUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const before = old.metadata ?? {};
  const after = object.metadata ?? {};
  const added = textsAt(after, 'finalizers').filter((text) => !textsAt(before, 'finalizers').includes(text));
  const errors: FieldError[] = [];
  if (before['deletionTimestamp'] != null && added.length > 0) {
    const names = [...added].sort(compareBytes).map((text) => JSON.stringify(text));
    const detail = `no new finalizers can be added if the object is being deleted, found new finalizers []string{${names.join(', ')}}`;
    errors.push(forbiddenField('metadata.finalizers', detail));
  }
  for (const field of ['name', 'namespace', 'uid']) {
    if ((before[field] ?? '') === (after[field] ?? '')) continue;
    errors.push(invalidValue(`metadata.${field}`, after[field] ?? '', 'field is immutable'));
  }
  return [...errors, ...commonErrors(after)];
}

const missingName = requiredField('metadata.name', 'name or generateName is required');

/** A prefix may end where a name may not: in a dash or a dot that the generated part follows. */
function generateNameErrors(prefix: string, nameErrors: NameRule): FieldError[] {
  const stem = prefix.endsWith('-') ? `${prefix.slice(0, -1)}a` : prefix;
  return nameErrors(stem).map((error) => invalidValue('metadata.generateName', prefix, error));
}

function named(path: string, name: string, nameErrors: NameRule): FieldError[] {
  return nameErrors(name).map((error) => invalidValue(path, name, error));
}

function namespaceErrors(namespace: string, namespaced: boolean): FieldError[] {
  if (!namespaced) return namespace === '' ? [] : [forbiddenField('metadata.namespace', 'not allowed on this type')];
  if (namespace === '') return [requiredField('metadata.namespace', '')];
  return named('metadata.namespace', namespace, LABEL);
}

function commonErrors(metadata: JsonObject): FieldError[] {
  return [
    ...labelErrors(metadata['labels'], 'metadata.labels'),
    ...annotationErrors(metadata['annotations'], 'metadata.annotations'),
    ...ownerErrors(metadata),
  ];
}

/** Field errors of a map of labels. */
export function labelErrors(labels: unknown, path: string): FieldError[] {
  return Object.entries(objectAt({ labels }, 'labels')).flatMap(([key, value]) => [
    ...named(path, key, labelKeyErrors),
    ...named(path, String(value), labelValueErrors),
  ]);
}

/** Field errors of a map of annotations; the case of their keys does not count. */
export function annotationErrors(annotations: unknown, path: string): FieldError[] {
  const entries = Object.entries(objectAt({ annotations }, 'annotations'));
  const errors = entries.flatMap(([key]) =>
    labelKeyErrors(key.toLowerCase()).map((error) => invalidValue(path, key, error)),
  );
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key + String(value)), 0);
  return bytes <= MAX_ANNOTATIONS_BYTES ? errors : [...errors, tooLong(path, MAX_ANNOTATIONS_BYTES)];
}

function ownerErrors(metadata: JsonObject): FieldError[] {
  const path = 'metadata.ownerReferences';
  const owners = objectsAt(metadata, 'ownerReferences');
  const errors = owners.flatMap((owner) => [
    ...(textAt(owner, 'apiVersion') === ''
      ? [invalidValue(`${path}.apiVersion`, '', 'version must not be empty')]
      : []),
    ...['kind', 'name', 'uid']
      .filter((field) => textAt(owner, field) === '')
      .map((field) => invalidValue(`${path}.${field}`, '', 'must not be empty')),
  ]);
  const [first, second] = owners.filter((owner) => owner['controller'] === true);
  if (!first || !second) return errors;
  const print = (owner: JsonObject): string => `${textAt(owner, 'kind')}/${textAt(owner, 'name')}`;
  const detail = `Only one reference can have Controller set to true. Found "true" in references for ${print(first)} and ${print(second)}`;
  return [...errors, invalidValue(path, owners, detail)];
}
