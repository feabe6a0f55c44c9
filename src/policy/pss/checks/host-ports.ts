import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, HostPort, PodFields } from '../fields.ts';
import { allIn, forbidden } from '../offenders.ts';
import { distinct, named, plural } from '../text.ts';
import type { Check, Finding } from '../types.ts';

/**
 * Ports of the host may not be taken.
 *
 * Fields   spec.{init,ephemeral,}containers[*].ports[*].hostPort
 * Allowed  0 or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPorts: Check = {
  id: 'hostPorts',
  level: 'baseline',
  remedy: 'Remove hostPort from the ports of the containers, and reach them through a Service.',
  passesUnlessSet: ['hostPorts'],
  versions: [{ since: 'v1.0', check: noHostPorts }],
};

function noHostPorts(pod: PodFields): Finding | undefined {
  const offenders = pod.containers.filter(takesHostPort);
  if (offenders.length === 0) return undefined;
  const ports = distinct(allIn(offenders, hostPortsOf).map(({ port }) => String(port)));
  const verb = plural(offenders.length, 'uses', 'use');
  const noun = plural(ports.length, 'hostPort', 'hostPorts');
  return { reason: 'hostPort', detail: `${named('container', offenders)} ${verb} ${noun} ${ports.join(', ')}`, fields };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.flatMap((container) =>
    container.hostPorts.map(({ index, port }) => forbidden(container, `ports[${index}].hostPort`, port)),
  );
}

const takesHostPort = (container: ContainerFields): boolean => container.hostPorts.length > 0;

function hostPortsOf(container: ContainerFields): readonly HostPort[] {
  return container.hostPorts;
}
