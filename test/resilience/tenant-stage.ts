/**
 * Setup for attacks by tenants and strangers. It consists of two replicas of the bundle with the limits of the image,
 * namespaces of every tier, a steady load of reviews, and a tenant who continuously tries to create forbidden pods.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { OLM_DEFINITIONS } from '../../src/dev-cluster/index.ts';
import { ALL_FEATURES } from '../../src/install/index.ts';
import { RESOURCES, resourcePath } from '../../src/kube/resources.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../support/answers.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import {
  type ControlPlane,
  createSystem,
  type RecordedCall,
  REPLICA_USER,
  type Replica,
  startControlPlane,
  type System,
  withoutPolicies,
} from '../support/control-plane/index.ts';
import { create, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { readUsage } from '../support/process-usage.ts';
import { type LoadReport, startLoad } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';
import type { Attack } from './attacker.ts';
import { imageEnvironment } from './image.ts';
import { measureThread } from './measured-client.ts';
import { NICENESS } from './priority.ts';
import { buildSpec, NAMESPACE, REVIEWS, WITHOUT_SCCS } from './stage.ts';
import type { StrangerAttack } from './stranger-attacks.ts';
import { ATTACK_LABEL, ENFORCED, TENANT_ATTACKS, type TenantAttack, UNENFORCED } from './tenant-attacks.ts';
import type { TenantReport, TenantWork } from './tenant.ts';

const MUTATE = '/mutate/pods';
const PSA = 'pod-security.kubernetes.io/enforce';
const SCC = 'portcullis.dev/scc';
const FAIL_OPEN = { 'portcullis.dev/admission': 'fail-open' };

/** Namespaces in which tenants may create objects. */
const NAMESPACES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [NAMESPACE]: { [PSA]: 'restricted', [SCC]: 'enforce' },
  [WITHOUT_SCCS]: { [PSA]: 'restricted', [SCC]: 'off' },
  [ENFORCED]: { [PSA]: 'restricted', [SCC]: 'enforce' },
  [UNENFORCED]: { [PSA]: 'privileged', [SCC]: 'off' },
  'closed-level': { [PSA]: 'restricted' },
  'closed-scc': { [PSA]: 'privileged', [SCC]: 'enforce' },
  'closed-own-label': { [PSA]: 'privileged', 'portcullis.dev/enforce': 'baseline' },
  'open-level': { [PSA]: 'baseline', ...FAIL_OPEN },
  'open-scc': { [PSA]: 'privileged', [SCC]: 'enforce', ...FAIL_OPEN },
  'open-both': { [PSA]: 'restricted', [SCC]: 'enforce', ...FAIL_OPEN },
};

/** The namespaces in which the tenant tries to create forbidden pods. */
const FORBIDDING = Object.keys(NAMESPACES).filter((name) => name !== UNENFORCED);

/**
 * Permissions that `edit` and `admin` do not include. They permit writing pod templates, which replicas read, and using
 * `kubectl debug`.
 */
const EXTRA_ROLE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'tenant-extra' },
  rules: [
    { apiGroups: [''], resources: ['podtemplates'], verbs: ['*'] },
    { apiGroups: [''], resources: ['pods/ephemeralcontainers'], verbs: ['patch'] },
  ],
};

/** Both configurations run all controllers. */
const COMMON = {
  rollout: { phase: 'Evaluate', evaluationInterval: '1m' },
  kubelet: { minimumVersion: '1.30.0' },
  olm: { hardening: { mode: 'report' } },
};

const CONFIGURATIONS = {
  default: { ...COMMON, podSecurity: { exceptions: { mode: 'approved' } } },
  'sar, Ignore and floor': {
    ...COMMON,
    scc: { authorization: 'sar' },
    webhooks: { failurePolicy: 'Ignore' },
    floor: { mode: 'enforce' },
  },
} as const satisfies Readonly<Record<string, JsonObject>>;
export type ConfigurationName = keyof typeof CONFIGURATIONS;
export const CONFIGURATION_NAMES = ['default', 'sar, Ignore and floor'] as const satisfies readonly ConfigurationName[];

/**
 * A replica that uses more memory than this is replaced before the next attack, so the measured memory results from
 * only one attack.
 */
const FRESH_RSS_MIB = 220;

/** Maximum duration of the creation of objects. */
const CREATE_MS = Number(process.env['PORTCULLIS_ATTACK_SECONDS'] ?? 12) * 1000;

/** The effect of an attack on the replicas. */
export interface Effect {
  readonly peakMiB: number;
  readonly ended: readonly string[];
  /** Forbidden pods that were admitted, and the number of attempts. */
  readonly admitted: readonly string[];
  readonly attempts: number;
  /** Reviews that were sent to a replica directly. */
  readonly direct: LoadReport;
  /** 99th percentile of the CPU time that the main thread of the replica used during a direct review. */
  readonly cpuP99Ms: number;
  readonly cpuMaxMs: number;
  /**
   * 99th percentile of the latency of direct reviews, without the time in which the main thread of the replica waited
   * for a CPU of this machine.
   */
  readonly ownP99Ms: number;
  /** Dry runs of pods at the API server. */
  readonly dryRuns: LoadReport;
  /** Number of dry runs by response. */
  readonly dryRunResponses: ReadonlyMap<string, number>;
}

export interface TenantStage {
  readonly plane: ControlPlane;
  readonly system: System;
  /** The clients of the tenants by their ClusterRole. */
  readonly tenants: Readonly<Record<TenantAttack['role'], ApiClient>>;
  configure(name: ConfigurationName): Promise<void>;
  /** Starts replicas until two run and are ready. */
  restore(): Promise<void>;
  /** Measures the effect of an attack on the replicas. */
  measure(act: () => Promise<void>): Promise<Effect>;
  /** Kills the older replica, and starts another one. Resolves to the time until it has read everything. */
  restart(): Promise<number | 'ended'>;
  startTenant(attack: TenantAttack, options?: TenantOptions): RunningTenant;
  startStranger(attack: StrangerAttack): Promise<RunningStranger>;
  /** Deletes the objects of attacks. */
  clean(attacks: readonly TenantAttack[]): Promise<void>;
  stop(): Promise<void>;
}

type TenantOptions = Partial<Pick<TenantWork, 'count' | 'bytes' | 'createMs'>>;

interface RunningTenant {
  /** Resolves when the first creation is complete. */
  readonly created: Promise<unknown>;
  stop(): Promise<TenantReport>;
}

interface RunningStranger {
  /** Resolves to the number of responses by status. */
  stop(): Promise<ReadonlyMap<string, number>>;
}

interface StageOptions {
  /** The script of the replicas. Defaults to the sources. */
  readonly main?: string;
  /** Number of direct reviews, of dry runs and of forbidden pods per second. */
  readonly perSecond?: number;
}

/** Sets up the installation and two replicas. */
export async function setUpTenants({ main, perSecond = 20 }: StageOptions): Promise<TenantStage> {
  const plane = await startControlPlane({ niceness: NICENESS });
  const system = await createSystem(plane, {
    objectsFor: (port) => localObjects(port, { features: ALL_FEATURES }),
    args: ['--leader-elect-lease-duration=6s', '--shutdown-delay-duration=1s'],
  });
  for (const [name, labels] of Object.entries(NAMESPACES)) {
    const { status, text } = await create(plane.admin, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels },
    });
    assert.equal(status, 201, text);
  }
  for (const object of OLM_DEFINITIONS) await create(plane.admin, object);
  await system.install();
  await create(plane.admin, EXTRA_ROLE);
  const clients: ApiClient[] = [];
  const credentials = (user: string) => ({
    port: Number(new URL(plane.server).port),
    authority: plane.authority,
    client: plane.issueClientCertificate(user, ['system:authenticated']),
  });
  const clientOf = async (user: string, role: string): Promise<ApiClient> => {
    for (const namespace of Object.keys(NAMESPACES)) {
      for (const name of [role, EXTRA_ROLE.metadata.name, 'portcullis-propose-exceptions']) {
        const binding = {
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'RoleBinding',
          metadata: { name: `${user}-${name}`, namespace },
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
          subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
        };
        const { status, text } = await create(plane.admin, binding);
        assert.equal(status, 201, text);
      }
    }
    const client = createApiClient(credentials(user));
    clients.push(client);
    return client;
  };
  const tenants = { edit: await clientOf('tenant-edit', 'edit'), admin: await clientOf('tenant-admin', 'admin') };
  const alice = await clientOf('alice', 'edit');
  const mallory = await clientOf('mallory', 'edit');
  const expected = new WeakSet<Replica>();
  const ended: string[] = [];
  const start = async (): Promise<Replica> => {
    const env = imageEnvironment(512);
    const [replica] = await system.start(1, { ...(main === undefined ? {} : { main }), env });
    assert.ok(replica);
    void replica.finished.then(({ code, stderr }) => {
      if (expected.has(replica)) return;
      const reason = /FATAL ERROR: [^\n]*/.exec(stderr)?.[0] ?? stderr.slice(-300);
      ended.push(`${replica.name} ended with ${code}: ${reason}`);
    });
    return replica;
  };
  const isRunning = ({ pid }: Replica): boolean => {
    try {
      return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false;
    }
  };
  const running = (): readonly Replica[] => system.replicas.filter(isRunning);
  /** Waits until a replica has read all objects. */
  const complete = async (replica: Replica, timeoutMs: number): Promise<void> => {
    await eventually(async () => {
      if (!isRunning(replica)) return;
      const { status, text } = await replica.probe();
      assert.ok(status === 200 && !text.includes('the controllers are waiting for'), text);
    }, timeoutMs);
    assert.ok(isRunning(replica), `${replica.name} ended`);
  };

  let configuration: ConfigurationName | undefined;
  let gate: Promise<void> = Promise.resolve();
  /** The replica whose reviews are measured. It is not restarted. */
  let target: Replica | undefined;
  const forbidden = createForbiddenPods(mallory, () => gate);

  const stage: TenantStage = {
    plane,
    system,
    tenants,
    async configure(name) {
      if (name === configuration) return;
      await system.configure(CONFIGURATIONS[name]);
      configuration = name;
      const group = '/apis/admissionregistration.k8s.io/v1';
      await eventually(async () => {
        const validating = `${group}/validatingwebhookconfigurations/portcullis.dev`;
        const answer = await plane.admin.send('GET', validating);
        const { webhooks = [] } = responseObject(answer) as {
          readonly webhooks?: readonly { readonly name: string; readonly failurePolicy: string }[];
        };
        const isClosed = webhooks.some(({ failurePolicy }) => failurePolicy === 'Fail');
        const hasFloor = webhooks.some((webhook) => webhook.name.startsWith('floor.'));
        assert.deepEqual([isClosed, hasFloor], [true, name !== 'default' && withoutPolicies === false]);
        // Replicas enforce SCCs once the leader has recorded the registration.
        assert.ok(answer.text.includes('portcullis.dev/registered-scc-mode'));
      }, 60_000);
      // The API server observes the webhook configurations and policies.
      await pause(1000);
    },
    async restore() {
      for (const replica of [...system.replicas]) {
        const usage = await readUsage(replica.pid).catch(() => undefined);
        if (isRunning(replica) && (usage?.rssMiB ?? 0) < FRESH_RSS_MIB) continue;
        expected.add(replica);
        await system.retire(replica);
      }
      while (running().length < 2) await start();
      await system.settled(2);
      for (const replica of running()) await complete(replica, 60_000);
      const clientsOf = running().map(({ port }) =>
        createWebhookClient({ port, serverName: 'localhost', authority: 'any', timeoutSeconds: 15 }),
      );
      await eventually(async () => {
        for (const client of clientsOf)
          for (const { path, review, allowed } of REVIEWS) assert.equal(await client.call(path, review), allowed, path);
      }, 60_000);
      for (const client of clientsOf) client.close();
    },
    async measure(act) {
      ended.length = 0;
      forbidden.admitted.length = 0;
      forbidden.attempts = 0;
      [, target] = running();
      assert.ok(target, 'two replicas run');
      for (const { pid } of running()) await writeFile(`/proc/${pid}/clear_refs`, '5');
      let peakMiB = 0;
      const sample = async (): Promise<void> => {
        for (const { pid } of running()) {
          // A process that is terminating has no memory.
          const usage = await readUsage(pid).catch(() => undefined);
          peakMiB = Math.max(peakMiB, usage?.peakMiB || 0);
        }
      };
      const sampling = setInterval(() => void sample(), 200);
      const client = createWebhookClient({
        port: target.port,
        serverName: 'localhost',
        authority: 'any',
        timeoutSeconds: 15,
      });
      const measured = measureThread(client, target.pid);
      const dryRunResponses = new Map<string, number>();
      const loads = [
        startLoad({ client: measured.client, reviews: REVIEWS, perSecond }),
        startLoad({
          client: dryRunClient(alice, dryRunResponses),
          reviews: REVIEWS.filter(({ path }) => path === MUTATE),
          perSecond: perSecond / 4,
        }),
      ] as const;
      const stopForbidden = forbidden.start();
      try {
        await act();
        await sample();
      } finally {
        clearInterval(sampling);
        await Promise.all([stopForbidden(), ...loads.map((load) => load.stop())]);
        client.close();
      }
      const [direct, dryRuns] = loads.map((load) => load.report()) as [LoadReport, LoadReport];
      return {
        peakMiB,
        ended: [...ended],
        admitted: await explainAdmissions(plane, forbidden.admitted),
        attempts: forbidden.attempts,
        direct,
        dryRuns,
        dryRunResponses,
        ...measured.result(),
      };
    },
    async restart() {
      const victim = running().find((replica) => replica !== target);
      if (!victim) return 'ended';
      expected.add(victim);
      // Where webhooks fail open, a pod is admitted if its review does not complete because the replica is killed.
      // Therefore, the attempts pause.
      let open = (): void => undefined;
      gate = new Promise((resolve) => (open = resolve));
      await forbidden.idle();
      system.route(running().filter((other) => other !== victim));
      await pause(300);
      await victim.stop('SIGKILL');
      await system.retire(victim);
      // For a moment, a busy API server still uses closed connections.
      await pause(1000);
      open();
      const startMs = performance.now();
      try {
        await complete(await start(), 180_000);
        return Math.round(performance.now() - startMs);
      } catch (error) {
        ended.push(String(error).slice(0, 300));
        return 'ended';
      }
    },
    startTenant(attack, options) {
      const workerData = {
        ...credentials(`tenant-${attack.role}`),
        attack: attack.name,
        createMs: CREATE_MS,
        ...options,
      };
      const worker = new Worker(new URL('tenant.ts', import.meta.url), { workerData });
      const created = once(worker, 'message');
      return {
        created,
        async stop() {
          await created;
          worker.postMessage('stop');
          const [report] = (await once(worker, 'message')) as [TenantReport];
          await worker.terminate();
          return report;
        },
      };
    },
    async startStranger({ port, requests, name: _name, after: _after, isFlood: _isFlood, ...attack }) {
      const sent = requests();
      const workers = await Promise.all(
        running().map(async (replica) => {
          const workerData: Attack = {
            ...attack,
            sent,
            protocol: port === 'reviews' ? 'tls' : 'tcp',
            port: port === 'reviews' ? replica.port : Number(new URL(replica.probes).port),
          };
          const worker = new Worker(new URL('attacker.ts', import.meta.url), { workerData });
          await once(worker, 'message');
          return worker;
        }),
      );
      return {
        async stop() {
          const counts = new Map<string, number>();
          for (const worker of workers) {
            worker.postMessage('stop');
            const [responses] = (await once(worker, 'message')) as [readonly string[]];
            for (const response of responses) counts.set(response, (counts.get(response) ?? 0) + 1);
            await worker.terminate();
          }
          return counts;
        },
      };
    },
    async clean(attacks) {
      const scopes = attacks.flatMap(({ namespace, kinds }) => kinds.map((kind) => ({ namespace, kind })));
      const paths = new Set(scopes.map(({ namespace, kind }) => resourcePath(kind, namespace)));
      for (const path of paths) {
        const query = `labelSelector=${ATTACK_LABEL}`;
        await plane.admin.send('DELETE', `${path}?${query}&gracePeriodSeconds=0&propagationPolicy=Background`);
        const accept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
        const list = responseObject(await plane.admin.send('GET', `${path}?${query}`, undefined, { accept }));
        // API servers send null for an empty list of object metadata.
        const remaining = (list['items'] ?? []) as readonly JsonObject[];
        const patch = { metadata: { finalizers: null } };
        for (const object of remaining) {
          const { name } = objectMetadata(object);
          const type = { 'content-type': 'application/merge-patch+json' };
          await plane.admin.send('PATCH', `${path}/${String(name)}`, patch, type);
        }
      }
    },
    async stop() {
      for (const client of clients) client.close();
      for (const replica of system.replicas) {
        expected.add(replica);
        replica.stop('SIGKILL').catch(() => undefined);
      }
      await system.stop();
      await plane.stop();
    },
  };
  try {
    await start();
    await start();
    await system.settled(2);
    await stage.configure('default');
  } catch (error) {
    await stage.stop();
    throw error;
  }
  return stage;
}

/** Sends dry runs of pods to the API server, and counts the responses. */
function dryRunClient(user: ApiClient, responses: Map<string, number>): WebhookClient {
  return {
    async call(_path, { request }) {
      const { namespace, object } = request;
      const { status, text } = await user.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, object);
      const response = status === 201 ? '201' : `${status} ${text.slice(0, 1000)}`;
      responses.set(response, (responses.get(response) ?? 0) + 1);
      if (status === 201) return true;
      if (status === 403 && !text.includes('failed calling webhook')) return false;
      throw new Error(`HTTP status ${status}: ${text.slice(0, 300)}`);
    },
    close: () => undefined,
  };
}

/** Adds the webhooks that failed open to the names of admitted pods. */
async function explainAdmissions(plane: ControlPlane, admitted: readonly string[]): Promise<readonly string[]> {
  if (admitted.length === 0) return [];
  const calls = await plane.calls();
  return admitted.map((pod) => {
    const isCreation = ({ verb, resource, namespace, name, code }: RecordedCall): boolean =>
      verb === 'create' && resource === 'pods' && `${namespace}/${name}` === pod && code === 201;
    const webhooks = calls.find(isCreation)?.failedOpen ?? [];
    return `${pod} (failed open: ${webhooks.join(', ') || 'none'})`;
  });
}

interface ForbiddenPods {
  /** Namespaces and names of the admitted pods. */
  readonly admitted: string[];
  attempts: number;
  /** Starts the attempts. Returns the function that stops them. */
  start(): () => Promise<void>;
  /** Waits until no attempt is running. */
  idle(): Promise<void>;
}

const PAUSE_MS = 50;

/** Creates privileged pods in namespaces of every tier that enforces a policy. */
function createForbiddenPods(user: ApiClient, gate: () => Promise<void>): ForbiddenPods {
  let current: Promise<void> = Promise.resolve();
  const attempt = async (namespace: string, index: number): Promise<void> => {
    const padding = index % 7 === 6 ? [{ name: 'A', value: 'x'.repeat(1_200_000) }] : [];
    const [container] = buildSpec('privileged')['containers'] as readonly JsonObject[];
    const spec = { hostPID: true, containers: [{ ...container, env: padding }] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: `forbidden-${randomUUID()}` }, spec };
    const { status, body } = await user.send('POST', `/api/v1/namespaces/${namespace}/pods`, pod);
    result.attempts++;
    if (status !== 201) return;
    const { name } = (body as { readonly metadata: { readonly name: string } }).metadata;
    result.admitted.push(`${namespace}/${name}`);
    await user.send('DELETE', `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`);
  };
  const result: ForbiddenPods = {
    admitted: [],
    attempts: 0,
    start() {
      let isDone = false;
      const loop = async (): Promise<void> => {
        for (let index = 0; !isDone; index++) {
          await gate();
          current = attempt(FORBIDDING[index % FORBIDDING.length] ?? NAMESPACE, index).catch(() => undefined);
          await current;
          await pause(PAUSE_MS);
        }
      };
      const looping = loop();
      return async () => {
        isDone = true;
        await looping;
      };
    },
    idle: () => current,
  };
  return result;
}

/**
 * Returns the resources that a tenant may create or change and that replicas watch in all namespaces or in the
 * namespaces of tenants. The watches are taken from the recorded requests.
 */
export async function findTenantResources({ plane, tenants }: TenantStage): Promise<readonly string[]> {
  const calls = await plane.calls();
  const watched = new Map(
    calls
      .filter(
        ({ user, verb, namespace }) =>
          user === REPLICA_USER && verb === 'watch' && (namespace === '' || namespace in NAMESPACES),
      )
      .map(({ group, resource }) => [`${resource}.${group}`, { group, resource }]),
  );
  const writable: string[] = [];
  for (const { group, resource } of watched.values()) {
    const attributes = { group, resource, namespace: ENFORCED };
    const answers = await Promise.all(
      Object.values(tenants).flatMap((client) =>
        ['create', 'update', 'patch'].map((verb) => review(client, { ...attributes, verb })),
      ),
    );
    if (answers.some(Boolean)) writable.push(`${resource}${group === '' ? '' : `.${group}`}`);
  }
  return writable.sort();
}

async function review(client: ApiClient, resourceAttributes: JsonObject): Promise<boolean> {
  const type = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview' };
  const { body } = await client.send('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    ...type,
    spec: { resourceAttributes },
  });
  return (body as { readonly status: { readonly allowed: boolean } }).status.allowed;
}

/** Returns the resources that attacks create. */
export function attackedResources(): readonly string[] {
  const kinds = new Set(TENANT_ATTACKS.flatMap((attack) => attack.kinds));
  return [...kinds]
    .map((kind) => {
      const { group, resource } = RESOURCES[kind];
      return `${resource}${group === '' ? '' : `.${group}`}`;
    })
    .sort();
}

/** The remaining memory of a container with 512 MiB is reserved for the objects of a large cluster. */
const MAX_RSS_MIB = 400;
const MAX_P99_MS = 100;

/**
 * Asserts that no replica terminated, no forbidden pod was admitted, and reviews were not delayed. The delay is
 * measured as the CPU time that the main thread of a replica used during a review, because it does not depend on other
 * programs on this machine.
 */
export function assertUnaffected(effect: Effect, isFlood = false): void {
  const { peakMiB, ended, admitted, attempts, direct, dryRuns, cpuP99Ms } = effect;
  assert.deepEqual(ended, []);
  assert.deepEqual(admitted, []);
  assert.ok(attempts > 0, 'no forbidden pod was tried');
  assert.deepEqual([direct.wrong, dryRuns.wrong], [0, 0]);
  assert.ok(direct.sent > 0 && dryRuns.sent > 0, 'no reviews were sent');
  // A machine that is too busy for the client closes connections. The retries then succeed.
  assert.equal(direct.failedRetries, 0, JSON.stringify(direct.failures.slice(0, 3)));
  assert.ok(peakMiB < MAX_RSS_MIB, `${peakMiB} MiB`);
  assert.ok(isFlood || cpuP99Ms < MAX_P99_MS, `${cpuP99Ms} ms`);
}
