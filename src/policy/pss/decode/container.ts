import type { JsonObject } from '../../../kube/types.ts';
import { SETTING, type ContainerFields } from '../fields.ts';
import { LIVENESS_PROBE, READINESS_PROBE, STARTUP_PROBE, readHandler, readLifecycle } from './handlers.ts';
import {
  booleanIn,
  int32In,
  listIn,
  objectIn,
  optionalStringIn,
  stringIn,
  stringsIn,
  type Reader,
  type Struct,
} from './reader.ts';
import { appended, clearContainer } from './scratch.ts';
import { readSharedField } from './security-context.ts';

const CONTAINER: Struct = { name: 'Container', path: '' };
const SECURITY_CONTEXT: Struct = {
  name: 'SecurityContext',
  path: 'securityContext',
};
const CAPABILITIES: Struct = {
  name: 'Capabilities',
  path: 'securityContext.capabilities',
};
const PORT: Struct = { name: 'ContainerPort', path: 'ports[*]' };

/** Reads a container; the reader stands on it. */
export function readContainer(reader: Reader, container: JsonObject | undefined, into: ContainerFields): void {
  clearContainer(into);
  for (const key in container) {
    switch (key) {
      case 'name':
        into.name = stringIn(reader, CONTAINER, key, container[key]);
        break;
      case 'image':
        // No check reads it, but the significance of an update depends on it.
        stringIn(reader, CONTAINER, key, container[key]);
        break;
      case 'securityContext':
        readSecurityContext(reader, objectIn(reader, CONTAINER, key, container[key], 'v1.SecurityContext'), into);
        break;
      case 'ports':
        readPorts(reader, listIn(reader, CONTAINER, key, container[key], 'v1.ContainerPort'), into);
        break;
      case 'livenessProbe':
        readHandler(reader, LIVENESS_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'readinessProbe':
        readHandler(reader, READINESS_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'startupProbe':
        readHandler(reader, STARTUP_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'lifecycle':
        readLifecycle(reader, objectIn(reader, CONTAINER, key, container[key], 'v1.Lifecycle'), into);
    }
  }
}

function readSecurityContext(reader: Reader, context: JsonObject | undefined, into: ContainerFields): void {
  into.hasSecurityContext = context !== undefined;
  for (const key in context) {
    switch (key) {
      case 'privileged':
        into.privileged = booleanIn(reader, SECURITY_CONTEXT, key, context[key]);
        if (into.privileged) reader.pod.settings |= SETTING.privileged;
        break;
      case 'allowPrivilegeEscalation':
        into.allowPrivilegeEscalation = booleanIn(reader, SECURITY_CONTEXT, key, context[key]);
        break;
      case 'procMount':
        reader.pod.settings |= SETTING.procMount;
        into.procMount = optionalStringIn(reader, SECURITY_CONTEXT, key, context[key], 'v1.ProcMountType');
        break;
      case 'capabilities':
        readCapabilities(reader, objectIn(reader, SECURITY_CONTEXT, key, context[key], 'v1.Capabilities'), into);
        break;
      default:
        readSharedField(reader, SECURITY_CONTEXT, key, context[key], into);
    }
  }
}

function readCapabilities(reader: Reader, capabilities: JsonObject | undefined, into: ContainerFields): void {
  for (const key in capabilities) {
    if (key === 'drop') {
      into.capabilitiesDrop = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
    } else if (key === 'add') {
      into.capabilitiesAdd = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
      if (into.capabilitiesAdd.length > 0) reader.pod.settings |= SETTING.capabilitiesAdd;
    }
  }
}

function readPorts(reader: Reader, ports: readonly unknown[], into: ContainerFields): void {
  for (let index = 0; index < ports.length; index++) {
    reader.index = index;
    const port = objectIn(reader, CONTAINER, 'ports[*]', ports[index], 'v1.ContainerPort');
    for (const key in port) {
      if (key !== 'hostPort') continue;
      const hostPort = int32In(reader, PORT, key, port[key]) ?? 0;
      if (hostPort === 0) continue;
      reader.pod.settings |= SETTING.hostPorts;
      into.hostPorts = appended(into.hostPorts, { index, port: hostPort });
    }
  }
}
