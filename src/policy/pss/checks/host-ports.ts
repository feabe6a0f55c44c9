import type { ContainerFields, PodFields } from '../fields.ts';
import { allOf, containersWhere, forbidden } from '../offenders.ts';
import { distinct, namesOf, plural } from '../text.ts';
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
  const offenders = containersWhere(pod, hasHostPort);
  return offenders && finding(offenders);
}

function finding(offenders: readonly ContainerFields[]): Finding {
  const ports = distinct(allOf(offenders, portsIn));
  const verb = plural(offenders.length, 'uses', 'use');
  return {
    reason: 'hostPort',
    detail: `${namesOf(offenders)} ${verb} ${plural(ports.length, 'hostPort', 'hostPorts')} ${ports.join(', ')}`,
    fields: () =>
      offenders.flatMap((container) => container.hostPorts.map(({ path, value }) => forbidden(container, path, value))),
  };
}

function hasHostPort(container: ContainerFields): boolean {
  return container.hostPorts.length > 0;
}

function portsIn(container: ContainerFields): string[] {
  return container.hostPorts.map(({ value }) => String(value));
}
