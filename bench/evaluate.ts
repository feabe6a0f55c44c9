/**
 * Measures the in-process time of a Pod Security evaluation, and of a decision on a request from a node. Can be run
 * directly with `node bench/evaluate.ts`.
 */
import { AUTHORS_ANNOTATION } from '../src/api/names.ts';
import { createStore } from '../src/cluster/store.ts';
import { createDefaultSettings } from '../src/config/portcullis-configuration.ts';
import type { Draft, Node, Pod, PodLike } from '../src/kube/types.ts';
import { type AccessRequest, authorizeKubelet } from '../src/policy/kubelet/index.ts';
import { decodePod, type PodFields } from '../src/policy/pod/index.ts';
import { evaluateExcepted, evaluatePod, type ExceptedEvaluation } from '../src/policy/pss/index.ts';
import { activeExceptions, hashSpec } from '../src/views/exceptions.ts';
import { createMinimumReader, findNodeState } from '../src/views/kubelet.ts';
import { readLines } from '../test/support/conformance/cases.ts';
import { restrictedPodReviews } from './reviews.ts';
import { formatTable, type Row } from './row.ts';

const POLICY = { level: 'restricted', version: 'latest' } as const;
const ROUNDS = 600;
const EVALUATIONS_PER_ROUND = 3_000;

/** Measures evaluations of allowed, denied and random pods at restricted:latest. */
export function benchEvaluate(): Row[] {
  const passing = deploymentPods();
  const calibrationMicros = measureCalibration();
  const rows = [
    ...measure('passing', passing, evaluate, 1),
    ...measure('failing', passing.map(withoutSecurity), evaluate),
    ...measure('random', randomPods(), evaluate, 2),
    ...measureExceptions(),
    ...measureAuthorizer(),
  ];
  const relative = rows.flatMap(({ name, value, unit }): Row[] =>
    unit === 'µs' ? [{ name: `${name} / calibration`, value: (value / calibrationMicros) * 100, unit: '%' }] : [],
  );
  return [{ name: 'calibration', value: calibrationMicros, unit: 'µs' }, ...rows, ...relative];
}

/** Runs a fixed loop without project code. Times relative to this loop are comparable between machines. */
function measureCalibration(): number {
  let fastestMs = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    const counts = new Map<string, number>();
    for (let index = 0; index < EVALUATIONS_PER_ROUND; index++) {
      const key = `key-${index % 100}`;
      counts.set(key, (counts.get(key) ?? 0) + key.length);
    }
    fastestMs = Math.min(fastestMs, performance.now() - start);
  }
  return (fastestMs * 1000) / EVALUATIONS_PER_ROUND;
}

const evaluate = (pod: PodLike): unknown => evaluatePod(pod, POLICY);

/**
 * Measures the additional cost of exceptions for a review of a pod that violates its level, in a namespace with 100
 * exceptions.
 */
function measureExceptions(): Row[] {
  const store = createStore();
  const hour = 3_600_000;
  const [approved, end] = [Date.now(), Date.now() + hour].map((time) => new Date(time).toISOString());
  for (let index = 0; index < EXCEPTIONS; index++) {
    const allow = [{ check: 'capabilities_baseline', container: 'app', image: IMAGE, values: [`CAPABILITY_${index}`] }];
    const spec = { serviceAccountName: 'default', allow, expiresAt: end ?? '', reason: 'benchmark' };
    const metadata = { name: `e-${index}`, namespace: 'shop', annotations: { [AUTHORS_ANNOTATION]: '["alice"]' } };
    const approval = { by: 'bob', at: approved ?? '', specHash: hashSpec(spec) };
    store.put('PodSecurityException', { metadata, spec, status: { approval } });
  }
  const { exceptions } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
  const settings = { ...exceptions, mode: 'approved' } as const;
  const pods = Array.from({ length: EXCEPTIONS }, (_, index) => {
    const securityContext = {
      ...{ runAsNonRoot: true, allowPrivilegeEscalation: false, seccompProfile: { type: 'RuntimeDefault' } },
      capabilities: { drop: ['ALL'], add: [`CAPABILITY_${index}`] },
    };
    const { pod } = decodePod({ spec: { containers: [{ name: 'app', image: `${IMAGE}:1`, securityContext }] } });
    if (!pod) throw new Error('the pod cannot be decoded');
    return pod;
  });
  const decide = (pod: PodFields): ExceptedEvaluation =>
    evaluateExcepted(pod, POLICY, activeExceptions(store, settings, 'shop', Date.now()));
  if (!pods.every((pod) => decide(pod).evaluation.allowed)) throw new Error('the exceptions do not apply');
  return measure('100 exceptions', pods, decide, 10);
}

const EXCEPTIONS = 100;
const IMAGE = 'registry.example.com/team/app';

const NODES = 1000;

/** Measures decisions on requests from a node with a new kubelet and from a node with an old kubelet. */
function measureAuthorizer(): Row[] {
  const store = createStore();
  for (let index = 0; index < NODES; index++) {
    const nodeInfo = { kubeletVersion: index % 2 === 0 ? 'v1.33.4-eks-1a2b3c4' : 'v1.29.8' };
    store.put('Node', { metadata: { name: `node-${index}` }, status: { nodeInfo } } as Node);
  }
  const { kubelet } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
  const scope = {
    store,
    settings: () => ({ ...kubelet, isOn: true, minimumVersion: '1.33.0' }),
    hasSettingsObject: false,
  };
  const getMinimum = createMinimumReader(scope);
  const decide = (request: AccessRequest): unknown =>
    authorizeKubelet(request, {
      minimum: getMinimum(),
      mode: 'recoverable',
      findNode: (name) => findNodeState(scope, name),
    });
  const resource = { verb: 'get', group: '', resource: 'secrets', subresource: '', name: 'x' };
  const requests = Array.from({ length: NODES }, (_, index) => ({
    username: `system:node:node-${index}`,
    groups: ['system:nodes', 'system:authenticated'],
    resource,
  }));
  return measure('authorizer', requests, decide, 5);
}

/** Returns the fastest round, because other load on the machine only makes rounds slower. */
function measure<T>(name: string, given: readonly T[], decide: (one: T) => unknown, atMostMicros?: number): Row[] {
  const repetitions = Math.ceil(EVALUATIONS_PER_ROUND / given.length);
  let micros = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    for (let repetition = 0; repetition < repetitions; repetition++) {
      for (const one of given) decide(one);
    }
    micros = Math.min(micros, ((performance.now() - start) * 1000) / (repetitions * given.length));
  }
  return [
    {
      name: `${name}, each`,
      value: micros,
      unit: 'µs',
      ...(atMostMicros === undefined ? {} : { target: { atMost: atMostMicros } }),
    },
    { name: `${name}, per second`, value: 1e6 / micros, unit: 'evaluations/s' },
  ];
}

/** Returns Deployment pods as an API server sends them. Half of them have one container, and half have two. */
function deploymentPods(): readonly Pod[] {
  return restrictedPodReviews('shop')
    .slice(0, 100)
    .map((review, index) => {
      const pod = (JSON.parse(review) as { request: { object: Draft<Pod> } }).request.object;
      const [container] = pod.spec?.containers ?? [];
      if (container && index % 2 === 1) pod.spec?.containers.push({ ...structuredClone(container), name: 'proxy' });
      return pod;
    });
}

function withoutSecurity(pod: Pod): PodLike {
  const text = JSON.stringify(pod, (key, value: unknown) => (key === 'securityContext' ? undefined : value));
  return JSON.parse(text) as PodLike;
}

function randomPods(): readonly PodLike[] {
  return readLines<{ readonly pod: PodLike }>('random/pss-random.ndjson').map(({ pod }) => pod);
}

if (import.meta.main) process.stdout.write(`${formatTable(benchEvaluate())}\n`);
