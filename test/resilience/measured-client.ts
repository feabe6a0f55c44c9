import { readFileSync } from 'node:fs';
import type { WebhookClient } from '../support/webhook-client.ts';

/** Measures the CPU time and the time in the run queue of the main thread of a process during each call. */
export function measureThread(client: WebhookClient, pid: number) {
  const read = (): readonly [cpuMs: number, waitedMs: number] => {
    try {
      const [cpuNs = 0, waitedNs = 0] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8')
        .split(' ')
        .map(Number);
      return [cpuNs / 1e6, waitedNs / 1e6];
    } catch {
      return [0, 0];
    }
  };
  const cpu: number[] = [];
  const own: number[] = [];
  const measured: WebhookClient = {
    async call(path, review) {
      const startMs = performance.now();
      const [cpuMs, waitedMs] = read();
      try {
        return await client.call(path, review);
      } finally {
        const [cpuAfterMs, waitedAfterMs] = read();
        cpu.push(cpuAfterMs - cpuMs);
        own.push(performance.now() - startMs - (waitedAfterMs - waitedMs));
      }
    },
    close: () => client.close(),
  };
  const rank = (values: readonly number[], share: number): number =>
    Math.round(
      (values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0) * 10,
    ) / 10;
  return {
    client: measured,
    result: () => ({ cpuP99Ms: rank(cpu, 0.99), cpuMaxMs: rank(cpu, 1), ownP99Ms: rank(own, 0.99) }),
  };
}
