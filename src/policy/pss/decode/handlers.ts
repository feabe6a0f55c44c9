import type { JsonObject } from '../../../kube/types.ts';
import { SETTING, type ContainerFields } from '../fields.ts';
import { objectIn, stringIn, type Reader, type Struct } from './reader.ts';
import { appended } from './scratch.ts';

/** Something that the kubelet does to a container over the network: a probe or a lifecycle hook. */
interface Handler extends Struct {
  readonly httpGet: Action;
  readonly tcpSocket: Action;
}

interface Action extends Struct {
  readonly hostPath: string;
}

const LIFECYCLE: Struct = { name: 'Lifecycle', path: 'lifecycle' };
const POST_START = handler('LifecycleHandler', 'lifecycle.postStart');
const PRE_STOP = handler('LifecycleHandler', 'lifecycle.preStop');
export const LIVENESS_PROBE = handler('Probe', 'livenessProbe');
export const READINESS_PROBE = handler('Probe', 'readinessProbe');
export const STARTUP_PROBE = handler('Probe', 'startupProbe');

export function readLifecycle(reader: Reader, lifecycle: JsonObject | undefined, into: ContainerFields): void {
  for (const key in lifecycle) {
    if (key !== 'postStart' && key !== 'preStop') continue;
    const hook = objectIn(reader, LIFECYCLE, key, lifecycle[key], 'v1.LifecycleHandler');
    readHandler(reader, key === 'postStart' ? POST_START : PRE_STOP, hook, into);
  }
}

/** Collects the hosts that a probe or hook names; exec and grpc have none. */
export function readHandler(
  reader: Reader,
  struct: Handler,
  handler: JsonObject | undefined,
  into: ContainerFields,
): void {
  for (const key in handler) {
    if (key === 'httpGet') {
      readHost(reader, struct.httpGet, objectIn(reader, struct, key, handler[key], 'v1.HTTPGetAction'), into);
    } else if (key === 'tcpSocket') {
      readHost(reader, struct.tcpSocket, objectIn(reader, struct, key, handler[key], 'v1.TCPSocketAction'), into);
    }
  }
}

function readHost(reader: Reader, struct: Action, action: JsonObject | undefined, into: ContainerFields): void {
  for (const key in action) {
    if (key !== 'host') continue;
    const host = stringIn(reader, struct, key, action[key]);
    if (host === '') continue;
    reader.pod.settings |= SETTING.handlerHosts;
    into.handlerHosts = appended(into.handlerHosts, {
      path: struct.hostPath,
      host,
    });
  }
}

function handler(name: string, path: string): Handler {
  return {
    name,
    path,
    httpGet: action('HTTPGetAction', `${path}.httpGet`),
    tcpSocket: action('TCPSocketAction', `${path}.tcpSocket`),
  };
}

function action(name: string, path: string): Action {
  return { name, path, hostPath: `${path}.host` };
}
