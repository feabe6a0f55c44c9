/**
 * Reduces the bytes of a large review to the fields that decisions read. Other fields are scanned without allocating
 * memory. Maps and lists keep their positions, so patch paths remain valid.
 */
import { isUtf8 } from 'node:buffer';
import { createHash, hash } from 'node:crypto';
import { isSemanticallyAbsent } from '../kube/equality.ts';
import { LIMITS } from '../kube/limits.ts';
import { podTemplatePath } from '../kube/pod.ts';
import { isObject } from '../kube/types.ts';
import { NAMESPACE, OTHER_KIND, POD, type Selection, selectMember, selectWorkload } from '../policy/pod/selection.ts';
import {
  createCursor,
  type Cursor,
  expectEnd,
  nextByte,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  readName,
  skipItems,
  skipMembers,
  skipReadValue,
  skipValue,
} from './json-scanner.ts';

/**
 * A reduced review, or the reason why the review cannot be reduced. `isLimit` is false if the bytes are not valid JSON.
 */
export type ReducedReview =
  | { readonly review: Uint8Array<ArrayBuffer> }
  | { readonly error: string; readonly isLimit: boolean };

/** Reduces a review. `isWhole` keeps all members of its objects. */
export function reduceReview(body: Buffer, isWhole: boolean): ReducedReview {
  if (!isUtf8(body)) return { error: 'the body is not valid UTF-8', isLimit: false };
  try {
    const output = createOutput();
    writeReview(findParts(body), output, isWhole);
    return { review: output.toBytes() };
  } catch (error) {
    if (error instanceof RangeError) return { error: error.message, isLimit: true };
    if (error instanceof SyntaxError) return { error: error.message, isLimit: false };
    throw error;
  }
}

// Limits for the text that the main thread parses

type Output = ReturnType<typeof createOutput>;

/** Creates the writer for the text of a reduced review. */
function createOutput() {
  let bytes = Buffer.allocUnsafeSlow(64 * 1024);
  let length = 0;
  let values = 0;
  const reserve = (more: number): void => {
    if (length + more <= bytes.length) return;
    if (length + more > LIMITS.relevantBytes) {
      throw new RangeError(`the fields that decisions read exceed ${LIMITS.relevantBytes / 1024 / 1024} MiB`);
    }
    const larger = Buffer.allocUnsafeSlow(Math.min(LIMITS.relevantBytes, Math.max(2 * bytes.length, length + more)));
    bytes.copy(larger, 0, 0, length);
    bytes = larger;
  };
  return {
    writeText(text: string): void {
      if (length + 3 * text.length > bytes.length) reserve(Buffer.byteLength(text));
      length += bytes.write(text, length);
    },
    writeBytes(source: Buffer, start: number, end: number): void {
      reserve(end - start);
      length += source.copy(bytes, length, start, end);
    },
    /** @throws RangeError if there are too many values */
    countValues(more: number): void {
      values += more;
      if (values > LIMITS.reviewValues)
        throw new RangeError(`the fields that decisions read contain more than ${LIMITS.reviewValues} values`);
    },
    position: () => ({ length, values }),
    rewind(position: { readonly length: number; readonly values: number }): void {
      ({ length, values } = position);
    },
    toBytes: () => Uint8Array.from(bytes.subarray(0, length)),
  };
}

// Parts of a review

/** Positions of an object's values. If a member occurs twice, the last value is used, as in JSON.parse. */
type Members = ReadonlyMap<string, number>;

interface Parts {
  readonly body: Buffer;
  /** Absent if the body is not an object. */
  readonly review?: Members;
  /** Absent if the request is not an object. */
  readonly request?: Members;
  /** Members with the kind and version of each object in the request. */
  readonly types: ReadonlyMap<string, Members>;
}

const TYPE_MEMBERS: ReadonlySet<string> = new Set(['apiVersion', 'kind']);
const REVIEW_MEMBERS: ReadonlySet<string> = new Set([...TYPE_MEMBERS, 'request']);
const OBJECTS: ReadonlySet<string> = new Set(['object', 'oldObject']);
/** Request members that decisions read. */
const REQUEST_MEMBERS: ReadonlySet<string> = new Set([
  ...['uid', 'kind', 'resource', 'subResource', 'requestKind', 'requestResource', 'requestSubResource'],
  ...['name', 'namespace', 'operation', 'userInfo', 'dryRun', ...OBJECTS],
]);

/** Checks the syntax of a review and finds its parts. */
function findParts(body: Buffer): Parts {
  const cursor = createCursor(body);
  const types = new Map<string, Members>();
  let request: Members | undefined;
  const review = findMembers(cursor, REVIEW_MEMBERS, (name) => {
    if (name !== 'request') {
      skipValue(cursor);
      return;
    }
    types.clear();
    request = findMembers(cursor, REQUEST_MEMBERS, (key) => {
      types.delete(key);
      if (!OBJECTS.has(key)) {
        skipValue(cursor);
        return;
      }
      const type = findMembers(cursor, TYPE_MEMBERS);
      if (type) types.set(key, type);
    });
  });
  expectEnd(cursor);
  return { body, types, ...(review && { review }), ...(request && { request }) };
}

/** Moves past a value and returns the positions of the named members if it is an object. */
function findMembers(
  cursor: Cursor,
  names: ReadonlySet<string>,
  visit: (name: string) => void = () => skipValue(cursor),
): Members | undefined {
  if (nextByte(cursor) !== OPEN_BRACE) {
    skipValue(cursor);
    return undefined;
  }
  const members = new Map<string, number>();
  skipMembers(cursor, (start, end) => {
    const name = readName(cursor, start, end);
    if (names.has(name)) {
      nextByte(cursor);
      members.set(name, cursor.at);
      visit(name);
    } else skipValue(cursor);
  });
  return members;
}

/**
 * Returns the selection for both objects. Selects whole objects if the kind of an object differs from the
 * kind of the request.
 */
function findSelection({ body, request, types }: Parts): Selection {
  const kind = readShortValue(body, request?.get('kind'));
  if (!isObject(kind)) return OTHER_KIND;
  const { group = '', version, kind: name } = kind;
  if (typeof group !== 'string' || typeof version !== 'string' || typeof name !== 'string') return OTHER_KIND;
  const apiVersion = group ? `${group}/${version}` : version;
  const isOther = [...types.values()].some((type) => {
    const [ownVersion, ownKind] = ['apiVersion', 'kind'].map((member) => readShortValue(body, type.get(member)));
    return (ownVersion ?? apiVersion) !== apiVersion || (ownKind ?? name) !== name;
  });
  if (isOther) return 'all';
  if (!group && name === 'Pod') return POD;
  if (!group && name === 'Namespace') return NAMESPACE;
  const path = podTemplatePath(group, name);
  return path ? selectWorkload(path) : OTHER_KIND;
}

/**
 * Reads the value at a position. For a long value, returns its length instead, because a number matches no kind or
 * version.
 */
function readShortValue(body: Buffer, at: number | undefined): unknown {
  if (at === undefined) return undefined;
  const cursor = createCursor(body, at);
  skipValue(cursor);
  const length = cursor.at - at;
  return length > MAX_TYPE_BYTES ? length : JSON.parse(body.toString('utf8', at, cursor.at));
}

const MAX_TYPE_BYTES = 4096;

// Reduction

interface Reduction {
  readonly cursor: Cursor;
  readonly output: Output;
  /** True for pods and built-in workload kinds, whose decoders limit the number of items in all lists. */
  readonly hasLimits: boolean;
  /**
   * True if there are two objects, which decisions compare. Values that decisions do not read are then replaced with
   * their digests.
   */
  readonly isCompared: boolean;
  readonly isOld: boolean;
  items: number;
  isCut: boolean;
}

function writeReview(parts: Parts, output: Output, isWhole: boolean): void {
  const { body, review, request, types } = parts;
  const selection = isWhole ? 'all' : findSelection(parts);
  const isCompared = types.size === 2 && selection !== 'all';
  const copy = (at: number): void => {
    copyValue(createCursor(body, at), output);
  };
  const write = (at: number, key: string): void => {
    const state = { hasLimits: selection !== 'all' && selection !== OTHER_KIND, items: 0, isCut: false };
    writeValue({ cursor: createCursor(body, at), output, isCompared, isOld: key === 'oldObject', ...state }, selection);
  };
  if (!review) {
    output.writeText('null');
    return;
  }
  writeMembers(review, output, (name, at) => {
    if (name !== 'request' || !request) copy(at);
    else
      writeMembers(request, output, (key, position) => {
        if (OBJECTS.has(key)) write(position, key);
        else copy(position);
      });
  });
}

function writeMembers(members: Members, output: Output, write: (name: string, at: number) => void): void {
  let separator = '{';
  for (const [name, at] of members) {
    output.writeText(`${separator}"${name}":`);
    separator = ',';
    write(name, at);
  }
  output.writeText(separator === '{' ? '{}' : '}');
}

function writeValue(reduction: Reduction, selected: Selection): void {
  const { cursor, output, hasLimits } = reduction;
  const selection = typeof selected === 'object' && 'shared' in selected ? selected.shared : selected;
  const byte = nextByte(cursor);
  if (selection === 'presence') {
    const start = cursor.at;
    skipValue(cursor);
    writeDigest(reduction, start);
  } else if (selection === 'all' && !hasLimits) copyValue(cursor, output);
  else if (byte === OPEN_BRACE) writeObject(reduction, selection);
  else if (byte === OPEN_BRACKET) writeList(reduction, selection);
  else copyValue(cursor, output);
}

function copyValue(cursor: Cursor, output: Output): void {
  const { at, values } = cursor;
  skipReadValue(cursor);
  output.countValues(cursor.values - values);
  output.writeBytes(cursor.bytes, at, cursor.at);
}

// Lists

/** Replacement for a list in the old object that exceeds its limit. It ensures that the two objects differ. */
const CUT_LIST = '"changed"';

/**
 * Writes a list. A list that exceeds its limit is replaced with enough nulls to exceed it, so decoders report the
 * limit.
 */
function writeList(reduction: Reduction, selection: Selection): void {
  const { cursor, output, isOld } = reduction;
  const { items, most } = itemSelection(selection);
  const start = { ...output.position(), items: reduction.items, isCut: reduction.isCut };
  let count = 0;
  let isOver = false;
  output.countValues(1);
  output.writeText('[');
  skipItems(cursor, () => {
    count++;
    isOver ||= exceedsLimit(reduction, count, most);
    if (isOver) {
      skipValue(cursor);
      return;
    }
    if (count > 1) output.writeText(',');
    writeValue(reduction, items);
  });
  if (!isOver) {
    output.writeText(']');
    return;
  }
  output.rewind(start);
  // Decoders limit the total size of all lists that have no limit of their own. One list that exceeds this limit is
  // sufficient.
  reduction.items = most === undefined ? LIMITS.podItems + 1 : start.items;
  reduction.isCut = most === undefined || start.isCut;
  const excess = start.isCut ? 1 : LIMITS.podItems + 1;
  const length = most === undefined ? excess : Math.min(count, LIMITS.podItems + 1);
  output.countValues(length);
  output.writeText(isOld ? CUT_LIST : `[${Array(length).fill('null').join()}]`);
}

interface ItemSelection {
  readonly items: Selection;
  readonly most?: number;
}

function itemSelection(selection: Selection): ItemSelection {
  if (typeof selection === 'string') return { items: 'all' };
  if ('items' in selection) return selection;
  return { items: 'anywhere' in selection ? selection : 'all' };
}

function exceedsLimit(reduction: Reduction, count: number, most: number | undefined): boolean {
  if (!reduction.hasLimits) return false;
  if (most !== undefined) return count > most;
  reduction.items++;
  return reduction.items > LIMITS.podItems;
}

// Objects

function writeObject(reduction: Reduction, selection: Selection): void {
  const { cursor, output, isCompared } = reduction;
  const entries =
    isCompared && typeof selection === 'object' && 'entries' in selection ? createHash('sha256') : undefined;
  let separator = '{';
  let droppedEntries = 0;
  const writeName = (nameStart: number, nameEnd: number): void => {
    output.writeText(separator);
    output.writeBytes(cursor.bytes, nameStart, nameEnd);
    output.writeText(':');
    separator = ',';
  };
  output.countValues(1);
  skipMembers(cursor, (nameStart, nameEnd) => {
    const name = readName(cursor, nameStart, nameEnd);
    const isString = nextByte(cursor) === QUOTE;
    const member = selectMember(selection, name, isString);
    const start = cursor.at;
    if (member !== undefined) {
      writeName(nameStart, nameEnd);
      writeValue(reduction, member);
      return;
    }
    skipValue(cursor);
    if (entries) {
      entries.update(cursor.bytes.subarray(nameStart, cursor.at));
      droppedEntries++;
    } else if (isCompared && !isAbsent(cursor, start, name)) {
      writeName(nameStart, nameEnd);
      writeDigest(reduction, start);
    }
  });
  if (entries && droppedEntries > 0) {
    // Map keys are never empty.
    output.writeText(`${separator}"":"${entries.digest('base64')}"`);
    separator = ',';
    output.countValues(1);
  }
  output.writeText(separator === '{' ? '{}' : '}');
}

/**
 * True if comparisons treat the value as absent. They do so only for empty values with a few levels of nesting, which
 * are short.
 */
function isAbsent({ bytes, at }: Cursor, start: number, name: string): boolean {
  const first = bytes[start];
  if (at - start > MAX_EMPTY_BYTES || (first !== OPEN_BRACE && first !== OPEN_BRACKET && at - start !== 4))
    return false;
  return isSemanticallyAbsent(JSON.parse(bytes.toString('utf8', start, at)), name);
}

const MAX_EMPTY_BYTES = 1024;

/**
 * Writes a string that represents the bytes of the last value. API servers encode equal values as equal bytes. If equal
 * values have different bytes nevertheless, decisions treat them as changed and evaluate them.
 */
function writeDigest({ cursor, output }: Reduction, start: number): void {
  const { bytes, at } = cursor;
  output.countValues(1);
  // A digest ends with `=`, which no JSON text does.
  const text =
    at - start <= DIGEST_LENGTH
      ? bytes.toString('utf8', start, at)
      : hash('sha256', bytes.subarray(start, at), 'base64');
  output.writeText(JSON.stringify(text));
}

/** Length of a digest. Shorter values are written as they are. */
const DIGEST_LENGTH = 44;
