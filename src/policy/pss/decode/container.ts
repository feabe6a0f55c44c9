import type { JsonObject } from '../../../kube/types.ts';
import type { ContainerFields } from '../fields.ts';
import { LIVENESS_PROBE, READINESS_PROBE, STARTUP_PROBE, readHandler, readLifecycle } from './handlers.ts';
import { booleanIn, int32In, listIn, objectIn, stringIn, stringsIn, type Reader, type Struct } from './reader.ts';
import { appended, clearContainer } from './scratch.ts';
import { readSharedField } from './security-context.ts';

const CONTAINER: Struct = { name: 'Container', path: '' };
const SECURITY_CONTEXT: Struct = { name: 'SecurityContext', path: 'securityContext' };
const CAPABILITIES: Struct = { name: 'Capabilities', path: 'securityContext.capabilities' };
const PORT: Struct = { name: 'ContainerPort', path: 'ports[*]' };

/** Reads a container; the reader stands on it. */
export function readContainer(reader: Reader, container: JsonObject | undefined, into: ContainerFields): void {
  clearContainer(into);
  for (const key in container) {
    const value = container[key];
    if (value == null) continue;
    switch (key) {
      case 'name':
        into.name = stringIn(reader, CONTAINER, key, value);
        break;
      case 'image':
        // No check reads it, but the significance of an update depends on it.
        stringIn(reader, CONTAINER, key, value);
        break;
      case 'securityContext':
        into.hasSecurityContext = true;
        readSecurityContext(reader, objectIn(reader, CONTAINER, key, value, 'v1.SecurityContext'), into);
        break;
      case 'ports':
        readPorts(reader, listIn(reader, CONTAINER, key, value, 'v1.ContainerPort'), into);
        break;
      case 'livenessProbe':
        readHandler(reader, LIVENESS_PROBE, objectIn(reader, CONTAINER, key, value, 'v1.Probe'), into);
        break;
      case 'readinessProbe':
        readHandler(reader, READINESS_PROBE, objectIn(reader, CONTAINER, key, value, 'v1.Probe'), into);
        break;
      case 'startupProbe':
        readHandler(reader, STARTUP_PROBE, objectIn(reader, CONTAINER, key, value, 'v1.Probe'), into);
        break;
      case 'lifecycle':
        readLifecycle(reader, objectIn(reader, CONTAINER, key, value, 'v1.Lifecycle'), into);
    }
  }
}

function readSecurityContext(reader: Reader, context: JsonObject | undefined, into: ContainerFields): void {
  for (const key in context) {
    const value = context[key];
    if (value == null) continue;
    switch (key) {
      case 'privileged':
        into.privileged = booleanIn(reader, SECURITY_CONTEXT, key, value);
        break;
      case 'allowPrivilegeEscalation':
        into.allowPrivilegeEscalation = booleanIn(reader, SECURITY_CONTEXT, key, value);
        break;
      case 'procMount':
        into.procMount = stringIn(reader, SECURITY_CONTEXT, key, value, 'v1.ProcMountType');
        break;
      case 'capabilities':
        readCapabilities(reader, objectIn(reader, SECURITY_CONTEXT, key, value, 'v1.Capabilities'), into);
        break;
      default:
        readSharedField(reader, SECURITY_CONTEXT, key, value, into);
    }
  }
}

function readCapabilities(reader: Reader, capabilities: JsonObject | undefined, into: ContainerFields): void {
  for (const key in capabilities) {
    if (key === 'add') into.capabilitiesAdd = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
    else if (key === 'drop') {
      into.capabilitiesDrop = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
    }
  }
}

function readPorts(reader: Reader, ports: readonly unknown[], into: ContainerFields): void {
  for (let index = 0; index < ports.length; index++) {
    reader.index = index;
    const port = objectIn(reader, CONTAINER, 'ports[*]', ports[index], 'v1.ContainerPort');
    for (const key in port) {
      const value = port[key];
      if (key !== 'hostPort' || value == null) continue;
      const hostPort = int32In(reader, PORT, key, value);
      if (hostPort !== 0) {
        into.hostPorts = appended(into.hostPorts, { path: `ports[${index}].hostPort`, value: hostPort });
      }
    }
  }
}
