import { RELAXED_LABEL } from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import {
  type Configuration,
  isOff,
  type LiveWebhook,
  otherConditions,
  otherRequirements,
} from '../../install/index.ts';
import { matchesLabelSelector } from '../../kube/label-selector.ts';
import { isObject } from '../../kube/types.ts';
import { matchesRule } from '../../kube/webhook-rules.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type { Facts, FloorObject, NamespaceFact } from './facts.ts';

/** Request attributes that webhooks match. */
export interface Request {
  readonly operation: 'CREATE' | 'UPDATE' | 'CONNECT';
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** The namespace of the object, or the Namespace itself. Absent for other cluster-scoped objects. */
  readonly namespace?: NamespaceFact | undefined;
  /** Labels of the object in the request. */
  readonly labels?: Readonly<Record<string, string>>;
}

export interface ConfiguredWebhook {
  readonly configuration: Configuration;
  readonly webhook: LiveWebhook;
}

export function allWebhooks(configurations: readonly Configuration[]): readonly ConfiguredWebhook[] {
  return configurations.flatMap((configuration) =>
    configuration.webhooks.map((webhook) => ({ configuration, webhook })),
  );
}

export function ownWebhooks(configurations: readonly Configuration[]): readonly ConfiguredWebhook[] {
  return allWebhooks(configurations.filter(isPartOfPortcullis));
}

/** Returns true if API servers call the webhook for a request. Conditions other than break-glass may exclude it. */
export function isCalled(
  webhook: LiveWebhook,
  { operation, group, resource, subresource = '', namespace, labels = {} }: Request,
): boolean {
  const target = { operation, namespace: namespace?.name ?? '', subresource };
  const rules: readonly unknown[] = webhook.rules ?? [];
  return (
    !isOff(webhook) &&
    rules.some((rule) => isObject(rule) && matchesRule(rule, target, { group, version: 'v1', resource })) &&
    (!namespace || matchesLabelSelector(webhook.namespaceSelector ?? {}, namespace.labels)) &&
    matchesLabelSelector(webhook.objectSelector ?? {}, labels)
  );
}

/** Returns the facts without the changes that break-glass made to webhooks, floor policies and enforce labels. */
export function withoutBreakGlass(facts: Facts): Facts {
  const { policies, namespaces } = facts;
  const webhookConfigurations = facts.webhookConfigurations.map((configuration) => ({
    ...configuration,
    webhooks: configuration.webhooks.map((webhook) => ({ ...webhook, matchConditions: otherConditions(webhook) })),
  }));
  return {
    ...facts,
    webhookConfigurations,
    policies: 'value' in policies ? { value: policies.value.map(restorePolicy) } : policies,
    namespaces: 'value' in namespaces ? { value: namespaces.value.map(restoreLevel) } : namespaces,
  };
}

function restorePolicy(policy: FloorObject): FloorObject {
  const { spec } = policy;
  if (!spec?.matchConstraints) return policy;
  const { namespaceSelector, ...constraints } = spec.matchConstraints;
  const selector = { ...namespaceSelector, matchExpressions: otherRequirements({ spec }) };
  return { ...policy, spec: { ...spec, matchConstraints: { ...constraints, namespaceSelector: selector } } };
}

function restoreLevel(namespace: NamespaceFact): NamespaceFact {
  const { [RELAXED_LABEL]: level, ...labels } = namespace.labels;
  return level === undefined
    ? namespace
    : { ...namespace, labels: { ...labels, [POD_SECURITY_LABELS.enforce]: level } };
}

export function failsClosed({ failurePolicy }: LiveWebhook): boolean {
  return failurePolicy !== 'Ignore';
}

/** Classifies requests by the effect of an outage on them. */
export type Tier = 'fail-closed' | 'fail-open' | 'excluded';

/** Returns the tier that applies to new pods in a namespace. */
export function namespaceTier(configurations: readonly Configuration[], namespace: NamespaceFact): Tier {
  return getTier(calledWebhooks(configurations, podCreation(namespace)));
}

/** Returns the tier of a request for which API servers call the webhooks. */
export function getTier(called: readonly LiveWebhook[]): Tier {
  if (called.some(failsClosed)) return 'fail-closed';
  return called.length > 0 ? 'fail-open' : 'excluded';
}

/** Returns the webhooks of the installation that API servers call for a request. */
export function calledWebhooks(configurations: readonly Configuration[], request: Request): readonly LiveWebhook[] {
  return ownWebhooks(configurations)
    .map(({ webhook }) => webhook)
    .filter((webhook) => isCalled(webhook, request));
}

export function podCreation(namespace: NamespaceFact, labels: Readonly<Record<string, string>> = {}): Request {
  return { operation: 'CREATE', group: '', resource: 'pods', namespace, labels };
}

/** Returns the namespaces whose pods are denied while no replica responds and break-glass is off. */
export function closedNamespaces(facts: Facts): readonly NamespaceFact[] {
  const { namespaces, webhookConfigurations } = withoutBreakGlass(facts);
  const known = 'value' in namespaces ? namespaces.value : [];
  return known.filter((namespace) => namespaceTier(webhookConfigurations, namespace) === 'fail-closed');
}
