import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Returns the bytes that a call retains. */
export async function measureRetained(call: () => Promise<unknown>): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = (): number => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  const retained = await call();
  const bytes = used() - before;
  // Keep the result alive until the measurement.
  return retained === undefined ? Number.NaN : bytes;
}
