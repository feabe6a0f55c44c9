import { failsClosed, isAsked, ownWebhooks, tierOf, type Request, type Tier } from './matching.ts';
import type { Facts, NamespaceFact } from './types.ts';

/** What happens in namespaces of a tier while no replica answers. */
export interface Outage {
  readonly tier: Tier;
  readonly namespaces: readonly string[];
  readonly pods: 'refused' | 'start unjudged' | 'start';
  readonly namespaceLabels: 'refused' | 'change unjudged' | 'change';
}

/** What would happen if all replicas were down, by tiers; empty if the namespaces are not known. */
export function foresee({ namespaces, configurations }: Facts): readonly Outage[] {
  if (!('value' in namespaces)) return [];
  const outages = namespaces.value.map((namespace) => {
    const tier = tierOf(configurations, namespace);
    return { tier, namespace: namespace.name, pods: PODS[tier], namespaceLabels: labelsIn(configurations, namespace) };
  });
  const groups = Map.groupBy(outages, ({ tier, namespaceLabels }) => `${ORDER.indexOf(tier)} ${namespaceLabels}`);
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

function labelsIn(configurations: Facts['configurations'], namespace: NamespaceFact): Outage['namespaceLabels'] {
  const request: Request = { operation: 'UPDATE', group: '', resource: 'namespaces', namespace };
  const asked = ownWebhooks(configurations).filter(({ webhook }) => isAsked(webhook, request));
  if (asked.some(({ webhook }) => failsClosed(webhook))) return 'refused';
  return asked.length > 0 ? 'change unjudged' : 'change';
}
