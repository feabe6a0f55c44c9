import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_FORMATS = ['json', 'text'] as const;

export interface LoggerOptions {
  readonly level: LogLevel | 'silent';
  readonly format: (typeof LOG_FORMATS)[number];
}

interface LogOutput {
  readonly logger: Logger;
  /** Writes buffered lines. Gives up after a second if the destination does not accept them. */
  flush(): Promise<void>;
  /** Writes buffered lines and closes the log. Gives up after a second if the destination does not accept them. */
  close(): Promise<void>;
}

/** Maximum size of the buffer while the destination does not accept data. Further lines are dropped. */
const MAX_BUFFER_BYTES = 4 * 1024 * 1024;
const FLUSH_TIMEOUT_MS = 1000;

/**
 * Creates the root logger of the process. It writes lines to the file descriptor (stderr by default) without blocking.
 */
export function createLogger(options: LoggerOptions, fd = 2): LogOutput {
  let closed = false;
  // If the minimum length were 0, `flush` would not wait for the write.
  const buffer = { minLength: 1, maxLength: MAX_BUFFER_BYTES };
  const destination = pino.destination({ fd, sync: false, ...buffer, retryEAGAIN: () => !closed });
  // The server keeps running if the log cannot be written, for example because of a closed pipe or a full disk.
  destination.on('error', () => undefined);
  const logger = pino(
    {
      level: options.level,
      base: null,
      messageKey: 'msg',
      errorKey: 'err',
      timestamp: () => `,"ts":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.format === 'text' ? textDestination(destination) : destination,
  );
  let dropped = 0;
  destination.on('drop', () => dropped++);
  destination.on('drain', () => {
    if (dropped > 0) logger.error({ lines: dropped }, 'log lines dropped: the destination did not accept them');
    dropped = 0;
  });
  const flush = () =>
    new Promise<void>((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(finish, FLUSH_TIMEOUT_MS);
      destination.flush(finish);
    });
  return {
    logger,
    flush,
    async close() {
      await flush();
      closed = true;
      const closing = new Promise((resolve) => destination.once('close', resolve));
      // Otherwise, pino would write the remaining lines at exit, and retry forever if the disk is full.
      destination.destroy();
      await closing;
    },
  };
}

/** Formats human-readable lines with the time, the level, the message and the fields as `key=value`. */
function textDestination(stream: DestinationStream): DestinationStream {
  return {
    write(line) {
      const { ts, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
      const pairs = Object.entries(fields).map(([key, value]) => ` ${key}=${formatValue(value)}`);
      stream.write(`${String(ts)} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${pairs.join('')}\n`);
    },
  };
}

function formatValue(value: unknown): string {
  return typeof value === 'string' && /^[\w.:/@-]+$/.test(value) ? value : JSON.stringify(value);
}
