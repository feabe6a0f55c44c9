/** A set of small numbers, one bit each. */
export interface Bitmap {
  has(index: number): boolean;
  add(index: number): void;
  /** Adds a closed range of numbers. */
  addRange(first: number, last: number): void;
  addAll(other: Bitmap): void;
  removeAll(other: Bitmap): void;
  /** Returns a new set with the numbers that are in both sets. */
  intersection(other: Bitmap): Bitmap;
  isEmpty(): boolean;
  /** Returns the lowest number below the limit that is in neither set. */
  lowestClear(limit: number, other?: Bitmap): number | undefined;
  /** In ascending order. */
  values(): Iterable<number>;
  /** The maximal ranges of numbers in the set, in ascending order. */
  ranges(): Iterable<NumberRange>;
  /** The number of bytes that contain all numbers. */
  byteLength(): number;
  /** Eight numbers as bits; the lowest one is eight times the position. */
  byteAt(position: number): number;
  /** The set as the base64 form of a big-endian integer without leading zero bytes. */
  toBase64(): string;
}

/** A closed range of numbers. */
export interface NumberRange {
  readonly first: number;
  readonly last: number;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const MAX_LENGTH = 4 * 1024 * 1024;
/** The number of bytes that are converted in one call. The stack limits the number of arguments. */
const CHUNK = 8192;

/** Parses the result of `toBase64`. Empty text is an empty set; the result is `undefined` if the text is not base64. */
export function parseBitmap(text: string): Bitmap | undefined {
  if (text.length % 4 !== 0 || text.length > MAX_LENGTH || !BASE64.test(text)) return undefined;
  const bigEndian = atob(text);
  const bytes = new Uint8Array(bigEndian.length);
  for (let position = 0; position < bytes.length; position++) {
    bytes[position] = bigEndian.charCodeAt(bytes.length - 1 - position);
  }
  return bitmapOver(bytes);
}

export function emptyBitmap(): Bitmap {
  return bitmapOver(new Uint8Array(0));
}

/** Number 0 is the lowest bit of byte 0. */
function bitmapOver(initial: Uint8Array): Bitmap {
  let bytes = initial;
  const byteAt = (position: number): number => bytes[position] ?? 0;
  const ensureLength = (length: number): void => {
    if (length > bytes.length) bytes = grow(bytes, length);
  };
  const addRange = (first: number, last: number): void => {
    if (first > last) return;
    ensureLength((last >> 3) + 1);
    for (let index = first; index <= last; index++) {
      // Sets whole bytes at once.
      if ((index & 7) === 0 && index + 7 <= last) {
        const end = (last + 1) >> 3;
        bytes.fill(0xff, index >> 3, end);
        index = end * 8 - 1;
      } else bytes[index >> 3] = byteAt(index >> 3) | (1 << (index & 7));
    }
  };
  function* rows(): Iterable<NumberRange> {
    let first: number | undefined;
    for (const [position, byte] of bytes.entries()) {
      // Skips whole bytes that contain no end of a range.
      if (byte === (first === undefined ? 0 : 0xff)) continue;
      for (let bit = 0; bit < 8; bit++) {
        const index = position * 8 + bit;
        const isIn = (byte & (1 << bit)) !== 0;
        if (isIn) first ??= index;
        else if (first !== undefined) {
          yield { first, last: index - 1 };
          first = undefined;
        }
      }
    }
    if (first !== undefined) yield { first, last: bytes.length * 8 - 1 };
  }
  return {
    has: (index) => (byteAt(index >> 3) & (1 << (index & 7))) !== 0,
    add: (index) => addRange(index, index),
    addRange,
    addAll(other) {
      const length = other.byteLength();
      ensureLength(length);
      for (let position = 0; position < length; position++) bytes[position] = byteAt(position) | other.byteAt(position);
    },
    removeAll(other) {
      for (const [position, byte] of bytes.entries()) bytes[position] = byte & ~other.byteAt(position);
    },
    intersection: (other) => bitmapOver(bytes.map((byte, position) => byte & other.byteAt(position))),
    isEmpty: () => bytes.every((byte) => byte === 0),
    lowestClear(limit, other) {
      for (let position = 0; position * 8 < limit; position++) {
        const byte = byteAt(position) | (other?.byteAt(position) ?? 0);
        if (byte === 0xff) continue;
        const index = position * 8 + lowestZero(byte);
        return index < limit ? index : undefined;
      }
      return undefined;
    },
    *values() {
      for (const { first, last } of rows()) for (let index = first; index <= last; index++) yield index;
    },
    ranges: rows,
    byteLength: () => bytes.length,
    byteAt,
    toBase64() {
      const length = bytes.findLastIndex((byte) => byte !== 0) + 1;
      const bigEndian = bytes.slice(0, length).reverse();
      let text = '';
      for (let start = 0; start < length; start += CHUNK) {
        text += String.fromCharCode(...bigEndian.subarray(start, start + CHUNK));
      }
      return btoa(text);
    },
  };
}

function lowestZero(byte: number): number {
  return 31 - Math.clz32(~byte & (byte + 1));
}

/** Doubles the capacity, so that adding consecutive numbers does not copy each time. */
function grow(bytes: Uint8Array, length: number): Uint8Array {
  const larger = new Uint8Array(Math.max(length, bytes.length * 2));
  larger.set(bytes);
  return larger;
}
