import { write, writeSync } from 'node:fs';

/** Where log lines go. */
export interface LineWriter {
  write(line: string): void;
  /** Writes out what is held, at once and waiting for it, but not for a reader that has stopped: at the end of the process. */
  flush(): void;
}

/** Written as soon as that much waits, and in any case after the delay. */
const BATCH_LENGTH = 65_536;
const DELAY_MS = 100;
/** How long the end of the process waits for a reader that does not read. */
const PATIENCE_MS = 1000;
/** What a reader that has stopped reading may cost in memory; beyond it lines are dropped, and their number is told. */
const HELD_LENGTH = 16 * 1024 * 1024;

/**
 * Writes lines to a file descriptor in batches, one at a time and without waiting: whoever logs goes on at once, even if
 * nobody reads the other end of the pipe.
 */
export function createLineWriter(fd: number): LineWriter {
  let held = '';
  let dropped = 0;
  let writing: Buffer | undefined;
  let timer: NodeJS.Timeout | undefined;

  const send = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (writing || held === '') return;
    const batch = Buffer.from(takeHeld());
    writing = batch;
    continueAt(batch);
  };
  const continueAt = (rest: Buffer): void => {
    writing = rest;
    write(fd, rest, (error, bytes) => {
      if (error?.code === 'EAGAIN') {
        // Nobody reads: that must not keep a process alive that has nothing else to do.
        setTimeout(continueAt, DELAY_MS, rest).unref();
        return;
      }
      // A file descriptor that cannot be written is nothing that a log line could tell.
      if (!error && bytes < rest.length) {
        continueAt(rest.subarray(bytes));
        return;
      }
      writing = undefined;
      if (held.length >= BATCH_LENGTH) send();
      else schedule();
    });
  };
  const schedule = (): void => {
    if (held !== '') timer ??= setTimeout(send, DELAY_MS).unref();
  };
  const takeHeld = (): string => {
    const text = held;
    held = dropped === 0 ? '' : `{"level":"error","msg":"log lines dropped: nobody reads them","lines":${dropped}}\n`;
    dropped = 0;
    return text;
  };

  return {
    write(line) {
      if (held.length > HELD_LENGTH) {
        dropped++;
        return;
      }
      held += line;
      if (held.length >= BATCH_LENGTH && !writing) send();
      else schedule();
    },
    flush() {
      try {
        // What is being written may be on its way or not: a line twice is better than a line lost.
        if (writing) writeAll(fd, writing);
        while (held !== '') writeAll(fd, Buffer.from(takeHeld()));
      } catch {
        // As above.
      }
    },
  };
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/** Writes it all before it returns. Throws if it cannot be written, or if for a while nobody takes any of it. */
function writeAll(fd: number, bytes: Buffer): void {
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
