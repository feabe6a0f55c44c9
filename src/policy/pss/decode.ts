import { isObject, type JsonObject } from '../../kube/types.ts';
import { unmarshalError } from '../../kube/field-error.ts';
import { readPodSpec } from './decode/pod-spec.ts';
import { objectIn, stringIn, type DecodeError, type Reader, type Struct } from './decode/reader.ts';
import { clearPod, isLarge, newPod } from './decode/scratch.ts';
import { SETTING, type Annotations, type PodFields } from './fields.ts';

export type { DecodeError } from './decode/reader.ts';

const POD: Struct = { name: 'Pod', path: '' };
const METADATA: Struct = { name: 'ObjectMeta', path: 'metadata' };

/** What was read from a pod; worth nothing if there is an error. */
export interface Decoded {
  /** The first thing that is wrong. */
  readonly error: DecodeError | undefined;
  readonly pod: PodFields;
}

/** The one that every call fills again, so that a pod that passes costs no memory. */
const reader: Reader = {
  error: undefined,
  pod: newPod(),
  setter: undefined,
  index: 0,
  items: 0,
};

/** What the reader holds. */
let decoded: unknown;

/**
 * Reads the fields that decisions depend on, out of whatever a requester sent as a pod or a pod template. The result is
 * good until the next call.
 */
export function decode(podLike: unknown): Decoded {
  decoded = podLike;
  reader.error = undefined;
  reader.setter = undefined;
  reader.items = 0;
  clearPod(reader.pod);
  if (isObject(podLike)) readPod(podLike);
  else reader.error = { path: '', value: podLike, message: noObject(podLike) };
  return reader;
}

/** As `decode`, but what was decoded last is not read again: for a pod that has not changed since. */
export function decodeUnchanged(podLike: object): Decoded {
  return podLike === decoded ? reader : decode(podLike);
}

/** Lets go of what was decoded last if it is large: what has been read of other pods costs next to nothing. */
export function forgetLarge(): void {
  if (!isLarge(reader.pod)) return;
  decoded = undefined;
  clearPod(reader.pod);
}

/** What keeps a pod or pod template from being decoded, as the API server words it; `undefined` if nothing is. */
export function decodeError(podLike: unknown): string | undefined {
  return decode(podLike).error?.message;
}

function noObject(podLike: unknown): string {
  return podLike == null ? 'there is no pod' : unmarshalError(podLike, '', 'v1.Pod');
}

function readPod(podLike: JsonObject): void {
  const metadata = objectIn(reader, POD, 'metadata', podLike.metadata, 'v1.ObjectMeta');
  readAnnotations(objectIn(reader, METADATA, 'annotations', metadata?.annotations, 'map[string]string'));
  const spec = objectIn(reader, POD, 'spec', podLike.spec, 'v1.PodSpec');
  if (spec !== undefined) readPodSpec(reader, spec);
}

function readAnnotations(annotations: JsonObject | undefined): void {
  for (const name in annotations) {
    reader.pod.settings |= SETTING.annotations;
    reader.index = name;
    stringIn(reader, METADATA, 'annotations[*]', annotations[name]);
  }
  // Verified just now: an annotation that is no string is the error.
  if (annotations !== undefined) reader.pod.annotations = annotations as Annotations;
}
