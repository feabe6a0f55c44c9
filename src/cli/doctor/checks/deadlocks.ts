import { INSTALLATION } from '../../../kube/well-known.ts';
import { isOurs } from '../../installation.ts';
import {
  afterBreakGlass,
  failsClosed,
  isAsked,
  podIn,
  tierOf,
  webhooksIn,
  type Registered,
  type Request,
} from '../matching.ts';
import { given, type Check, type Facts, type NamespaceFact, type Remark } from '../facts.ts';

/** Nothing that has to work first keeps the replicas from starting. */
export const deadlocks: Check = {
  name: 'deadlocks',
  judge: (all) =>
    given(all.namespaces, 'namespaces', (namespaces) => {
      const facts = { ...all, configurations: afterBreakGlass(all.configurations) };
      const own = namespaces.find(({ name }) => name === facts.namespace);
      if (!own) return [{ severity: 'info', where: `namespace ${facts.namespace}`, what: 'is not there' }];
      const closed = webhooksIn(facts.configurations).filter(({ webhook }) => failsClosed(webhook));
      const remarks = closed.flatMap((one) => judgeWebhook(one, own, facts));
      const where = `namespace ${own.name}`;
      const what = 'no webhook that fails closed is asked about what the replicas need to start';
      return remarks.length > 0 ? remarks : [{ severity: 'ok', where, what }];
    }),
};

/** What has to succeed for the replicas to start and to lead. */
function requestsIn(own: NamespaceFact): readonly Request[] {
  const labels = { 'app.kubernetes.io/name': INSTALLATION.name };
  return [
    podIn(own, labels),
    { operation: 'CREATE', group: 'apps', resource: 'replicasets', namespace: own, labels },
    { operation: 'UPDATE', group: 'coordination.k8s.io', resource: 'leases', namespace: own },
    { operation: 'UPDATE', group: '', resource: 'secrets', namespace: own },
    { operation: 'UPDATE', group: 'discovery.k8s.io', resource: 'endpointslices', namespace: own },
  ];
}

function judgeWebhook(one: Registered, own: NamespaceFact, facts: Facts): readonly Remark[] {
  const { configuration, webhook } = one;
  const asked = requestsIn(own).filter((request) => isAsked(webhook, request));
  if (asked.length === 0) return [];
  const resources = asked.map(({ operation, resource }) => `${operation} ${resource}`).join(', ');
  const conditions = (webhook.matchConditions ?? []).length > 0 ? ', unless its match conditions say otherwise' : '';
  const what = `fails closed, and is asked about ${resources} in namespace ${own.name}${conditions}`;
  const kind = configuration.kind.toLowerCase();
  if (isOurs(configuration)) {
    const why = 'while no replica runs, none can start';
    const fix = `portcullis install | kubectl apply --server-side -f -`;
    return [{ severity: 'problem', where: webhook.name, what, why, fix }];
  }
  const home = homeOf(one, facts);
  const isMutual = home !== undefined && tierOf(facts.configurations, home) === 'fail-closed';
  return [
    {
      severity: isMutual ? 'problem' : 'warning',
      where: `${webhook.name} (${configuration.name})`,
      what,
      why: isMutual
        ? `it runs in namespace ${home.name}, which fails closed for Portcullis: when both are down, neither can start`
        : 'while it does not answer, no replica can start',
      fix: `kubectl edit ${kind} ${configuration.name} # leave namespace ${own.name} out by its namespaceSelector`,
    },
  ];
}

function homeOf({ webhook }: Registered, { namespaces }: Facts): NamespaceFact | undefined {
  const { service } = webhook.clientConfig;
  return 'value' in namespaces ? namespaces.value.find(({ name }) => name === service?.namespace) : undefined;
}
