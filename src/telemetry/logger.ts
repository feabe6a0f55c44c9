import { writeSync, write } from 'node:fs';
import { pino, type DestinationStream, type Logger } from 'pino';

/** How long the end of the process waits for a reader that does not read. */
const PATIENCE_MS = 1000;

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

/** Where log lines go. */
interface LineWriter {
  write(line: string): void;
  /** Writes out what is held, at once and waiting for it, but not for a reader that has stopped: at the end of the process. */
  flush(): void;
}

/** Lines are gathered in blocks of that size; a block is written as soon as it is full, and in any case after the delay. */
const BLOCK_BYTES = 65_536;
const DELAY_MS = 100;
/** No character of a JavaScript string takes more in UTF-8. */
const BYTES_PER_CHARACTER = 3;
/** What a reader that has stopped reading may cost in memory; beyond it lines are dropped, and their number is told. */
const HELD_BYTES = 16 * 1024 * 1024;

/**
 * Writes lines to a file descriptor in blocks, one at a time and without waiting: whoever logs goes on at once, even if
 * nobody reads the other end of the pipe. The bytes of a line go straight into the block: thousands of small texts that
 * wait to be written would cost the garbage collector more than all else that is done with them.
 */
export function createLineWriter(fd: number): LineWriter {
  const full: Buffer[] = [];
  let fullBytes = 0;
  let block: Buffer = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  let used = 0;
  let spare: Buffer | undefined;
  let dropped = 0;
  let writing: Buffer | undefined;
  let timer: NodeJS.Timeout | undefined;

  const hold = (line: string): void => {
    const bytes = line.length * BYTES_PER_CHARACTER;
    if (bytes > block.length - used) closeBlock();
    if (bytes <= block.length) used += block.write(line, used);
    else enqueue(Buffer.from(line));
  };
  const enqueue = (bytes: Buffer): void => {
    full.push(bytes);
    fullBytes += bytes.length;
  };
  const closeBlock = (): void => {
    if (used === 0) return;
    enqueue(block.subarray(0, used));
    block = spare ?? Buffer.allocUnsafeSlow(BLOCK_BYTES);
    spare = undefined;
    used = 0;
  };
  const tellDropped = (): void => {
    if (dropped === 0) return;
    const note = `{"level":"error","msg":"log lines dropped: nobody reads them","lines":${dropped}}\n`;
    dropped = 0;
    hold(note);
  };
  const take = (): Buffer | undefined => {
    if (full.length === 0) closeBlock();
    const batch = full.shift();
    fullBytes -= batch?.length ?? 0;
    tellDropped();
    return batch;
  };

  const send = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (writing) return;
    const batch = take();
    if (batch) continueAt(batch);
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
      if (rest.buffer.byteLength === BLOCK_BYTES) spare = Buffer.from(rest.buffer);
      sendSoon();
    });
  };
  const sendSoon = (): void => {
    if (full.length > 0) send();
    else if (used > 0) timer ??= setTimeout(send, DELAY_MS).unref();
  };

  return {
    write(line) {
      if (fullBytes > HELD_BYTES) {
        dropped++;
        return;
      }
      hold(line);
      if (!writing) sendSoon();
    },
    flush() {
      try {
        // What is being written may be on its way or not: a line twice is better than a line lost.
        if (writing) writeAll(fd, writing);
        for (let batch = take(); batch; batch = take()) writeAll(fd, batch);
      } catch {
        // As above.
      }
    },
  };
}

export type { Logger };

export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_FORMATS = ['json', 'text'] as const;

export interface LoggerOptions {
  readonly level: LogLevel | 'silent';
  readonly format: (typeof LOG_FORMATS)[number];
}

/** A logger and the way to write out what it still holds, at the end of the process. */
interface LogOutput {
  readonly logger: Logger;
  flush(): void;
}

/** Makes the one logger of the process; parts get children of it. Lines go to the file descriptor, by default stderr. */
export function createLogger(options: LoggerOptions, fd = 2): LogOutput {
  const writer = createLineWriter(fd);
  const logger = pino(
    {
      level: options.level,
      base: null,
      messageKey: 'msg',
      errorKey: 'err',
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.format === 'text' ? textSink(writer) : writer,
  );
  return { logger, flush: () => writer.flush() };
}

let second = { start: 0, text: '' };

/** The time in RFC 3339, to the millisecond; what only changes each second is printed once. */
function timestamp(): string {
  const now = Date.now();
  const ms = now % 1000;
  if (now - ms !== second.start) second = { start: now - ms, text: new Date(now).toISOString().slice(0, 20) };
  return `,"ts":"${second.text}${String(ms).padStart(3, '0')}Z"`;
}

/** One line for people: time, level, message, then the facts as key=value. */
function textSink(stream: DestinationStream): DestinationStream {
  return {
    write(line) {
      const { ts, level, msg, ...facts } = JSON.parse(line) as Record<string, unknown>;
      const pairs = Object.entries(facts).map(([key, value]) => ` ${key}=${printFact(value)}`);
      stream.write(`${String(ts)} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${pairs.join('')}\n`);
    },
  };
}

function printFact(value: unknown): string {
  return typeof value === 'string' && /^[\w.:/@-]+$/.test(value) ? value : JSON.stringify(value);
}
