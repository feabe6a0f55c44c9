import { destination, pino, type DestinationStream, type Logger } from 'pino';

export type { Logger };

export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
export const LOG_FORMATS = ['json', 'text'] as const;

export interface LoggerOptions {
  readonly level: (typeof LOG_LEVELS)[number] | 'silent';
  readonly format: (typeof LOG_FORMATS)[number];
}

/** A logger and the way to write out what it still holds, at the end of the process. */
export interface LogOutput {
  readonly logger: Logger;
  flush(): void;
}

/** Makes the one logger of the process; parts get children of it. Lines go to the file descriptor, by default stderr. */
export function createLogger(options: LoggerOptions, fd: number | string = 2): LogOutput {
  // Asynchronous: a review never waits for the disk. Lines go out together, a tenth of a second late at most.
  const stream = destination({ dest: fd, sync: false, minLength: 8192, periodicFlush: 100 });
  const sink = options.format === 'text' ? textSink(stream) : stream;
  return {
    logger: pino(
      {
        level: options.level,
        base: null,
        messageKey: 'msg',
        errorKey: 'err',
        timestamp: () => `,"ts":"${new Date().toISOString()}"`,
        formatters: { level: (label) => ({ level: label }) },
      },
      sink,
    ),
    flush: () => {
      try {
        stream.flushSync();
      } catch {
        // Nothing had been opened or written yet; there is nothing to lose.
      }
    },
  };
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
