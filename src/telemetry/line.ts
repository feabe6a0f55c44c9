import { pino, type Logger } from 'pino';

/** What a line says beside its message; what is undefined is left out. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>;

/** What pino keeps under its symbols, which it exports so that a hot path can do with less. */
interface Internals {
  /** The beginnings of lines, by the number of their level. */
  readonly [pino.symbols.lsCacheSym]: Readonly<Record<number, string>>;
  readonly [pino.symbols.chindingsSym]: string;
  readonly [pino.symbols.streamSym]: { write(line: string): void };
  readonly [pino.symbols.timeSym]: () => string;
}

/**
 * Returns a function that does what `log.info(facts, message)` does, in half the time: pino joins a line from dozens of
 * small texts. For lines that are written for every request.
 * @see https://github.com/pinojs/pino/blob/v10.4.0/docs/api.md#pino-symbols
 */
export function createLine(log: Logger, message: string): (facts: Facts) => void {
  const internals = log as unknown as Internals;
  const stream = internals[pino.symbols.streamSym];
  const timestamp = internals[pino.symbols.timeSym];
  const start = internals[pino.symbols.lsCacheSym][pino.levels.values.info ?? 0] ?? '';
  const bindings = internals[pino.symbols.chindingsSym];
  const end = `,"msg":${JSON.stringify(message)}}\n`;
  return (facts) => {
    if (!log.isLevelEnabled('info')) return;
    const printed = JSON.stringify(facts).slice(1, -1);
    stream.write(start + timestamp() + bindings + (printed && ',') + printed + end);
  };
}
