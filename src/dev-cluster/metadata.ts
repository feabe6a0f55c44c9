import { randomInt, randomUUID } from 'node:crypto';
import { ApiError, badRequest } from '../kube/status.ts';
import { metadataOf, type ApiObject } from './types.ts';

/** Characters of generated names: no vowels and nothing that is mistaken for another. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
const MAX_NAME = 63;
const SUFFIX = 5;

/** Five random characters, as in names that the API server makes. */
export function randomSuffix(): string {
  return Array.from({ length: SUFFIX }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

/** A time as the API writes it: UTC, whole seconds. */
export function timestamp(time: Date): string {
  return time.toISOString().replace(/\.\d{3}Z$/, 'Z');
}

/** The metadata of an object under way, to be changed. */
export function editMetadata(object: ApiObject): Record<string, unknown> {
  object.metadata ??= {};
  return object.metadata;
}

const SYSTEM_FIELDS = ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'selfLink'];

/** Drops what only the server sets on new objects. */
export function wipeSystemFields(object: ApiObject): void {
  const metadata = editMetadata(object);
  for (const field of SYSTEM_FIELDS) Reflect.deleteProperty(metadata, field);
}

/** Sets what the server sets on new objects; `isTaken` says which generated names are in use. */
export function fillSystemFields(object: ApiObject, now: Date, isTaken: (name: string) => boolean): void {
  const metadata = editMetadata(object);
  metadata['creationTimestamp'] = timestamp(now);
  metadata['uid'] = randomUUID();
  const { name, generateName } = metadataOf(object);
  if ((name ?? '') !== '' || (generateName ?? '') === '') return;
  const base = (generateName ?? '').slice(0, MAX_NAME - SUFFIX);
  let generated = base + randomSuffix();
  while (isTaken(generated)) generated = base + randomSuffix();
  metadata['name'] = generated;
}

/** Gives an object the namespace of its request. Throws ApiError 400 if it names another. */
export function matchNamespace(object: ApiObject, namespace: string): void {
  const own = metadataOf(object).namespace ?? '';
  if (own === namespace) return;
  const metadata = editMetadata(object);
  if (namespace === '') Reflect.deleteProperty(metadata, 'namespace');
  else if (own === '') metadata['namespace'] = namespace;
  else {
    throw new ApiError(
      badRequest('the namespace of the provided object does not match the namespace sent on the request'),
    );
  }
}

/** Throws ApiError 400 unless the object has the name of its URL. */
export function matchName(object: ApiObject, name: string): void {
  const own = metadataOf(object).name ?? '';
  if (own === name) return;
  throw new ApiError(
    badRequest(
      own === ''
        ? `the name of the object (${name} based on URL) was undeterminable: name must be provided`
        : `the name of the object (${own}) does not match the name on the URL (${name})`,
    ),
  );
}
