import { buildManifests } from '../../../install/index.ts';
import type { Kinds } from '../../../kube/kinds.ts';
import type { Pod } from '../../../kube/types.ts';
import { INSTALLATION } from '../../../kube/well-known.ts';
import {
  createCommand,
  evaluateFact,
  info,
  ok,
  problem,
  warning,
  type Check,
  type CheckResult,
  type Facts,
} from '../facts.ts';
import { reachability } from './reachability.ts';

const DEPLOYMENT = 'Deployment portcullis';
const BUDGET = 'PodDisruptionBudget';
const NO_RESPONSE = 'no replica responds to reviews';

/** Enough replicas are ready, they run on several nodes, and a drain does not evict all of them. */
export const replicas: Check = {
  name: 'replicas',
  evaluate: (facts) => [
    ...evaluateFact(facts.deployment, DEPLOYMENT, (deployment) =>
      deployment
        ? evaluateDeployment(deployment, facts)
        : [info(DEPLOYMENT, 'does not exist: replicas run outside of the cluster')],
    ),
    ...evaluateUrls(facts),
    ...evaluateEndpoints(facts),
    ...evaluateSpread(facts),
  ],
};

function evaluateDeployment({ spec, status }: Kinds['Deployment'], facts: Facts): readonly CheckResult[] {
  const { namespace, settings } = facts;
  const replicas = spec?.replicas ?? 1;
  const message = `${status?.readyReplicas ?? 0} of ${replicas} replicas ready`;
  if (settings.webhooks !== 'service') {
    return [info(DEPLOYMENT, `${message}; API servers call the webhooks at ${settings.webhooks.url}`)];
  }
  const readiness = evaluateReadiness(status?.readyReplicas ?? 0, replicas, { message, namespace });
  if (replicas > 1) return [readiness, ...evaluateBudget(facts)];
  return [
    readiness,
    warning(DEPLOYMENT, 'has only one replica', {
      impact: 'no replica responds during its replacement',
      fix: `kubectl -n ${namespace} scale deployment portcullis --replicas=3`,
    }),
  ];
}

function evaluateReadiness(
  ready: number,
  replicas: number,
  { message, namespace }: { readonly message: string; readonly namespace: string },
): CheckResult {
  const fix = `kubectl -n ${namespace} describe pods -l app.kubernetes.io/name=portcullis`;
  if (ready === 0) return problem(DEPLOYMENT, message, { impact: NO_RESPONSE, fix });
  if (ready >= replicas) return ok(DEPLOYMENT, message);
  return warning(DEPLOYMENT, message, { impact: 'availability is reduced if another replica stops', fix });
}

/** The endpoints of the Service, through which API servers call the webhooks. */
function evaluateEndpoints({ endpointSlices, settings, namespace }: Facts): readonly CheckResult[] {
  if (settings.webhooks !== 'service') return [];
  const object = `Service ${INSTALLATION.name}`;
  return evaluateFact(endpointSlices, object, (slices) => {
    const own = slices.filter(({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === INSTALLATION.name);
    const isReached = own.some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready !== false));
    if (isReached) return [ok(object, 'has a ready endpoint')];
    const fix = `kubectl -n ${namespace} get pods,services,endpointslices -l app.kubernetes.io/name=${INSTALLATION.name}`;
    return [problem(object, 'has no ready endpoint', { impact: NO_RESPONSE, fix })];
  });
}

/** The replicas at URLs of webhooks. This machine may not reach addresses that API servers reach. */
function evaluateUrls(facts: Facts): readonly CheckResult[] {
  const isReached = reachability.evaluate(facts).some(({ severity }) => severity === 'ok');
  return [...facts.urlCertificates].map(([url, fact]): CheckResult => {
    if ('value' in fact) return ok(url, 'a replica responds');
    const message = `no replica responds: ${fact.unknown.replace(`${url}: `, '')}`;
    if (isReached) return info(url, `${message}; API servers reach a replica`);
    return problem(url, message, { impact: NO_RESPONSE, fix: '# start the replicas that listen at this address' });
  });
}

function evaluateBudget({ disruptionBudgets, settings }: Facts): readonly CheckResult[] {
  return evaluateFact(disruptionBudgets, BUDGET, (budgets) => {
    if (budgets.length > 0) return [ok(BUDGET, 'limits evictions of replicas')];
    return [
      warning(BUDGET, 'does not exist', {
        impact: 'all replicas may be evicted at once',
        fix: createCommand(buildManifests(settings).find(({ kind }) => kind === BUDGET) ?? {}),
      }),
    ];
  });
}

function evaluateSpread({ pods, nodes, namespace }: Facts): readonly CheckResult[] {
  if (!('value' in pods) || !('value' in nodes)) return [];
  const ready = pods.value.filter((pod) => isReplica(pod) && isReady(pod));
  const used = new Set(ready.map(({ spec }) => spec?.nodeName));
  if (ready.length < 2 || nodes.value.length < 2 || used.size > 1) return [];
  return [
    warning(DEPLOYMENT, `all ready replicas run on node ${[...used].join()}`, {
      impact: 'no replica responds if this node fails',
      fix: `kubectl -n ${namespace} delete pod ${ready[0]?.metadata?.name ?? ''}`,
    }),
  ];
}

function isReplica({ metadata }: Pod): boolean {
  return metadata?.labels?.['app.kubernetes.io/name'] === 'portcullis';
}

function isReady({ status }: Pod): boolean {
  return (status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');
}
