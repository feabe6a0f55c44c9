import type { PodFields } from '../../pod/pod.ts';
import { distinct, forbidden, formatNames, plural, type Check, type Finding } from '../check.ts';

/**
 * Ports of the host must not be used.
 *
 * Fields   spec.{init,ephemeral,}containers[*].ports[*].hostPort
 * Allowed  0 or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPorts: Check = {
  id: 'hostPorts',
  level: 'baseline',
  fix: 'Remove hostPort from the ports of the containers, and reach them through a Service.',
  versions: [{ since: 'v1.0', check: noHostPorts }],
};

function noHostPorts({ hostPorts: offenders }: PodFields): Finding | undefined {
  if (offenders.length === 0) return undefined;
  const containers = [...new Set(offenders.map(({ container }) => container))];
  const ports = distinct(offenders.map(({ port }) => String(port)));
  const verb = plural(containers.length, 'uses', 'use');
  const noun = plural(ports.length, 'hostPort', 'hostPorts');
  return {
    reason: 'hostPort',
    detail: `${formatNames('container', containers)} ${verb} ${noun} ${ports.join(', ')}`,
    fields: () => offenders.map(({ container, index, port }) => forbidden(container, `ports[${index}].hostPort`, port)),
  };
}
