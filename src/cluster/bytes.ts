/**
 * Collects the bytes of responses and reviews. Buffers are not part of the heap, so V8 would garbage-collect them only
 * once they occupy 64 MiB. Memory is therefore freed explicitly where possible.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects chunks in one buffer, which doubles its size up to the maximum. */
export function createBytes(maxBytes: number) {
  let bytes: Buffer = NO_BYTES;
  let length = 0;
  return {
    /** Adds a chunk, whose memory is freed unless it is a part of a larger buffer. */
    add(chunk: Buffer): void {
      const required = length + chunk.length;
      if (length === 0) bytes = chunk;
      else {
        if (required > bytes.length) {
          const grown = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(required, 2 * bytes.length)));
          bytes.copy(grown, 0, 0, length);
          own.add(grown.buffer);
          free(bytes);
          bytes = grown;
        }
        chunk.copy(bytes, length);
        free(chunk);
      }
      countReceived(required - length);
      length = required;
    },
    length: (): number => length,
    /** Returns the collected bytes and removes them from this object. */
    take(): Buffer {
      const taken = bytes.subarray(0, length);
      [bytes, length] = [NO_BYTES, 0];
      return taken;
    },
  };
}

const NO_BYTES = Buffer.alloc(0);

/** Buffers that contain only the bytes of one text. */
const own = new WeakSet<ArrayBufferLike>();

function sharesBuffer({ buffer, length }: Buffer): boolean {
  return length !== buffer.byteLength && !own.has(buffer);
}

/** Frees the memory of bytes unless other data shares the buffer. */
function free(bytes: Buffer): void {
  if (!sharesBuffer(bytes)) (bytes.buffer as ArrayBuffer).transfer(0);
}

/** Returns bytes whose buffer can be transferred. Copies them if other data shares the buffer. */
export function ownBytes(bytes: Buffer): Uint8Array<ArrayBuffer> {
  return sharesBuffer(bytes)
    ? Uint8Array.from(bytes)
    : new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
}

/**
 * Number of received bytes after which garbage is collected, because the buffers of sockets cannot be freed explicitly.
 */
const GARBAGE_BYTES = 8 * 1024 * 1024;

setFlagsFromString('--expose-gc');
/** Collects garbage. A minor collection takes about a millisecond, but frees only new buffers and strings. */
export const collectGarbage = runInNewContext('gc') as (options: { readonly type: 'minor' | 'major' }) => void;

let received = 0;

function countReceived(bytes: number): void {
  received += bytes;
  if (received < GARBAGE_BYTES) return;
  received = 0;
  collectGarbage({ type: 'minor' });
}
