import { pino, type DestinationStream, type Logger } from 'pino';
import { createLineWriter } from './line-writer.ts';

export type { Logger };

export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_FORMATS = ['json', 'text'] as const;

export interface LoggerOptions {
  readonly level: LogLevel | 'silent';
  readonly format: (typeof LOG_FORMATS)[number];
}

/** A logger and the way to write out what it still holds, at the end of the process. */
export interface LogOutput {
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
