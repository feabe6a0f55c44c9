import { write, writeSync } from 'node:fs';

/** Where log lines go. */
export interface LineWriter {
  write(line: string): void;
  /** Writes out what is held, at once and waiting for it: at the end of the process. */
  flush(): void;
}

/** Written as soon as that much waits, and in any case after the delay. */
const BATCH_LENGTH = 65_536;
const DELAY_MS = 100;
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
        setTimeout(continueAt, DELAY_MS, rest);
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
        if (writing) writeSync(fd, writing);
        while (held !== '') writeSync(fd, takeHeld());
      } catch {
        // As above.
      }
    },
  };
}
