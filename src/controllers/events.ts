import type { Cluster, ClusterEvent } from '../cluster/cluster.ts';
import { truncateNote, writeEvent } from '../cluster/event-recorder.ts';
import { defined } from '../kube/defined.ts';
import type { Kind } from '../kube/kinds.ts';
import { typeMeta } from '../kube/resources.ts';
import type { KubeObject, ObjectMeta } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';

/** An event for an object, as shown by `kubectl describe`. */
export interface ControllerEvent extends Pick<ClusterEvent, 'type' | 'reason' | 'action'> {
  readonly message: string;
}

/** Records an event for an object in the background. Failures are logged. */
export type RecordEvent = (kind: Kind, object: KubeObject, event: ControllerEvent) => void;

/** Selects the events that have not been recorded yet, so each event is recorded only once while its cause persists. */
export function createEventFilter() {
  const recorded = new Map<string, ReadonlySet<string>>();
  const isNew = (key: string, { message }: Message): boolean => recorded.get(key)?.has(message) !== true;
  return {
    hasNew: (key: string, events: readonly Message[]) => events.some((event) => isNew(key, event)),
    /** Records the current events of a key. Returns the events that have not been recorded before. */
    takeNew<T extends Message>(key: string, events: readonly T[]): readonly T[] {
      const fresh = events.filter((event) => isNew(key, event));
      if (events.length === 0) recorded.delete(key);
      else recorded.set(key, new Set(events.map(({ message }) => message)));
      return fresh;
    },
  };
}

type Message = Pick<ControllerEvent, 'message'>;

/** Creates an event recorder for a controller. `track` is called with the promise of each write. */
export function createControllerRecorder(
  cluster: Pick<Cluster, 'recordEvent'>,
  reportingController: string,
  logger: Logger,
  track: (write: Promise<void>) => void = () => undefined,
): RecordEvent {
  return (kind, { metadata }, { message, ...event }) => {
    const { name = '', namespace, uid } = metadata ?? {};
    const identity: ObjectMeta = {
      name,
      ...defined({ namespace, uid }),
    };
    const regarding = { ...typeMeta(kind), metadata: identity };
    track(writeEvent(cluster, logger, { ...event, note: truncateNote(message), regarding, reportingController }));
  };
}
