/** Predicts the effect on requests while no replica responds and break-glass is off. */
import { isUnderFloor } from './checks/floor.ts';
import { isInstalled } from './checks/installation.ts';
import type { Facts } from './facts.ts';
import { namespaceTier, type Request, requestTier, type Tier, withoutBreakGlass } from './matching.ts';

type Effect = 'denied' | 'not reviewed' | 'decided by the floor' | 'unaffected';

/** The effect on requests in the namespaces of a tier. */
export interface Outage {
  readonly tier: Tier;
  readonly namespaces: readonly string[];
  readonly pods: Effect;
  readonly namespaceLabels: Effect;
  /** Effect on new namespaces with the same labels. */
  readonly newNamespaces: Effect;
}

const EFFECTS: Readonly<Record<Tier, Effect>> = {
  'fail-closed': 'denied',
  'fail-open': 'not reviewed',
  excluded: 'unaffected',
};

const TIERS: readonly Tier[] = ['fail-closed', 'fail-open', 'excluded'];

/**
 * Simulates an outage of all replicas, by tier. Returns nothing if the namespaces are unknown, or if nothing is
 * installed.
 */
export function simulateOutage(current: Facts): readonly Outage[] {
  const facts = withoutBreakGlass(current);
  const { namespaces, webhookConfigurations: configurations } = facts;
  if (!('value' in namespaces) || !isInstalled(facts)) return [];
  const outages = namespaces.value.map((namespace) => {
    const tier = namespaceTier(configurations, namespace);
    const update: Request = { operation: 'UPDATE', group: '', resource: 'namespaces', namespace };
    const effects = {
      tier,
      pods: tier === 'fail-open' && isUnderFloor(facts, namespace) ? 'decided by the floor' : EFFECTS[tier],
      namespaceLabels: EFFECTS[requestTier(configurations, update)],
      newNamespaces: EFFECTS[requestTier(configurations, { ...update, operation: 'CREATE' })],
    } as const;
    return { effects, name: namespace.name };
  });
  const groups = Map.groupBy(outages, ({ effects: { tier, ...others } }) =>
    [TIERS.indexOf(tier), ...Object.values(others)].join(' '),
  );
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, group]) =>
      group.slice(0, 1).map(({ effects }) => ({ ...effects, namespaces: group.map(({ name }) => name) })),
    );
}
