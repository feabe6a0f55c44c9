import type { Kinds, Pod } from '../../../kube/types.ts';
import { given, type Check, type Facts, type Remark } from '../facts.ts';
import { reachable } from './reachable.ts';

/** Enough replicas are ready, on several nodes, and not all are taken away at once. */
export const replicas: Check = {
  name: 'replicas',
  judge: (facts) => [
    ...given(facts.deployment, 'Deployment portcullis', (deployment) =>
      deployment ? judgeDeployment(deployment, facts) : [NO_DEPLOYMENT],
    ),
    ...judgeAddresses(facts),
    ...judgeSpread(facts),
  ],
};

const NO_DEPLOYMENT: Remark = {
  severity: 'info',
  where: 'Deployment portcullis',
  what: 'is not there: replicas run elsewhere, if they do',
};

function judgeDeployment({ spec, status }: Kinds['Deployment'], facts: Facts): readonly Remark[] {
  const { namespace } = facts;
  const wanted = spec?.replicas ?? 1;
  const ready = status?.readyReplicas ?? 0;
  const where = 'Deployment portcullis';
  const fix = `kubectl -n ${namespace} describe pods -l app.kubernetes.io/name=portcullis`;
  const what = `${ready} of ${wanted} replicas ready`;
  const { webhooks } = facts.settings;
  if (webhooks !== 'service') return [{ severity: 'info', where, what: `${what}; API servers ask at ${webhooks.url}` }];
  const readiness: Remark =
    ready === 0
      ? { severity: 'problem', where, what, why: 'nobody answers reviews', fix }
      : ready < wanted
        ? { severity: 'warning', where, what, why: 'fewer are left to answer when another one ends', fix }
        : { severity: 'ok', where, what };
  const alone: readonly Remark[] =
    wanted > 1
      ? judgeBudget(facts)
      : [
          {
            severity: 'warning',
            where,
            what: 'has only one replica',
            why: 'nobody answers while it is replaced',
            fix: `kubectl -n ${namespace} scale deployment portcullis --replicas=3`,
          },
        ];
  return [readiness, ...alone];
}

/** Where API servers ask at URLs; this machine may not reach what they reach. */
function judgeAddresses(facts: Facts): readonly Remark[] {
  const answered = reachable.judge(facts).some(({ severity }) => severity === 'ok');
  return [...facts.atUrls].flatMap(([where, fact]): readonly Remark[] => {
    if ('value' in fact) return [{ severity: 'ok', where, what: 'a replica answers there' }];
    const what = `no replica answers there: ${fact.unknown.replace(`${where}: `, '')}`;
    if (answered) return [{ severity: 'info', where, what: `${what}; but API servers reach one` }];
    return [
      { severity: 'problem', where, what, why: 'nobody answers reviews', fix: 'start the replicas that listen there' },
    ];
  });
}

function judgeBudget({ disruptionBudgets, namespace }: Facts): readonly Remark[] {
  return given(disruptionBudgets, 'PodDisruptionBudget', (budgets) => {
    const where = 'PodDisruptionBudget';
    if (budgets.length > 0) return [{ severity: 'ok', where, what: 'keeps nodes from being emptied all at once' }];
    return [
      {
        severity: 'warning',
        where,
        what: 'is not there',
        why: 'all replicas may be evicted at once',
        fix: `kubectl -n ${namespace} create poddisruptionbudget portcullis --selector=app.kubernetes.io/name=portcullis --max-unavailable=1`,
      },
    ];
  });
}

function judgeSpread(facts: Facts): readonly Remark[] {
  if (!('value' in facts.pods) || !('value' in facts.nodes)) return [];
  const ready = facts.pods.value.filter((pod) => isReplica(pod) && isReady(pod));
  const nodes = new Set(ready.map(({ spec }) => spec?.nodeName));
  if (ready.length < 2 || facts.nodes.value.length < 2 || nodes.size > 1) return [];
  return [
    {
      severity: 'warning',
      where: 'Deployment portcullis',
      what: `all ready replicas run on node ${[...nodes].join()}`,
      why: 'nobody answers when that node goes',
      fix: `kubectl -n ${facts.namespace} rollout restart deployment portcullis`,
    },
  ];
}

function isReplica({ metadata }: Pod): boolean {
  return metadata?.labels?.['app.kubernetes.io/name'] === 'portcullis';
}

function isReady({ status }: Pod): boolean {
  return (status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');
}
