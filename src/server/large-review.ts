/**
 * Reads a large review in the worker: its envelope, and the parts of its objects that decisions read. The result for the main
 * thread has a limited size.
 */
import type { AdmissionRequest } from '../kube/admission.ts';
import { semanticEqual } from '../kube/equality.ts';
import { getPodTemplate, MAX_ITEMS, podTemplatePath } from '../kube/pod.ts';
import { isObject, type GroupVersionKind, type JsonObject } from '../kube/types.ts';
import { NAMESPACE, POD, selectMember, selectWorkload, type Selection } from '../policy/pod/selection.ts';
import { findPodTemplates } from '../policy/pod/templates.ts';
import { readReview, type Envelope } from './envelope.ts';

/** Reads a review. With `isWhole`, all members of its objects are kept. */
export function readLargeReview(body: Buffer, isWhole: boolean): Envelope {
  if (estimateMemory(body) > MAX_MEMORY) {
    return tooLarge(`the review would take more than ${MAX_MEMORY / MIB} MiB of memory`);
  }
  const envelope = readReview(body);
  if ('error' in envelope) return envelope;
  try {
    return { request: projectRequest(envelope.request, isWhole) };
  } catch (error) {
    if (error instanceof RangeError) return tooLarge(error.message);
    throw error;
  }
}

function tooLarge(error: string): Envelope {
  return { error, status: 413 };
}

// Memory

const MIB = 1024 * 1024;
/**
 * Limit of the estimated memory of a review with its text. Objects that etcd can store need less. The heap of the worker is twice
 * as large, since V8 may end the process if the heap of a worker is exhausted.
 */
const MAX_MEMORY = 96 * MIB;

/** Upper limits of the memory of values in V8, in bytes. */
const OBJECT_BYTES = 64;
const LIST_BYTES = 32;
/** A member of an object with many members: its name and its entry in a hash table that has just grown. */
const MEMBER_BYTES = 160;
/** A string or number, and its position in the list. */
const ITEM_BYTES = 32;

const [QUOTE, BACKSLASH, COLON, COMMA, UNICODE_ESCAPE] = Buffer.from('"\\:,u');
const [OPEN_BRACE, OPEN_BRACKET] = Buffer.from('{[');

/** Estimates the memory of a text and of its values, without parsing it. */
export function estimateMemory(json: Buffer): number {
  let bytes = 0;
  let isAscii = true;
  for (let index = 0; index < json.length; index++) {
    const byte = json[index] ?? 0;
    if (byte === QUOTE) {
      for (index++; index < json.length && json[index] !== QUOTE; index++) {
        const inner = json[index] ?? 0;
        if (inner === BACKSLASH) index += json[index + 1] === UNICODE_ESCAPE ? 5 : 1;
        else if (inner >= 0x80) isAscii = false;
        bytes++;
      }
    } else if (byte === COLON) bytes += MEMBER_BYTES;
    else if (byte === COMMA) bytes += ITEM_BYTES;
    else if (byte === OPEN_BRACE) bytes += OBJECT_BYTES;
    else if (byte === OPEN_BRACKET) bytes += LIST_BYTES;
  }
  // A text with other characters takes two bytes for each, and so do its strings.
  return (bytes + json.length) * (isAscii ? 1 : 2);
}

// Projection

/** Limit of the values that the main thread receives. Those of the largest pods are about 100,000. */
const MAX_VALUES = 250_000;
/** API servers accept deeper objects, but the fields that decisions read are not deeper. Deeper values become null. */
const MAX_DEPTH = 200;

/** Remaining budget of the objects of a request. */
interface Budget {
  values: number;
  depth: number;
}

interface Projection {
  readonly budget: Budget;
  /** The pod templates of an object that is kept as a whole. */
  readonly templates: ReadonlySet<object>;
  /** True for pods and built-in kinds with pods, whose decoders limit the items of all lists. */
  readonly hasLimits: boolean;
  items: number;
  isCut: boolean;
}

/** The value that replaces a value in an update. */
interface Next {
  readonly value: unknown;
}

/**
 * Returns a request with the parts of its objects that decisions read. Maps and lists stay where they are, so that the paths of
 * patches are the same. In the old object, a dropped member that differs from the new object is replaced by a mark, so that
 * comparisons of both objects have the same result.
 * @throws RangeError if the request has too many values
 */
export function projectRequest(request: AdmissionRequest, isWhole = false): AdmissionRequest {
  const { object, oldObject, kind } = request;
  const budget = { values: MAX_VALUES, depth: 0 };
  const selections = [object, oldObject].filter(isObject).map((one) => findSelection(one, kind));
  const [selection = 'all'] = isWhole || selections.includes('all') ? [] : selections;
  const hasLimits = selection !== 'all';
  const whole = { budget, templates: NO_TEMPLATES, hasLimits: false, items: 0, isCut: false };
  const keep = (value: unknown, next?: Next): unknown => {
    const templates = isWhole || hasLimits ? NO_TEMPLATES : findTemplates(value);
    return project(value, selection, { ...whole, templates, hasLimits }, next);
  };
  return {
    ...(project(pickEnvelope(request), 'all', whole) as AdmissionRequest),
    object: keep(object),
    oldObject: keep(oldObject, isObject(object) ? { value: object } : undefined),
  };
}

/** Returns the request without its objects and its options, which no decision reads. */
function pickEnvelope(request: AdmissionRequest): JsonObject {
  const { uid, kind, resource, subResource, requestKind, requestResource, requestSubResource } = request;
  const { name, namespace, operation, userInfo, dryRun } = request;
  const fields = {
    ...{ uid, kind, resource, subResource, requestKind, requestResource, requestSubResource },
    ...{ name, namespace, operation, userInfo, dryRun },
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Objects of another kind than the request states are kept as a whole. */
function findSelection(object: JsonObject, { group, version, kind }: GroupVersionKind): Selection {
  const apiVersion = group ? `${group}/${version}` : version;
  if ((object['apiVersion'] ?? apiVersion) !== apiVersion || (object['kind'] ?? kind) !== kind) return 'all';
  if (!group && kind === 'Pod') return POD;
  if (!group && kind === 'Namespace') return NAMESPACE;
  const path = podTemplatePath(group ?? '', kind);
  return path ? selectWorkload(path) : 'all';
}

const NO_TEMPLATES: ReadonlySet<object> = new Set();

function findTemplates(object: unknown): ReadonlySet<object> {
  if (!isObject(object)) return NO_TEMPLATES;
  const templates = findPodTemplates(object).templates.map((path) => getPodTemplate(object, path));
  return new Set(templates.filter((template) => template !== undefined));
}

function project(value: unknown, selection: Selection, projection: Projection, next?: Next): unknown {
  const { budget, templates } = projection;
  if (typeof selection === 'object' && 'shared' in selection) return project(value, selection.shared, projection, next);
  spend(budget, 1);
  if (typeof value !== 'object' || value === null) return value;
  if (selection === 'all' && templates.has(value)) {
    return project(value, POD, { budget, templates: NO_TEMPLATES, hasLimits: true, items: 0, isCut: false }, next);
  }
  if (budget.depth === MAX_DEPTH) return next ? MARK : null;
  budget.depth++;
  const kept = Array.isArray(value)
    ? projectList(value, selection, projection, next)
    : projectObject(value as JsonObject, selection, projection, next);
  budget.depth--;
  return kept;
}

function spend(budget: Budget, values: number): void {
  budget.values -= values;
  if (budget.values < 0) throw new RangeError(`the review has more than ${MAX_VALUES} values that are read`);
}

function projectList(list: readonly unknown[], selection: Selection, projection: Projection, next?: Next): unknown {
  const { items, most } = typeof selection === 'object' && 'items' in selection ? selection : ALL_ITEMS;
  const cut = cutList(list.length, most, projection);
  if (cut === undefined) {
    const nextItems: readonly unknown[] = Array.isArray(next?.value) ? next.value : [];
    return list.map((item, index) => project(item, items, projection, next && { value: nextItems[index] }));
  }
  if (next && !semanticEqual(list, next.value)) return MARK;
  spend(projection.budget, cut);
  return Array<null>(cut).fill(null);
}

const ALL_ITEMS = { items: 'all', most: undefined } as const;

/** Replaces a member of the old object that differs from the new object. */
const MARK = 'changed';

/**
 * Returns the length to which a list is cut if it exceeds its limit, so that it still exceeds it. Decoders limit the sum of all
 * lists, and report the list that exceeds it.
 */
function cutList(length: number, most: number | undefined, projection: Projection): number | undefined {
  if (!projection.hasLimits) return undefined;
  if (most !== undefined) return length > most ? Math.min(length, MAX_ITEMS + 1) : undefined;
  projection.items += length;
  if (projection.items <= MAX_ITEMS) return undefined;
  const cut = projection.isCut ? 1 : MAX_ITEMS + 1;
  projection.isCut = true;
  return cut;
}

function projectObject(object: JsonObject, selection: Selection, projection: Projection, next?: Next): JsonObject {
  const kept: [key: string, value: unknown][] = [];
  const nextMembers = isObject(next?.value) ? next.value : {};
  let isMarked = next === undefined;
  let bytes = 0;
  const mark = (key: string): void => {
    if (isMarked || semanticEqual(pick(object, key), pick(nextMembers, key))) return;
    // Comparisons ignore some fields, so that each one has a mark. One mark is sufficient for a map.
    isMarked = typeof selection === 'object' && 'entries' in selection;
    spend(projection.budget, 1);
    kept.push([key, MARK]);
  };
  // Object.entries takes three times as long for maps with many members.
  for (const key in object) {
    const value = object[key];
    const member = selectMember(selection, key, value);
    if (member === undefined || bytes > maxBytes(selection)) mark(key);
    else {
      if (typeof value === 'string') bytes += key.length + value.length;
      const nextMember = next && { value: Object.hasOwn(nextMembers, key) ? nextMembers[key] : undefined };
      kept.push([key, project(value, member, projection, nextMember)]);
    }
  }
  for (const key in nextMembers) {
    const value = nextMembers[key];
    if (object[key] != null && Object.hasOwn(object, key)) continue;
    const member = selectMember(selection, key, value);
    if (member === undefined) mark(key);
    else if (isObject(value)) {
      const marks = project({}, member, projection, { value });
      if (isObject(marks) && Object.keys(marks).length > 0) kept.push([key, marks]);
    }
  }
  return Object.fromEntries(kept);
}

function maxBytes(selection: Selection): number {
  return typeof selection === 'object' && 'entries' in selection ? (selection.maxBytes ?? Infinity) : Infinity;
}

function pick(object: JsonObject, key: string): JsonObject {
  return Object.hasOwn(object, key) ? { [key]: object[key] } : {};
}
