/** Reads current pods from the API server, with a limit on the concurrent reads. */
import { createSlots, systemClock, withTimeout } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { LIMITS } from '../kube/limits.ts';
import type { Pod } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';
import { remainingMs, type WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

type ReadPod = (name: string, namespace: string, context: WebhookContext) => Promise<Pod>;

interface PodReadsDeps {
  readonly cluster: Pick<Cluster, 'get'>;
  readonly waitingRoom: WaitingRoom;
}

/** Creates the function that reads a pod. Above the limit, calls wait, and client addresses are served in rotation. */
export function createPodReads({ cluster, waitingRoom }: PodReadsDeps): ReadPod {
  const slots = createSlots(LIMITS.podReads);
  const read = async (
    name: string,
    namespace: string,
    address: string | undefined,
    signal: AbortSignal,
  ): Promise<Pod> => {
    const release = await slots.take(address, signal);
    try {
      signal.throwIfAborted();
      const pod = await cluster.get('Pod', name, namespace, signal);
      if (pod.metadata?.name !== name) throw new Error('the response is not the pod');
      return pod;
    } finally {
      release();
    }
  };
  return async (name, namespace, context) => {
    const displaced = new AbortController();
    const leave = waitingRoom.enter(context, () => displaced.abort());
    if (slots.areTaken()) countExceeded('podReads');
    try {
      return await withTimeout(systemClock, remainingMs(context), (timeout) =>
        read(name, namespace, context.address, AbortSignal.any([timeout, displaced.signal])),
      );
    } catch (error) {
      throw displaced.signal.aborted ? new Error('too many concurrent pod reads; try again') : error;
    } finally {
      leave();
    }
  };
}
