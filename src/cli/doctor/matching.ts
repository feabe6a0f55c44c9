import { deepEqual } from '../../kube/equality.ts';
import { matchesLabelSelector, matchesRule } from '../../kube/webhooks.ts';
import { BREAK_GLASS, stateOf } from '../break-glass.ts';
import { isOurs, type Configuration, type Webhook } from '../installation.ts';
import type { NamespaceFact } from './facts.ts';

/** A request as far as API servers choose webhooks by it. */
export interface Request {
  readonly operation: 'CREATE' | 'UPDATE';
  readonly group: string;
  readonly resource: string;
  /** Absent for what lies in no namespace; of a Namespace, itself. */
  readonly namespace?: NamespaceFact | undefined;
  /** Of the object. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** A webhook and the configuration that it stands in. */
export interface Registered {
  readonly configuration: Configuration;
  readonly webhook: Webhook;
}

/** All webhooks of the configurations, in their order. */
export function webhooksIn(configurations: readonly Configuration[]): readonly Registered[] {
  return configurations.flatMap((configuration) =>
    configuration.webhooks.map((webhook) => ({ configuration, webhook })),
  );
}

/** Those of this program. */
export function ownWebhooks(configurations: readonly Configuration[]): readonly Registered[] {
  return webhooksIn(configurations.filter(isOurs));
}

/**
 * True if API servers ask the webhook about such requests. Of match conditions only that of break-glass is looked at:
 * the others may leave out more.
 */
export function isAsked(webhook: Webhook, { operation, group, resource, namespace, labels = {} }: Request): boolean {
  const target = { operation, namespace: namespace?.name ?? '', subresource: '' };
  return (
    stateOf(webhook) !== 'off' &&
    (webhook.rules ?? []).some((rule) => matchesRule(rule, target, { group, version: 'v1', resource })) &&
    (!namespace || matchesLabelSelector(webhook.namespaceSelector ?? {}, namespace.labels)) &&
    matchesLabelSelector(webhook.objectSelector ?? {}, labels)
  );
}

/** The configurations as they will be once the glass is whole again. */
export function afterBreakGlass(configurations: readonly Configuration[]): readonly Configuration[] {
  return configurations.map((configuration) => ({
    ...configuration,
    webhooks: configuration.webhooks.map((webhook) => ({
      ...webhook,
      matchConditions: (webhook.matchConditions ?? []).filter((one) => !deepEqual(one, BREAK_GLASS)),
    })),
  }));
}

/** True if a request fails when the webhook cannot be asked. */
export function failsClosed({ failurePolicy }: Webhook): boolean {
  return failurePolicy !== 'Ignore';
}

/** What happens to the pods of a namespace while no replica answers. */
export type Tier = 'fail-closed' | 'fail-open' | 'excluded';

export function tierOf(configurations: readonly Configuration[], namespace: NamespaceFact): Tier {
  return tierOfRequest(configurations, podIn(namespace));
}

/** The same of any request. */
export function tierOfRequest(configurations: readonly Configuration[], request: Request): Tier {
  const asked = ownWebhooks(configurations)
    .map(({ webhook }) => webhook)
    .filter((webhook) => isAsked(webhook, request));
  if (asked.some(failsClosed)) return 'fail-closed';
  return asked.length > 0 ? 'fail-open' : 'excluded';
}

/** A pod that is created. */
export function podIn(namespace: NamespaceFact, labels: Readonly<Record<string, string>> = {}): Request {
  return { operation: 'CREATE', group: '', resource: 'pods', namespace, labels };
}
