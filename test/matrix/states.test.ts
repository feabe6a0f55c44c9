/**
 * Verifies the tables in docs/explanation/states.md. They list which pods can be created for each combination of
 * namespace, settings and state of the replicas, and which other requests succeed while no replica responds. Each
 * request except `exec` is a dry run from a user who may create pods.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { defaultSettings, PROFILES } from '../../src/install/index.ts';
import type { JsonObject, Pod } from '../../src/kube/types.ts';
import type { Attack } from '../resilience/attacker.ts';
import { responseItems, responseMessage, responseObject } from '../support/answers.ts';
import {
  ASSETS,
  type ControlPlane,
  createSystem,
  startControlPlane,
  startReplica,
  type System,
  withoutPolicies,
} from '../support/control-plane/index.ts';
import { apply, create, localObjects, remove } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { compliantPod } from '../support/pod-security.ts';

/** The features of the default installation. */
const DEFAULT = { features: defaultSettings('1.0.0').features };

// The table

const RESULTS = ['reviewed', 'reviewed or rejected', 'upstream level only', 'not reviewed', 'rejected'] as const;
type Result = (typeof RESULTS)[number];
const FLOORS = ['without floor', 'floor, `Fail`', 'floor, `Ignore`'] as const;
type Floor = (typeof FLOORS)[number];

/** The table columns that select rows. */
interface Situation {
  readonly replicas: 'respond' | 'overloaded' | 'do not respond';
  readonly namespace: 'excluded' | 'fail-open' | 'fail-closed';
  readonly 'default level': 'none' | 'set';
  readonly level: 'none' | 'set' | 'own';
  readonly SCCs: 'off' | 'report' | 'enforce';
}

type Row = Readonly<Record<string, string>>;

/** Reads all tables of the page. */
function readTables(): readonly (readonly Row[])[] {
  const page = readFileSync(new URL('../../docs/explanation/states.md', import.meta.url), 'utf8');
  return page.split(/\n\n+/).flatMap((block) => {
    if (!block.startsWith('|')) return [];
    const [columns = [], , ...rows] = block.split('\n').map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
    return [rows.map((cells) => Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ''])))];
  });
}

const [PODS_TABLE = [], OTHERS_TABLE = []] = readTables();

/** Returns the rows whose columns contain the values. */
function findRows(table: readonly Row[], values: Readonly<Record<string, string>>): readonly Row[] {
  return table.filter((row) =>
    Object.entries(values).every(
      ([column, value]) => row[column] === 'any' || row[column]?.split(', ').includes(value),
    ),
  );
}

function findResult(situation: Situation, floor: Floor): Result {
  const results = findRows(PODS_TABLE, { ...situation }).map((row) => row[floor]);
  const result = RESULTS.find((one) => one === results[0]);
  assert.ok(result !== undefined && results.length === 1, `${JSON.stringify(situation)} has rows: ${results.join()}`);
  return result;
}

// The settings

const SOURCES = ['exceptions', 'labels', 'defaults', 'rollout'] as const;
type Source = (typeof SOURCES)[number];

interface Configuration {
  readonly source: Source;
  readonly floor: Floor;
  /** Whether the `scc` feature is installed. Without it, SCCs are off in all namespaces. */
  readonly hasSccs: boolean;
}

/**
 * Each floor with and without a default level, and with and without SCCs. The SCC feature is added after the first
 * configurations and removed before the last configurations. Turning exceptions off again must leave the same state as
 * before, so `labels` follows `exceptions`.
 */
const ALL_CONFIGURATIONS: readonly Configuration[] = [
  ...configurations(false, ['labels', 'without floor'], ['rollout', 'floor, `Fail`'], ['labels', 'floor, `Ignore`']),
  ...configurations(true, ['rollout', 'without floor'], ['exceptions', 'without floor'], ['labels', 'floor, `Fail`']),
  ...configurations(
    true,
    ['defaults', 'floor, `Fail`'],
    ['rollout', 'floor, `Ignore`'],
    ['exceptions', 'floor, `Ignore`'],
  ),
  ...configurations(false, ['labels', 'floor, `Fail`'], ['defaults', 'floor, `Ignore`'], ['defaults', 'without floor']),
];

function configurations(hasSccs: boolean, ...levels: readonly (readonly [Source, Floor])[]): readonly Configuration[] {
  return levels.map(([source, floor]) => ({ source, floor, hasSccs }));
}

/**
 * All configurations take about 30 minutes. The development cluster shares this process, so only some configurations
 * are tested with it.
 */
const CONFIGURATIONS = ALL_CONFIGURATIONS.filter(({ source, floor }) =>
  floor === 'without floor' ? ASSETS !== undefined || source !== 'rollout' : withoutPolicies === false,
);

function settings({ source, floor, hasSccs }: Configuration): JsonObject {
  return {
    ...(source === 'defaults' ? { podSecurity: { defaults: { enforce: 'restricted' } } } : {}),
    ...(source === 'exceptions' ? { podSecurity: { exceptions: { mode: 'approved' } } } : {}),
    ...(source === 'rollout' ? { rollout: { phase: 'Enforce', raiseSettleTime: '1s' } } : {}),
    ...(floor === 'without floor' ? {} : { floor: { mode: 'enforce' } }),
    ...(hasSccs ? { scc: { mode: 'report' } } : {}),
    webhooks: { failurePolicy: floor === 'floor, `Ignore`' ? 'Ignore' : 'Fail', timeoutSeconds: 5 },
  };
}

// The namespaces

const ENFORCE = 'pod-security.kubernetes.io/enforce';

/** The labels of each level, as the guides recommend them. */
const LEVEL_LABELS = {
  unlabeled: {},
  restricted: { [ENFORCE]: 'restricted' },
  own: { 'portcullis.dev/enforce': 'restricted', [ENFORCE]: 'privileged' },
} as const;
type LevelLabel = keyof typeof LEVEL_LABELS;
const LEVELS = Object.keys(LEVEL_LABELS) as readonly LevelLabel[];

interface Space {
  readonly name: string;
  readonly tier: Situation['namespace'];
  readonly scc: Situation['SCCs'];
  readonly label: LevelLabel;
}

const EXCLUDED: Space = { name: 'portcullis', tier: 'excluded', scc: 'off', label: 'restricted' };
const SPACES: readonly Space[] = (['fail-open', 'fail-closed'] as const).flatMap((tier) =>
  (['off', 'report', 'enforce'] as const).flatMap((scc) =>
    LEVELS.map((label) => ({ name: `${tier}-scc-${scc}-${label}`, tier, scc, label })),
  ),
);

function namespaceOf({ name, tier, scc, label }: Space): JsonObject {
  const labels = {
    'portcullis.dev/scc': scc,
    ...(tier === 'fail-open' ? { 'portcullis.dev/admission': 'fail-open' } : {}),
    ...LEVEL_LABELS[label],
  };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

// The requests

interface Attempt {
  readonly name: string;
  /** True if a policy of the namespace denies the request. */
  readonly denied: 'if forbidden' | 'never';
  readonly method: 'POST' | 'PATCH';
  readonly path: string;
  readonly body: JsonObject;
  /** Number of copies to send at the same time, after all other requests. */
  readonly parallel?: number;
}

const FORBIDDEN = { hostNetwork: true };
const PRIVILEGED = { securityContext: { privileged: true } };
const RESTRICTED = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

/** Returns a pod whose review has the given size. The annotation is not ASCII. */
function padded(pod: Pod, megabytes: number): JsonObject {
  const [container, ...others] = pod.spec?.containers ?? [];
  const env = Array<JsonObject>(Math.round((megabytes * 1_000_000) / '{"name":"a"},'.length)).fill({ name: 'a' });
  const metadata = { ...pod.metadata, annotations: { x: 'é' } };
  return { ...pod, metadata, spec: { ...pod.spec, containers: [{ ...container, env }, ...others] } };
}

/** Returns a pod with 1.4 MB whose review has 8.4 MB, because API servers escape each `<`. */
function escaped(pod: Pod): JsonObject {
  const [container, ...others] = pod.spec?.containers ?? [];
  return { ...pod, spec: { ...pod.spec, containers: [{ ...container, command: ['<'.repeat(1_400_000)] }, ...others] } };
}

function unnamed(pod: Pod): JsonObject {
  return { ...pod, metadata: { name: 'p' } };
}

const SIZES = ASSETS === undefined ? [0.2] : [0.2, 1, 2.9];
const COMPLIANT = unnamed(compliantPod());
const VIOLATING = unnamed(compliantPod(FORBIDDEN, PRIVILEGED));
const IMAGE = { spec: { containers: [{ name: 'c', image: 'i:2' }] } };
const STORED = 'stored';

function ephemeral(securityContext: JsonObject): JsonObject {
  return { spec: { ephemeralContainers: [{ name: 'debug', image: 'i:1', securityContext }] } };
}

/**
 * Returns the requests for pods in a namespace. Large pods are sent only to namespaces with a label, because an API
 * server needs up to a second for each large pod.
 */
function attempts({ name: namespace, label }: Space): readonly Attempt[] {
  const sizes = label === 'restricted' ? SIZES : [];
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  const post = (name: string, denied: Attempt['denied'], body: JsonObject): Attempt => ({
    ...{ name, denied, body },
    ...{ method: 'POST', path: pods },
  });
  const patch = (name: string, denied: Attempt['denied'], body: JsonObject, subresource = ''): Attempt => ({
    ...{ name, denied, body },
    ...{ method: 'PATCH', path: `${pods}/${STORED}${subresource}` },
  });
  const template = { metadata: { labels: { app: 'a' } }, spec: (VIOLATING as Pod).spec };
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'd' },
    spec: { selector: { matchLabels: { app: 'a' } }, template },
  };
  return [
    post('compliant pod', 'never', COMPLIANT),
    post('forbidden pod', 'if forbidden', VIOLATING),
    ...sizes.slice(0, 1).map((size) => post(`compliant pod of ${size} MB`, 'never', padded(COMPLIANT, size))),
    ...sizes.map((size) => post(`forbidden pod of ${size} MB`, 'if forbidden', padded(VIOLATING as Pod, size))),
    ...(label === 'restricted' && ASSETS !== undefined
      ? [{ ...post('forbidden pod of escaped characters', 'if forbidden', escaped(VIOLATING)), parallel: 3 }]
      : []),
    patch('update of an image', 'never', IMAGE),
    patch('compliant ephemeral container', 'never', ephemeral(RESTRICTED), '/ephemeralcontainers'),
    patch(
      'forbidden ephemeral container',
      'if forbidden',
      ephemeral(PRIVILEGED.securityContext),
      '/ephemeralcontainers',
    ),
    {
      ...{ name: 'workload', denied: 'never', method: 'POST', body: deployment },
      path: `/apis/apps/v1/namespaces/${namespace}/deployments`,
    },
  ];
}

// The states of the replicas

/** Brings the replicas into a state. Returns the function that ends the state. */
type Enter = (system: System) => Promise<() => Promise<void>>;

interface State {
  readonly name: string;
  readonly replicas: Situation['replicas'];
  /** True if the state takes too long with the development cluster, which shares this process. */
  readonly isLong?: boolean;
  readonly enter: Enter;
}

const ATTACKER = fileURLToPath(new URL('../resilience/attacker.ts', import.meta.url));

/** Attacks all replicas until the returned function is called. */
async function attack({ replicas }: System, options: Omit<Attack, 'port' | 'protocol'>): Promise<() => Promise<void>> {
  const workers = replicas.map(({ port }) => {
    const workerData: Attack = { ...options, port, protocol: 'tls', isRepeated: true };
    return new Worker(ATTACKER, { workerData });
  });
  await pause(2_000);
  return async () => {
    await Promise.all(workers.map((worker) => worker.terminate()));
  };
}

/** Returns a 5 MB review with its HTTP header. */
function largeReview(): string {
  const namespace = 'fail-closed-scc-off-restricted';
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const resource = { group: '', version: 'v1', resource: 'pods' };
  const request = { uid: '1', kind, resource, namespace, operation: 'CREATE', object: padded(COMPLIANT, 5) };
  const body = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
  const length = Buffer.byteLength(body);
  return `POST /validate/pods?timeout=5s HTTP/1.1\r\nHost: replica\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;
}

const nothing = (): Promise<void> => Promise.resolve();

async function stopAll(system: System): Promise<void> {
  await Promise.all(system.replicas.map((replica) => replica.stop('SIGKILL')));
  await system.retire();
}

/** The states in order. Each state continues from the previous one. */
const ALL_STATES: readonly State[] = [
  { name: 'two replicas', replicas: 'respond', enter: () => Promise.resolve(nothing) },
  {
    name: 'connections exhausted',
    isLong: true,
    replicas: 'respond',
    enter: (system) => attack(system, { connections: 1_000, sent: 'P' }),
  },
  {
    name: 'large reviews from another client',
    isLong: true,
    replicas: 'overloaded',
    enter: (system) => attack(system, { connections: 4, sent: largeReview() }),
  },
  {
    name: 'the leader killed',
    replicas: 'respond',
    async enter(system) {
      const leader = await findLeader(system);
      await leader.stop('SIGKILL');
      await system.retire(leader);
      return nothing;
    },
  },
  { name: 'one replica', replicas: 'respond', enter: () => Promise.resolve(nothing) },
  {
    name: 'frozen replicas',
    isLong: true,
    replicas: 'do not respond',
    enter({ replicas }) {
      for (const { pid } of replicas) process.kill(pid, 'SIGSTOP');
      return Promise.resolve(async () => {
        for (const { pid } of replicas) process.kill(pid, 'SIGCONT');
        await pause(500);
      });
    },
  },
  {
    name: 'no replica',
    replicas: 'do not respond',
    async enter(system) {
      await stopAll(system);
      return nothing;
    },
  },
  {
    name: 'a replica that has not read the cluster',
    replicas: 'do not respond',
    async enter(system) {
      const kubeconfig = await system.plane.kubeconfigFor('stranger', []);
      const replica = await startReplica(system.plane, { kubeconfig });
      system.route([{ port: replica.port, probes: replica.probes, isAlwaysReady: true }]);
      return async () => {
        system.route([]);
        await replica.stop('SIGKILL');
      };
    },
  },
];

const STATES = ALL_STATES.filter(({ isLong = false }) => ASSETS !== undefined || !isLong);

async function findLeader(system: System): Promise<System['replicas'][number]> {
  return await eventually(async () => {
    const lease = '/apis/coordination.k8s.io/v1/namespaces/portcullis/leases/portcullis';
    const { spec } = responseObject(await system.plane.admin.send('GET', lease)) as { readonly spec: JsonObject };
    const leader = system.replicas.find((replica) =>
      replica.log().some(({ msg, identity }) => msg === 'leadership begins' && identity === spec['holderIdentity']),
    );
    assert.ok(leader, 'no replica leads');
    return leader;
  });
}

// The test

const ALICE = { 'impersonate-user': 'alice' };
const PATCH = { 'content-type': 'application/strategic-merge-patch+json' };
const CONFIGURATION = '/apis/admissionregistration.k8s.io/v1';
/** Reviews above this size share one worker in a replica. */
const LARGE = 128 * 1024;
/** Number of concurrent requests. */
const PARALLEL = { respond: 8, overloaded: 8, 'do not respond': 32 };

suite('every combination of settings, namespace and state has the expected decisions:', () => {
  let plane: ControlPlane;
  let system: System;
  let requests = 0;

  /** Sends a request as a dry run. Returns the denial, or an empty string. */
  const send = async ({ method, path, body }: Attempt): Promise<string> => {
    requests++;
    const answer = await plane.admin.send(
      method,
      `${path}?dryRun=All`,
      body,
      method === 'PATCH' ? { ...ALICE, ...PATCH } : ALICE,
    );
    if (answer.status < 300) return '';
    const message = String(responseMessage(answer));
    assert.ok(isDenial(answer.status, message), `${method} ${path}: ${answer.status} ${message}`);
    return `${answer.status} ${message.slice(0, 300)}`;
  };
  const findWebhook = async (name: string): Promise<JsonObject | undefined> => {
    const items = responseItems(await plane.admin.send('GET', `${CONFIGURATION}/validatingwebhookconfigurations`));
    const webhooks = items.flatMap((item) => item['webhooks'] as readonly JsonObject[]);
    return webhooks.find((one) => one['name'] === name);
  };
  const isOpen = async (name: string): Promise<boolean> => (await findWebhook(name))?.['failurePolicy'] === 'Ignore';
  /** Waits until the settings are in force in all API servers. */
  const configure = async (configuration: Configuration): Promise<void> => {
    const { source, floor, hasSccs } = configuration;
    await system.configure(settings(configuration));
    await eventually(async () => {
      const opens = DEFAULT_LEVELS[source] === 'none' || floor === 'floor, `Ignore`';
      assert.equal(await isOpen('unlabeled.validate.pods.portcullis.dev'), opens && hasSccs);
      assert.equal(await isOpen('own-label.validate.pods.portcullis.dev'), false);
      if (hasSccs && floor === 'floor, `Ignore`') {
        const { namespaceSelector = {} } = (await findWebhook('floor.validate.pods.portcullis.dev')) ?? {};
        const operator = DEFAULT_LEVELS[source] === 'set' ? 'NotIn' : 'In';
        assert.ok(JSON.stringify(namespaceSelector).includes(`"key":"${ENFORCE}","operator":"${operator}"`));
      }
      assert.equal(await isOpen('validate.pods.portcullis.dev'), opens && !hasSccs);
      const { text } = await plane.admin.send('GET', `${CONFIGURATION}/validatingadmissionpolicies`);
      assert.equal(text.includes('floor.enforce-restricted.psa'), floor !== 'without floor');
      for (const space of SPACES) {
        const expected = getLevel(space, source) !== 'none' || getMode(space, configuration) === 'enforce';
        const [, forbidden] = attempts(space);
        assert.ok(forbidden);
        assert.equal((await send(forbidden)) !== '', expected, space.name);
      }
    }, 90_000);
    // API servers observe the policies and configurations at different times.
    await pause(1_000);
  };

  let hasSccs = false;
  let hasHadSccs = false;
  /**
   * Applies the manifests with or without SCCs, starts replicas with these features, and stores a pod in each
   * namespace.
   */
  const install = async (withSccs: boolean): Promise<void> => {
    await apply(plane.admin, localObjects(system.port, withSccs ? PROFILES.scc : DEFAULT));
    hasSccs = withSccs;
    hasHadSccs ||= withSccs;
    await startReplicas();
    await eventually(async () => {
      const pods = '/api/v1/namespaces/fail-closed-scc-enforce-restricted/pods?dryRun=All';
      const { text } = await plane.admin.send('POST', pods, COMPLIANT);
      assert.equal(text.includes('"openshift.io/scc":"'), withSccs, text);
    }, 60_000);
    for (const { name } of [EXCLUDED, ...SPACES]) {
      const stored = { ...COMPLIANT, metadata: { name: STORED, namespace: name } };
      await remove(plane.admin, stored);
      await eventually(async () => {
        const answer = await create(plane.admin, stored);
        assert.equal(answer.status, 201, answer.text);
      }, 30_000);
    }
  };
  const startReplicas = async (): Promise<void> => {
    const missing = 2 - system.replicas.length;
    if (missing > 0) await system.add(missing, { args: hasSccs ? ['--features=scc'] : [] });
  };

  before(async () => {
    plane = await startControlPlane();
    system = await createSystem(plane, { objectsFor: (port) => localObjects(port, DEFAULT) });
    for (const [kind, more] of [
      [
        'ClusterRole',
        {
          rules: [
            { apiGroups: [''], resources: ['pods', 'pods/ephemeralcontainers'], verbs: ['create', 'patch'] },
            { apiGroups: [''], resources: ['pods/exec', 'pods/attach'], verbs: ['create', 'get'] },
            { apiGroups: ['apps'], resources: ['deployments'], verbs: ['create'] },
            { apiGroups: [''], resources: ['namespaces'], verbs: ['create', 'patch', 'get'] },
            {
              apiGroups: ['security.openshift.io'],
              resources: ['securitycontextconstraints'],
              verbs: ['patch', 'get'],
            },
          ],
        },
      ],
      [
        'ClusterRoleBinding',
        {
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'author' },
          subjects: ['alice', 'bob'].map((name) => ({ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name })),
        },
      ],
    ] as const) {
      const object = { apiVersion: 'rbac.authorization.k8s.io/v1', kind, metadata: { name: 'author' }, ...more };
      assert.equal((await create(plane.admin, object)).status, 201);
    }
    for (const space of SPACES) assert.equal((await create(plane.admin, namespaceOf(space))).status, 201);
    // Bob may use the SCC in the namespaces.
    for (const { name: namespace } of SPACES) {
      const binding = {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'privileged', namespace },
        roleRef: {
          apiGroup: 'rbac.authorization.k8s.io',
          kind: 'ClusterRole',
          name: 'system:openshift:scc:privileged',
        },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'bob' }],
      };
      assert.equal((await create(plane.admin, binding)).status, 201);
    }
    await install(false);
  });
  after(async () => {
    await system.stop().finally(() => plane.stop());
  });

  for (const configuration of CONFIGURATIONS) {
    const { source, floor } = configuration;
    test(`levels by ${source}, ${floor}, ${configuration.hasSccs ? 'with' : 'without'} SCCs`, async (t) => {
      if (configuration.hasSccs === hasSccs) await startReplicas();
      else await install(configuration.hasSccs);
      await configure(configuration);
      const wrong: string[] = [];
      for (const state of STATES) {
        const startMs = performance.now();
        const leave = await state.enter(system);
        try {
          wrong.push(...(await execute(configuration, state)));
          if (state.replicas === 'do not respond') wrong.push(...(await executeOthers(configuration, state)));
        } finally {
          await leave();
        }
        t.diagnostic(`${state.name}: ${Math.round(performance.now() - startMs)} ms`);
      }
      t.diagnostic(`${plane.title}: ${requests} requests`);
      assert.deepEqual(wrong, []);
    });
  }

  /** Sends all requests that are not for pods. Returns the unexpected decisions. */
  const executeOthers = async (configuration: Configuration, { name }: State): Promise<readonly string[]> => {
    const wrong: string[] = [];
    for (const space of [EXCLUDED, ...SPACES].filter(({ label }) => label === 'restricted')) {
      for (const user of ['alice', 'bob']) {
        for (const { request, method, path, body } of otherAttempts(space)) {
          const isCluster = request === 'create or change an SCC';
          if (isCluster && !hasHadSccs) continue;
          const mode = getMode({ scc: isCluster ? 'report' : space.scc }, configuration);
          const values = { request, namespace: space.tier, SCCs: mode };
          const access = { 'user may use the `privileged` SCC': user === 'bob' ? 'yes' : 'no' };
          const [row, ...others] = findRows(OTHERS_TABLE, { ...values, ...access });
          assert.ok(row && others.length === 0, JSON.stringify(values));
          requests++;
          const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
          const headers = { 'impersonate-user': user, ...(body ? { 'content-type': type } : {}) };
          const answer = await plane.admin.send(method, path, body, headers);
          const message = String(responseMessage(answer));
          const isDenied = answer.status >= 300 && !ADMITTED_STREAM.test(message);
          const isFailure = answer.status === 500 && message.includes('failed calling webhook');
          if (isDenied === (row['result'] === 'rejected') && isDenied === isFailure) continue;
          wrong.push(
            `${name}: ${user}: ${method} ${path} (${row['result']}): ${answer.status} ${message.slice(0, 300)}`,
          );
        }
      }
    }
    return wrong;
  };
  /** Sends all requests in a state. Returns the unexpected decisions. */
  const execute = async (configuration: Configuration, state: State): Promise<readonly string[]> => {
    const { source, floor } = configuration;
    const cases = [EXCLUDED, ...SPACES].flatMap((space) => {
      const situation: Situation = {
        replicas: state.replicas,
        namespace: space.tier,
        'default level': DEFAULT_LEVELS[source],
        level: getLevel(space, source),
        SCCs: getMode(space, configuration),
      };
      const result = findResult(situation, floor);
      return attempts(space).map((attempt) => ({ attempt, space, situation, result }));
    });
    const wrong: string[] = [];
    const verify = async ({ attempt, space, situation, result }: (typeof cases)[number]): Promise<void> => {
      const denial = await send(attempt);
      const isDenied = denial !== '';
      if (expectedDenials(attempt, situation, result).includes(isDenied)) return;
      wrong.push(`${state.name}: ${attempt.name} in ${space.name} (${result}): ${denial || 'created'}`);
    };
    const queue = cases.filter(({ attempt }) => attempt.parallel === undefined).values();
    const work = async (): Promise<void> => {
      for (const one of queue) await verify(one);
    };
    await Promise.all(Array.from({ length: PARALLEL[state.replicas] }, work));
    await Promise.all(
      cases.flatMap((one) => Array.from({ length: one.attempt.parallel ?? 0 }, async () => await verify(one))),
    );
    return wrong;
  };
});

/** A request that is not for a pod. */
interface OtherAttempt {
  readonly request: string;
  readonly method: 'POST' | 'PATCH';
  readonly path: string;
  readonly body?: JsonObject;
}

function otherAttempts({ name }: Space): readonly OtherAttempt[] {
  const pod = `/api/v1/namespaces/${name}/pods/${STORED}`;
  const labels = { team: 'a' };
  const scc = '/apis/security.openshift.io/v1/securitycontextconstraints/restricted-v2?dryRun=All';
  return [
    { request: '`exec` and `attach`', method: 'POST', path: `${pod}/exec?container=c&command=sh` },
    { request: '`exec` and `attach`', method: 'POST', path: `${pod}/attach?container=c&stdout=true` },
    {
      request: 'create or change a namespace',
      method: 'PATCH',
      path: `/api/v1/namespaces/${name}?dryRun=All`,
      body: { metadata: { labels } },
    },
    {
      request: 'create or change a namespace',
      method: 'POST',
      path: '/api/v1/namespaces?dryRun=All',
      body: { ...namespaceOf({ ...EXCLUDED, name: 'new' }), metadata: { name: 'new', labels } },
    },
    { request: 'create or change an SCC', method: 'PATCH', path: scc, body: { metadata: { labels } } },
  ];
}

/** Pods in a control plane without nodes have no host, so an admitted stream fails with this error. */
const ADMITTED_STREAM = /does not have a host assigned/;

/**
 * Returns true if admission denied the request, even because of a limit, or if it timed out. Returns false for a test
 * error.
 */
function isDenial(status: number, message: string): boolean {
  return (
    status === 403 || status === 429 || status === 504 || (status === 500 && message.includes('failed calling webhook'))
  );
}

const DEFAULT_LEVELS: Readonly<Record<Source, Situation['default level']>> = {
  labels: 'none',
  exceptions: 'none',
  defaults: 'set',
  rollout: 'set',
};

function getLevel({ label }: Space, source: Source): Situation['level'] {
  if (label === 'own') return 'own';
  return label === 'restricted' ? 'set' : DEFAULT_LEVELS[source];
}

function getMode({ scc }: Pick<Space, 'scc'>, { hasSccs }: Configuration): Situation['SCCs'] {
  return hasSccs ? scc : 'off';
}

/** Returns the expected outcomes. Each outcome is true if the request is denied, and false if it succeeds. */
function expectedDenials(
  { name, denied, body }: Attempt,
  { level, SCCs }: Situation,
  result: Result,
): readonly boolean[] {
  if (name === 'workload' || result === 'not reviewed') return [false];
  if (result === 'rejected') return [true];
  const isReviewed = result !== 'upstream level only';
  const violates = level === 'set' || (isReviewed && (level === 'own' || SCCs === 'enforce'));
  const isForbidden = denied === 'if forbidden' && violates;
  const isLarge = result === 'reviewed or rejected' && JSON.stringify(body).length > LARGE;
  return isForbidden ? [true] : isLarge ? [true, false] : [false];
}
