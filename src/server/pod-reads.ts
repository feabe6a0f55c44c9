/** Reads current pods from the API server, with a limit on the concurrent reads. */
import { systemClock, withTimeout } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { LIMITS } from '../kube/limits.ts';
import type { Pod } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';
import { MAX_WAIT_MS, remainingMs, type WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

/** A review that waits for a read. */
interface Reader extends PromiseWithResolvers<Pod> {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
}

type ReadPod = (name: string, namespace: string, context: WebhookContext) => Promise<Pod>;

interface PodReadsDeps {
  readonly cluster: Pick<Cluster, 'get'>;
  readonly waitingRoom: WaitingRoom;
}

/**
 * Creates the function that reads a pod. Each read starts after the call, so the pod is current. Above the limit, calls
 * wait, calls for the same pod share a read, and the client address with the fewest reads is served next.
 */
export function createPodReads({ cluster, waitingRoom }: PodReadsDeps): ReadPod {
  const readers = new Set<Reader>();
  const reads = new Set<Reader>();
  const findNext = (): Reader | undefined => {
    const counts = new Map<string, number>();
    for (const { address } of reads) counts.set(address, (counts.get(address) ?? 0) + 1);
    const count = ({ address }: Reader): number => counts.get(address) ?? 0;
    const [first, ...others] = readers;
    return others.reduce((least, next) => (least && count(next) < count(least) ? next : least), first);
  };
  const read = async (reader: Reader): Promise<void> => {
    const { name, namespace } = reader;
    const same = [...readers].filter((other) => other.name === name && other.namespace === namespace);
    for (const other of same) readers.delete(other);
    reads.add(reader);
    try {
      const pod = await withTimeout(systemClock, MAX_WAIT_MS, (signal) => cluster.get('Pod', name, namespace, signal));
      if (pod.metadata?.name !== name) throw new Error('the response is not the pod');
      for (const { resolve } of same) resolve(pod);
    } catch (error) {
      for (const { reject } of same) reject(error);
    } finally {
      reads.delete(reader);
      readNext();
    }
  };
  const readNext = (): void => {
    const next = reads.size < LIMITS.podReads ? findNext() : undefined;
    if (next) void read(next);
  };
  return async (name, namespace, context) => {
    const reader = { name, namespace, address: context.address ?? '', ...Promise.withResolvers<Pod>() };
    const leave = waitingRoom.enter(context, () =>
      reader.reject(new Error('too many concurrent pod reads; try again')),
    );
    readers.add(reader);
    if (reads.size >= LIMITS.podReads) countExceeded('podReads');
    readNext();
    try {
      return await withTimeout(systemClock, remainingMs(context), () => reader.promise);
    } finally {
      readers.delete(reader);
      leave();
    }
  };
}
