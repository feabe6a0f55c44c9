import type { ContainerFields, PodFields } from '../fields.ts';
import { allOf, containersWhere, forbidden } from '../offenders.ts';
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

function noHosts(pod: PodFields): Finding | undefined {
  const offenders = containersWhere(pod, namesHost);
  return offenders && finding(offenders);
}

/** Unlike elsewhere, containers are sorted, and equal names are said once. */
function finding(offenders: readonly ContainerFields[]): Finding {
  const names = distinct(offenders.map((container) => container.name));
  const hosts = distinct(allOf(offenders, hostsIn));
  const verb = plural(names.length, 'uses', 'use');
  const noun = plural(hosts.length, 'host', 'hosts');
  return {
    reason: 'probe or lifecycle host',
    detail: `${plural(names.length, 'container', 'containers')} ${quotedList(names)} ${verb} probe or lifecycle ${noun} ${quotedList(hosts)}`,
    fields: () =>
      offenders.flatMap((container) =>
        container.handlerHosts.map(({ path, value }) => forbidden(container, path, value)),
      ),
  };
}

function namesHost(container: ContainerFields): boolean {
  return container.handlerHosts.length > 0;
}

function hostsIn(container: ContainerFields): string[] {
  return container.handlerHosts.map(({ value }) => value);
}
