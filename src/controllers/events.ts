/** Records events for controllers. */
import type { Cluster, ClusterEvent } from '../cluster/cluster.ts';
import { writeEvent } from '../cluster/event-recorder.ts';
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

/** Maximum message length. The API server rejects longer messages. */
const MAX_EVENT_MESSAGE = 1000;

/** Creates an event recorder for a controller. `track` gets the promise of each write. */
export function createEventRecorder(
  cluster: Pick<Cluster, 'recordEvent'>,
  reportingController: string,
  logger: Logger,
  track: (write: Promise<void>) => void = () => undefined,
): RecordEvent {
  return (kind, { metadata }, { message, ...event }) => {
    const { name = '', namespace, uid } = metadata ?? {};
    const identity: ObjectMeta = {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
    };
    const regarding = { ...typeMeta(kind), metadata: identity };
    const note = message.length > MAX_EVENT_MESSAGE ? `${message.slice(0, MAX_EVENT_MESSAGE - 1)}…` : message;
    track(writeEvent(cluster, logger, { ...event, note, regarding, reportingController }));
  };
}
