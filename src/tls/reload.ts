import { keyPairError, type KeyPair } from './key-pair.ts';

export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Reads a file; rejects with an Error that names it. */
  readonly read: (file: string) => Promise<string>;
}

export interface WatchOptions extends KeyPairFiles {
  /** The pair in use. */
  readonly current: KeyPair;
  readonly now: () => Date;
  /** How often the files are read; 1000 if absent. */
  readonly intervalMs?: number;
  /** Called with each new pair that can be used. */
  onReload(pair: KeyPair): void;
  /** Called once for each change after which the files cannot be used; the pair before stays good. */
  onError(error: Error): void;
}

/**
 * Reads a certificate and its key. Rejects with an Error that says what is wrong if they cannot be served: missing,
 * not PEM, not belonging together, or not valid now.
 */
export async function readKeyPair({ certFile, keyFile, read }: KeyPairFiles, now: Date): Promise<KeyPair> {
  const pair = await readFiles({ certFile, keyFile, read });
  const message = keyPairError(pair, { cert: certFile, key: keyFile }, now);
  if (message !== undefined) throw new Error(message);
  return pair;
}

/**
 * Follows the files of a certificate and its key until the returned function is called. It compares contents, since
 * Kubernetes swaps a symbolic link above the files, of which the files themselves show no sign.
 */
export function watchKeyPair(options: WatchOptions): () => void {
  const { certFile, keyFile, read, intervalMs = 1000 } = options;
  let current = options.current;
  let failure = { message: '', times: 0 };
  let stopped = false;
  let timer: NodeJS.Timeout;

  const check = async (): Promise<void> => {
    const pair = await readFiles({ certFile, keyFile, read });
    if (pair.cert !== current.cert || pair.key !== current.key) {
      const message = keyPairError(pair, { cert: certFile, key: keyFile }, options.now());
      if (message !== undefined) throw new Error(message);
      if (!stopped) options.onReload(pair);
      current = pair;
    }
    failure = { message: '', times: 0 };
  };
  const report = (error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error);
    failure = { message, times: message === failure.message ? failure.times + 1 : 1 };
    // The first time, only one of the two files may have been written yet.
    if (failure.times === 2 && !stopped) options.onError(new Error(message, { cause: error }));
  };
  const again = (): void => {
    if (stopped) return;
    timer = setTimeout(() => void check().catch(report).then(again), intervalMs);
    timer.unref();
  };
  again();

  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

async function readFiles({ certFile, keyFile, read }: KeyPairFiles): Promise<KeyPair> {
  const [cert, key] = await Promise.all([read(certFile), read(keyFile)]);
  return { cert, key };
}
