import { plural } from '../../../kube/text.ts';
import { LOST, type PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, celPlural, celSortedSet, violatingNames } from '../cel.ts';
import { type Check, distinct, type Finding, forbiddenValue, formatNames } from '../check.ts';

const CONTAINER_PASSES = 'c.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0)';
const cel: BuildCel = ({ containers }) => ({
  passes: `${containers}.all(c, ${CONTAINER_PASSES})`,
  text: bind(
    {
      hostPortContainers: violatingNames({ containers }, CONTAINER_PASSES),
      hostPortNumbers: celSortedSet(
        `${containers}.map(c, c.?ports.orValue([]).filter(port, port.?hostPort.orValue(0) != 0).map(port, string(port.hostPort)))`,
      ),
    },
    `"hostPort (" + ${celNames('hostPortContainers')} + ${celPlural('hostPortContainers', ' uses ', ' use ')} + ${celPlural('hostPortNumbers', 'hostPort ', 'hostPorts ')} + hostPortNumbers.join(", ") + ")"`,
  ),
});

/**
 * Pods must not use host ports.
 *
 * Fields   spec.{init,ephemeral,}containers[*].ports[*].hostPort
 * Allowed  0 or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPorts: Check = {
  id: 'hostPorts',
  level: 'baseline',
  why: "A host port is reachable at the node's address, bypasses network policies, and can be used by only one pod on each node.",
  fix: 'Remove hostPort from the container ports, and expose them through a Service.',
  violation: ['spec.containers[0].ports', [{ containerPort: 8080, hostPort: 80 }]],
  cis: '5.2.12',
  nsa: 'no host ports',
  repairs: [{ remove: 'field', note: LOST.hostPort, explicit: true }],
  versions: [{ since: 'v1.0', check: noHostPorts, cel }],
};

function noHostPorts({ hostPorts }: PodFields): Finding | undefined {
  if (hostPorts.length === 0) return undefined;
  const containers = [...new Set(hostPorts.map(({ container }) => container))];
  const ports = distinct(hostPorts.map(({ port }) => String(port)));
  const verb = plural(containers.length, 'uses', 'use');
  const noun = plural(ports.length, 'hostPort');
  return {
    reason: 'hostPort',
    detail: `${formatNames('container', containers)} ${verb} ${noun} ${ports.join(', ')}`,
    fields: () =>
      hostPorts.map(({ container, index, port }) => forbiddenValue(container, `ports[${index}].hostPort`, port)),
  };
}
