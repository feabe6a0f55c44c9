/** Predicts the effect on requests while no replica responds and break-glass is off. */
import { ENFORCE_LABEL } from '../../api/names.ts';
import { NOT_PRIVILEGED_CONDITION } from '../../api/webhooks.ts';
import type { Configuration, LiveWebhook } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { PRIVILEGED_SCC, SCC_MODE_LABEL } from '../../policy/scc/index.ts';
import { isUnderFloor } from './checks/floor.ts';
import { isInstalled } from './checks/installation.ts';
import type { Facts, NamespaceFact } from './facts.ts';
import {
  calledWebhooks,
  failsClosed,
  getTier,
  isCalled,
  podCreation,
  type Request,
  type Tier,
  withoutBreakGlass,
} from './matching.ts';

export const ONLY_PRIVILEGED = `only with SCC ${PRIVILEGED_SCC}`;

type Effect = 'denied' | typeof ONLY_PRIVILEGED | 'not reviewed' | 'decided by the floor' | 'unaffected';

/** The effect on requests in the namespaces of a tier. */
export interface Outage {
  readonly tier: Tier;
  /** Why pods cannot be created. Empty unless the tier is `fail-closed`. */
  readonly reasons: readonly string[];
  readonly namespaces: readonly string[];
  readonly pods: Effect;
  /** Effect on `exec` and `attach`. */
  readonly exec: Effect;
  /** Effect on changes to the labels of the namespaces, and on new namespaces with the same labels. */
  readonly namespaceWrites: Effect;
}

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
    const called = calledWebhooks(configurations, podCreation(namespace));
    const tier = getTier(called);
    const effect = (request: Omit<Request, 'namespace'>): Effect =>
      findEffect(configurations, { ...request, namespace });
    const stream = { operation: 'CONNECT', group: '', resource: 'pods', subresource: 'exec' } as const;
    const effects = {
      tier,
      reasons: explainClosed(configurations, namespace),
      pods: tier === 'fail-open' && isUnderFloor(facts, namespace) ? 'decided by the floor' : formatEffect(called),
      // If SCCs do not apply in the namespaces, no webhook reviews streams.
      exec: tier === 'excluded' || effect(stream) !== 'unaffected' ? effect(stream) : 'not reviewed',
      namespaceWrites: effect({ operation: 'UPDATE', group: '', resource: 'namespaces' }),
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

/** Returns the effect of an outage of all replicas on writes of SCCs, or `undefined` without the SCC feature. */
export function simulateSccWrites(facts: Facts): Effect | undefined {
  if (!facts.settings.features.scc) return undefined;
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  return findEffect(withoutBreakGlass(facts).webhookConfigurations, { operation: 'UPDATE', group, resource });
}

/** Returns the effect of an outage of all replicas on a request. */
export function findEffect(configurations: readonly Configuration[], request: Request): Effect {
  return formatEffect(calledWebhooks(configurations, request));
}

function formatEffect(called: readonly LiveWebhook[]): Effect {
  const tier = getTier(called);
  if (tier !== 'fail-closed') return tier === 'fail-open' ? 'not reviewed' : 'unaffected';
  const isSkipped = ({ matchConditions }: LiveWebhook): boolean =>
    matchConditions?.some(({ name }) => name === NOT_PRIVILEGED_CONDITION) === true;
  return called.filter(failsClosed).every(isSkipped) ? ONLY_PRIVILEGED : 'denied';
}

/**
 * Returns the reasons why webhooks for pods fail closed in a namespace. Finds them by changing the namespace's labels
 * and checking which fail-closed webhooks API servers would still call.
 */
function explainClosed(configurations: readonly Configuration[], namespace: NamespaceFact): readonly string[] {
  const withLabels = (labels: NamespaceFact['labels']): Request => podCreation({ ...namespace, labels });
  const findClosed = (request: Request): readonly LiveWebhook[] =>
    calledWebhooks(configurations, request).filter(failsClosed);
  const { [ENFORCE_LABEL]: ownLevel, ...others } = namespace.labels;
  const closed = findClosed(podCreation(namespace));
  const reported = { [SCC_MODE_LABEL]: 'report' };
  const isByDefault = ownLevel === undefined && findClosed(withLabels({ ...others, ...reported })).length > 0;
  const isForSccs = closed.some((webhook) => !isCalled(webhook, withLabels({ ...namespace.labels, ...reported })));
  return [
    ...(closed.length > 0 && ownLevel !== undefined ? [`label ${ENFORCE_LABEL}`] : []),
    ...(isByDefault ? ['default level'] : []),
    ...(isForSccs ? ['SCCs'] : []),
  ];
}
