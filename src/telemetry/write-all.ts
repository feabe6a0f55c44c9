import { writeSync } from 'node:fs';

/** How long the end of the process waits for a reader that does not read. */
const PATIENCE_MS = 1000;

const pause = new Int32Array(new SharedArrayBuffer(4));

/** Writes it all before it returns. Throws if it cannot be written, or if for a while nobody takes any of it. */
export function writeAll(fd: number, bytes: Buffer): void {
  let rest = bytes;
  let giveUpMs = performance.now() + PATIENCE_MS;
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
      giveUpMs = performance.now() + PATIENCE_MS;
    } catch (error) {
      const isBusy = error instanceof Error && 'code' in error && error.code === 'EAGAIN';
      if (!isBusy || performance.now() > giveUpMs) throw error;
      Atomics.wait(pause, 0, 0, 10);
    }
  }
}
