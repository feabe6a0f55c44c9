import { setTimeout as sleep } from 'node:timers/promises';
import type { Source } from './source.ts';

export interface FileWatch {
  /** Reads the file; called again and again. */
  readonly read: () => Promise<Source>;
  /** What was read before the watch began; it is no change. */
  readonly initial: Source;
  /** The content is another and stays so for an interval, or it can be read again after an error. */
  readonly onChange: (source: Source) => void;
  /** The file cannot be read; told once, until that changes. */
  readonly onError: (error: unknown) => void;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** How often the file is read; 500 if absent. */
  readonly intervalMs?: number;
}

/**
 * Watches the content of a file until the signal aborts. It is read over and over: Kubernetes updates a mounted ConfigMap
 * by swapping a symbolic link to its folder, which a watch on the file itself does not see. Only what is read twice alike
 * is told: who writes a file in place empties it first, and the beginning of a configuration may be one, of another meaning.
 */
export async function watchFile(watch: FileWatch): Promise<void> {
  const { read, onChange, onError, signal, intervalMs = 500 } = watch;
  let told: Source | undefined = watch.initial;
  let last: Source | undefined = told;
  let complaint: string | undefined;
  while (await isTime(intervalMs, signal)) {
    try {
      const source = await read();
      if (signal.aborted) return;
      const isSettled = areEqual(source, last);
      last = source;
      complaint = undefined;
      if (!isSettled || areEqual(source, told)) continue;
      told = source;
      onChange(source);
    } catch (error) {
      told = last = undefined;
      if (complaint !== String(error)) onError(error);
      complaint = String(error);
    }
  }
}

function areEqual(source: Source, other: Source | undefined): boolean {
  return source.file === other?.file && source.text === other.text;
}

/** False if the watch has ended. The process does not live on for the sake of the timer. */
async function isTime(intervalMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(intervalMs, undefined, { signal, ref: false });
    return true;
  } catch {
    return false;
  }
}
