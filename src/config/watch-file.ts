import { setTimeout as sleep } from 'node:timers/promises';
import type { Source } from './source.ts';

export interface FileWatch {
  /** Reads the file; called again and again. */
  readonly read: () => Promise<Source>;
  /** What was read before the watch began; it is no change. */
  readonly initial: Source;
  /** The content is another, or it can be read again after an error. */
  readonly onChange: (source: Source) => void;
  /** The file cannot be read; told once, until that changes. */
  readonly onError: (error: unknown) => void;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  readonly intervalMs?: number;
}

/**
 * Watches the content of a file until the signal aborts. It is read over and over: Kubernetes updates a mounted ConfigMap
 * by swapping a symbolic link to its folder, which a watch on the file itself does not see.
 */
export async function watchFile(watch: FileWatch): Promise<void> {
  const { read, onChange, onError, signal, intervalMs = 1000 } = watch;
  let last: Source | undefined = watch.initial;
  let complaint: string | undefined;
  while (await isTime(intervalMs, signal)) {
    try {
      const source = await read();
      if (signal.aborted) return;
      const isSame = source.file === last?.file && source.text === last.text;
      last = source;
      complaint = undefined;
      if (!isSame) onChange(source);
    } catch (error) {
      last = undefined;
      if (complaint !== String(error)) onError(error);
      complaint = String(error);
    }
  }
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
