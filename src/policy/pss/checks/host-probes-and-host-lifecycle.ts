import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, HandlerHost, PodFields } from '../fields.ts';
import { allIn, forbidden } from '../offenders.ts';
import { distinct, plural, quotedList } from '../text.ts';
import type { Check, Finding } from '../types.ts';

/**
 * The kubelet may not be made to send requests to hosts of the pod's choice.
 *
 * Fields   spec.{init,ephemeral,}containers[*].{liveness,readiness,startup}Probe.{httpGet,tcpSocket}.host
 *          spec.{init,ephemeral,}containers[*].lifecycle.{postStart,preStop}.{httpGet,tcpSocket}.host
 * Allowed  nothing; not even the loopback address
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostProbesAndHostLifecycle: Check = {
  id: 'hostProbesAndHostLifecycle',
  level: 'baseline',
  remedy: 'Remove host from httpGet and tcpSocket in probes and lifecycle hooks: without it they go to the pod.',
  passesUnlessSet: ['handlerHosts'],
  versions: [{ since: 'v1.34', check: noHosts }],
};

/** Unlike elsewhere, containers are sorted, and equal names are said once. */
function noHosts(pod: PodFields): Finding | undefined {
  const offenders = pod.containers.filter(namesHost);
  if (offenders.length === 0) return undefined;
  const names = distinct(offenders.map(({ name }) => name));
  const hosts = distinct(allIn(offenders, handlerHostsOf).map(({ host }) => host));
  const who = names.length === 1 ? `container ${quotedList(names)} uses` : `containers ${quotedList(names)} use`;
  const what = plural(hosts.length, 'host', 'hosts');
  return {
    reason: 'probe or lifecycle host',
    detail: `${who} probe or lifecycle ${what} ${quotedList(hosts)}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.flatMap((container) =>
    container.handlerHosts.map(({ path, host }) => forbidden(container, path, host)),
  );
}

const namesHost = (container: ContainerFields): boolean => container.handlerHosts.length > 0;

function handlerHostsOf(container: ContainerFields): readonly HandlerHost[] {
  return container.handlerHosts;
}
