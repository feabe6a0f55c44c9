import { INSTALLATION } from '../../../api/names.ts';
import { isPartOfPortcullis } from '../../../api/webhooks.ts';
import { NAMESPACE_NAME_LABEL } from '../../../kube/well-known.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  info,
  type NamespaceFact,
  ok,
  problem,
  warning,
} from '../facts.ts';
import { changeWebhook } from '../fix.ts';
import {
  allWebhooks,
  failsClosed,
  isCalled,
  namespaceTier,
  podCreation,
  type ConfiguredWebhook,
  type Request,
  withoutBreakGlass,
} from '../matching.ts';
import { restoreWebhook } from './webhooks.ts';

/** Checks that no fail-closed webhook prevents the replicas from starting. */
export const deadlocks: DoctorCheck = {
  name: 'deadlocks',
  evaluate: (all) =>
    evaluateFact(all.namespaces, 'namespaces', (namespaces) => {
      const facts = withoutBreakGlass(all);
      const own = namespaces.find(({ name }) => name === facts.namespace);
      if (!own) return [info(`namespace ${facts.namespace}`, 'does not exist')];
      const closed = allWebhooks(facts.webhookConfigurations).filter(({ webhook }) => failsClosed(webhook));
      const results = closed.flatMap((registered) => evaluateWebhook(registered, own, facts));
      const message = 'no fail-closed webhook matches the requests that start the replicas';
      return results.length > 0 ? results : [ok(`namespace ${own.name}`, message)];
    }),
};

/** Returns the requests that must succeed before the replicas can start and elect a leader. */
function startRequests(own: NamespaceFact): readonly Request[] {
  const labels = { 'app.kubernetes.io/name': INSTALLATION.name };
  return [
    podCreation(own, labels),
    { operation: 'CREATE', group: 'apps', resource: 'replicasets', namespace: own, labels },
    { operation: 'UPDATE', group: 'coordination.k8s.io', resource: 'leases', namespace: own },
    { operation: 'UPDATE', group: '', resource: 'secrets', namespace: own },
    { operation: 'UPDATE', group: 'discovery.k8s.io', resource: 'endpointslices', namespace: own },
  ];
}

function evaluateWebhook(registered: ConfiguredWebhook, own: NamespaceFact, facts: Facts): readonly CheckResult[] {
  const { configuration, webhook } = registered;
  const matched = startRequests(own).filter((request) => isCalled(webhook, request));
  if (matched.length === 0) return [];
  const resources = matched.map(({ operation, resource }) => `${operation} ${resource}`).join(', ');
  const conditions = (webhook.matchConditions ?? []).length > 0 ? ', unless its match conditions exclude them' : '';
  const message = `fails closed and matches ${resources} in namespace ${own.name}${conditions}`;
  if (isPartOfPortcullis(configuration)) {
    const impact = 'no replica can start while none is running';
    return [problem(webhook.name, message, { impact, fix: restoreWebhook(facts, registered) })];
  }
  const { service } = webhook.clientConfig;
  const serviceNamespace = factValue(facts.namespaces)?.find(({ name }) => name === service?.namespace);
  const { namespaceSelector: { matchExpressions = [] } = {} } = webhook;
  const excluded = { key: NAMESPACE_NAME_LABEL, operator: 'NotIn', values: [own.name] };
  const namespaceSelector = { matchExpressions: [...matchExpressions, excluded] };
  const fix = changeWebhook(configuration, { name: webhook.name, namespaceSelector });
  const object = `${webhook.name} (${configuration.name})`;
  if (
    serviceNamespace === undefined ||
    namespaceTier(facts.webhookConfigurations, serviceNamespace) !== 'fail-closed'
  ) {
    return [warning(object, message, { impact: 'no replica can start while this webhook does not respond', fix })];
  }
  const impact = `it runs in namespace ${serviceNamespace.name}, where Portcullis fails closed. If both are down, neither can start`;
  return [problem(object, message, { impact, fix })];
}
