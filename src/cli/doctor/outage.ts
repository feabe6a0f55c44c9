import { isInstalled } from './checks/installed.ts';
import { afterBreakGlass, tierOf, tierOfRequest, type Request, type Tier } from './matching.ts';
import type { Facts } from './types.ts';

/** What happens in namespaces of a tier while no replica answers. */
export interface Outage {
  readonly tier: Tier;
  readonly namespaces: readonly string[];
  readonly pods: 'refused' | 'start unjudged' | 'start';
  readonly namespaceLabels: 'refused' | 'change unjudged' | 'change';
  /** That get the same labels as these. */
  readonly newNamespaces: 'refused' | 'created unjudged' | 'created';
}

/**
 * What would happen if all replicas were down and the glass whole, by tiers; empty if the namespaces are not known, or
 * nothing is installed.
 */
export function foresee(facts: Facts): readonly Outage[] {
  const { namespaces } = facts;
  if (!('value' in namespaces) || !isInstalled(facts)) return [];
  const configurations = afterBreakGlass(facts.configurations);
  const outages = namespaces.value.map((namespace) => {
    const tier = tierOf(configurations, namespace);
    const request: Request = { operation: 'UPDATE', group: '', resource: 'namespaces', namespace };
    return {
      tier,
      namespace: namespace.name,
      pods: PODS[tier],
      namespaceLabels: LABELS[tierOfRequest(configurations, request)],
      newNamespaces: CREATED[tierOfRequest(configurations, { ...request, operation: 'CREATE' })],
    };
  });
  const groups = Map.groupBy(outages, (one) =>
    [ORDER.indexOf(one.tier), one.namespaceLabels, one.newNamespaces].join(' '),
  );
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, [first, ...rest]]) => {
      if (!first) return [];
      const { namespace, ...outage } = first;
      return [{ ...outage, namespaces: [namespace, ...rest.map((one) => one.namespace)] }];
    });
}

const ORDER: readonly Tier[] = ['fail-closed', 'fail-open', 'excluded'];

const PODS: Readonly<Record<Tier, Outage['pods']>> = {
  'fail-closed': 'refused',
  'fail-open': 'start unjudged',
  excluded: 'start',
};

const LABELS: Readonly<Record<Tier, Outage['namespaceLabels']>> = {
  'fail-closed': 'refused',
  'fail-open': 'change unjudged',
  excluded: 'change',
};

const CREATED: Readonly<Record<Tier, Outage['newNamespaces']>> = {
  'fail-closed': 'refused',
  'fail-open': 'created unjudged',
  excluded: 'created',
};
