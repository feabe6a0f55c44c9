/** A set of small numbers, one bit each. */
export interface Bitmap {
  has(index: number): boolean;
  add(index: number): void;
  /** The lowest number below the limit that is in neither; `undefined` if there is none. */
  lowestClear(limit: number, other?: Bitmap): number | undefined;
  /** In rising order. */
  values(): Iterable<number>;
  /** Eight numbers, as bits: those from eight times the position on. */
  byteAt(position: number): number;
  /** A big-endian number without leading zero bytes, in base64: bit 0 is the last one. */
  print(): string;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const MAX_LENGTH = 4 * 1024 * 1024;

/** Reads what `print` wrote; empty text is an empty set, `undefined` a text that is no base64. */
export function parseBitmap(text: string): Bitmap | undefined {
  if (text.length % 4 !== 0 || text.length > MAX_LENGTH || !BASE64.test(text)) return undefined;
  const bigEndian = Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0));
  return bitmapOver(bigEndian.reverse());
}

export function emptyBitmap(): Bitmap {
  return bitmapOver(new Uint8Array(0));
}

/** Number 0 is the lowest bit of byte 0. */
function bitmapOver(initial: Uint8Array): Bitmap {
  let bytes = initial;
  const byteAt = (position: number): number => bytes[position] ?? 0;
  return {
    has: (index) => (byteAt(index >> 3) & (1 << (index & 7))) !== 0,
    add(index) {
      if (index >> 3 >= bytes.length) bytes = grown(bytes, (index >> 3) + 1);
      bytes[index >> 3] = byteAt(index >> 3) | (1 << (index & 7));
    },
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
      for (const [position, byte] of bytes.entries()) {
        for (let bit = 0; bit < 8 && byte !== 0; bit++) if (byte & (1 << bit)) yield position * 8 + bit;
      }
    },
    byteAt,
    print() {
      const length = bytes.findLastIndex((byte) => byte !== 0) + 1;
      return btoa(Array.from(bytes.slice(0, length).reverse(), (byte) => String.fromCharCode(byte)).join(''));
    },
  };
}

function lowestZero(byte: number): number {
  return 31 - Math.clz32(~byte & (byte + 1));
}

/** With room for more, so that adding number after number does not copy each time. */
function grown(bytes: Uint8Array, length: number): Uint8Array {
  const larger = new Uint8Array(Math.max(length, bytes.length * 2));
  larger.set(bytes);
  return larger;
}
