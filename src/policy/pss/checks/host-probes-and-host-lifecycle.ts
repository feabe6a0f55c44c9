import { plural } from '../../../kube/text.ts';
import { LOST, type PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, celPlural, celQuotedList, celSortedSet, violatingNames } from '../cel.ts';
import { type Check, distinct, type Finding, forbiddenValue, quotedList } from '../check.ts';

const HANDLERS = ['livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle.?postStart', 'lifecycle.?preStop'];
const HOSTS = HANDLERS.flatMap((handler) =>
  ['httpGet', 'tcpSocket'].map((action) => `c.?${handler}.?${action}.?host.orValue("")`),
);

/** Conjunction of a term for each host. Building a list of the hosts would be more expensive. */
const CONTAINER_PASSES = HOSTS.map((host) => `${host} == ""`).join(' && ');
const cel: BuildCel = ({ containers }) => ({
  passes: `${containers}.all(c, ${CONTAINER_PASSES})`,
  text: bind(
    {
      handlerContainers: celSortedSet(`[${violatingNames({ containers }, CONTAINER_PASSES)}]`),
      handlerHosts: celSortedSet(`${containers}.map(c, [${HOSTS.join(', ')}].filter(host, host != ""))`),
    },
    `"probe or lifecycle host (" + ${celNames('handlerContainers')} + ${celPlural('handlerContainers', ' uses ', ' use ')} + ${celPlural('handlerHosts', 'probe or lifecycle host ', 'probe or lifecycle hosts ')} + ${celQuotedList('handlerHosts')} + ")"`,
  ),
});

/**
 * Probes and lifecycle hooks must not make the kubelet send requests to arbitrary hosts.
 *
 * Fields   spec.{init,ephemeral,}containers[*].{liveness,readiness,startup}Probe.{httpGet,tcpSocket}.host
 *          spec.{init,ephemeral,}containers[*].lifecycle.{postStart,preStop}.{httpGet,tcpSocket}.host
 * Allowed  not set (the loopback address is not allowed either)
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostProbesAndHostLifecycle: Check = {
  id: 'hostProbesAndHostLifecycle',
  level: 'baseline',
  why: "The kubelet sends probes and lifecycle requests from the node's network. By setting a host, a pod can make the kubelet send requests to addresses that the pod itself cannot reach.",
  fix: 'Remove host from httpGet and tcpSocket in probes and lifecycle hooks. By default, requests go to the pod itself.',
  violation: ['spec.containers[0].livenessProbe', { httpGet: { host: '169.254.169.254', port: 80 } }],
  repairs: [{ remove: 'field', note: LOST.probeHost, explicit: true }],
  versions: [{ since: 'v1.34', check: noHosts, cel }],
};

/**
 * Returns a finding if any host is set. Container names are distinct and sorted, as in upstream, but unlike in other
 * checks.
 */
function noHosts({ handlerHosts }: PodFields): Finding | undefined {
  if (handlerHosts.length === 0) return undefined;
  const containers = distinct(handlerHosts.map(({ container }) => container.name));
  const hosts = distinct(handlerHosts.map(({ host }) => host));
  const subject = plural(containers.length, 'container');
  const verb = plural(containers.length, 'uses', 'use');
  const noun = plural(hosts.length, 'host');
  return {
    reason: 'probe or lifecycle host',
    detail: `${subject} ${quotedList(containers)} ${verb} probe or lifecycle ${noun} ${quotedList(hosts)}`,
    fields: () => handlerHosts.map(({ container, path, host }) => forbiddenValue(container, path, host)),
  };
}
