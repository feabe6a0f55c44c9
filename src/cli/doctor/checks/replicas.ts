import { INSTALLATION } from '../../../api/names.ts';
import type { Kinds } from '../../../kube/kinds.ts';
import type { Node, Pod } from '../../../kube/types.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  type Fix,
  info,
  ok,
  problem,
  warning,
} from '../facts.ts';
import { applyManifests, instruction, isReplica, commandFix, SELECTOR } from '../fix.ts';
import { respondingWebhooks } from './reachability.ts';

const DEPLOYMENT = `Deployment ${INSTALLATION.name}`;
const BUDGET = 'PodDisruptionBudget';
const NO_RESPONSE = 'no replica responds to reviews';

/**
 * Checks that enough replicas are ready and reachable, that they run on several nodes, and that a drain does not evict
 * all replicas. Also reports other installations.
 */
export const replicas: DoctorCheck = {
  name: 'replicas',
  evaluate: (facts) => [
    ...evaluateFact(facts.deployment, DEPLOYMENT, (deployment) =>
      deployment
        ? evaluateDeployment(deployment, facts)
        : [info(DEPLOYMENT, 'does not exist. The replicas run outside the cluster')],
    ),
    ...evaluateOthers(facts),
    ...evaluateUrls(facts),
    ...evaluateEndpoints(facts),
    ...evaluateSpread(facts),
  ],
};

function evaluateDeployment({ spec, status }: Kinds['Deployment'], facts: Facts): readonly CheckResult[] {
  const { namespace, settings } = facts;
  const [ready, replicas] = [status?.readyReplicas ?? 0, spec?.replicas ?? 1];
  const message = `${ready} of ${replicas} replicas ready`;
  if (settings.webhooks !== 'service') {
    return [info(DEPLOYMENT, `${message}. API servers call the webhooks at ${settings.webhooks.url}`)];
  }
  const kinds = factValue(facts.pods)?.some(isReplica) === false ? 'deployments,replicasets' : 'pods';
  const describe = commandFix('kubectl', '-n', namespace, 'describe', kinds, '-l', SELECTOR);
  const reduced = 'availability is reduced if another replica stops';
  const readiness =
    ready === 0
      ? problem(DEPLOYMENT, message, { impact: NO_RESPONSE, fix: describe })
      : ready < replicas
        ? warning(DEPLOYMENT, message, { impact: reduced, fix: describe })
        : ok(DEPLOYMENT, message);
  if (replicas > 1) return [readiness, ...evaluateBudget(facts)];
  const scale = commandFix('kubectl', '-n', namespace, 'scale', 'deployment', INSTALLATION.name, '--replicas=3');
  const impact = 'no replica responds while the only replica is replaced';
  return [readiness, warning(DEPLOYMENT, 'has only one replica', { impact, fix: scale })];
}

/** Reports other installations, because each installation replaces the bindings of the shared cluster roles. */
function evaluateOthers({ otherInstallations }: Facts): readonly CheckResult[] {
  return evaluateFact(otherInstallations, 'Deployments in other namespaces', (namespaces) =>
    namespaces.map((namespace) =>
      problem(
        `Deployment ${namespace}/${INSTALLATION.name}`,
        'is a second installation with the same roles and webhooks',
        {
          impact: 'only the installation that was applied last has permissions, and removing it ends enforcement',
          fix: {
            ...commandFix('kubectl', '-n', namespace, 'delete', 'deployment', INSTALLATION.name),
            note: 'then delete the namespace if it contains nothing else',
            after: ['installation'],
          },
        },
      ),
    ),
  );
}

/** Evaluates the Service endpoints through which API servers call the webhooks. */
function evaluateEndpoints({ endpointSlices, settings, namespace }: Facts): readonly CheckResult[] {
  if (settings.webhooks !== 'service') return [];
  const object = `Service ${INSTALLATION.name}`;
  return evaluateFact(endpointSlices, object, (slices) => {
    const own = slices.filter(({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === INSTALLATION.name);
    const isReached = own.some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready !== false));
    if (isReached) return [ok(object, 'has a ready endpoint')];
    const fix = commandFix('kubectl', '-n', namespace, 'get', 'pods,services,endpointslices', '-l', SELECTOR);
    return [problem(object, 'has no ready endpoint', { impact: NO_RESPONSE, fix })];
  });
}

/** Evaluates the replicas behind webhook URLs. API servers may be able to reach addresses that this machine cannot. */
function evaluateUrls(facts: Facts): readonly CheckResult[] {
  const responding = respondingWebhooks(facts);
  return [...facts.urlCertificates].map(([url, fact]): CheckResult => {
    if ('value' in fact) return ok(url, 'a replica responds');
    const message = `no replica responds: ${fact.unknown.replace(`${url}: `, '')}`;
    if (responding.size > 0) return info(url, `${message}. API servers reach a replica`);
    const fix = instruction('start the replicas that listen at this address');
    return problem(url, message, { impact: NO_RESPONSE, fix });
  });
}

function evaluateBudget(facts: Facts): readonly CheckResult[] {
  return evaluateFact(facts.disruptionBudgets, BUDGET, (budgets) => {
    if (budgets.length > 0) return [ok(BUDGET, 'limits evictions of replicas')];
    const impact = 'all replicas may be evicted at once';
    return [warning(BUDGET, 'does not exist', { impact, fix: applyManifests(facts, 'missing') })];
  });
}

function evaluateSpread(facts: Facts): readonly CheckResult[] {
  const { pods, nodes } = facts;
  if (!('value' in pods) || !('value' in nodes)) return [];
  const ready = pods.value.filter((pod) => isReplica(pod) && isReady(pod));
  const used = new Set(ready.map(({ spec }) => spec?.nodeName));
  if (ready.length < 2 || nodes.value.length < 2 || used.size > 1) return [];
  return [
    warning(DEPLOYMENT, `all ready replicas run on node ${[...used].join()}`, {
      impact: 'no replica responds if this node fails',
      fix: spreadFix(facts, ready, used),
    }),
  ];
}

/** Returns the fix that moves a replica to another node. The scheduler must prefer other nodes and find one. */
function spreadFix(facts: Facts, ready: readonly Pod[], used: ReadonlySet<string | undefined>): Fix {
  const { podAntiAffinity } = factValue(facts.deployment)?.spec?.template.spec?.affinity ?? {};
  if (podAntiAffinity === undefined) return applyManifests(facts, 'missing');
  const others = (factValue(facts.nodes) ?? []).filter((node) => !used.has(node.metadata?.name) && isOpen(node));
  if (others.length === 0) return instruction('add a node, or remove the taints of another node');
  const name = ready[0]?.metadata?.name ?? '';
  const note = 'its replacement runs on another node if one has capacity';
  return { ...commandFix('kubectl', '-n', facts.namespace, 'delete', 'pod', name), note };
}

/** Returns true if pods without tolerations can be scheduled on the node. */
function isOpen({ spec }: Node): boolean {
  return spec?.unschedulable !== true && !spec?.taints?.some(({ effect }) => effect !== 'PreferNoSchedule');
}

function isReady({ status }: Pod): boolean {
  return (status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');
}
