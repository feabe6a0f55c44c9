/**
 * Compares the results of all readers with the decisions of an API server. The pods of random workloads are created in
 * dry runs as their controllers would create them, before and after enforcement. `PORTCULLIS_WORLDS` sets the number of
 * worlds of 40 workloads. API servers accept neither invalid Pod Security labels nor expired exceptions, which
 * `test/cli/agreement.test.ts` covers.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { createPod } from '../../src/kube/controller-pod.ts';
import { hasFinished } from '../../src/kube/pod.ts';
import type { JsonObject, KubeObject } from '../../src/kube/types.ts';
import { type Workload, type World, world } from '../support/agreement/world.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, type ControlPlane, useSystem } from '../support/control-plane/index.ts';
import { allow, create, CREATE_PODS, resolvePaths } from '../support/control-plane/installation.ts';
import { runDashboard } from '../support/dashboard-client.ts';
import { eventually } from '../support/eventually.ts';
import { readFixture } from '../support/fixtures.ts';
import { runProgram } from '../support/memory-io.ts';

const WORLDS = Number(process.env['PORTCULLIS_WORLDS'] ?? 2);
const CREATOR = { username: 'alice', groups: ['system:authenticated'] };
const REPORTS = '/apis/openreports.io/v1alpha1';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const EXCEPTION = 'PodSecurityException';
const EXCEPTIONS_OFF = { exemptions: { runtimeClasses: ['kata'] } };

const LEADER = 'the report of the leader';

/** The kinds that `check` reads, with the paths of their lists. */
const EXPORTED: readonly (readonly [kind: string, path: string])[] = [
  ['Namespace', '/api/v1/namespaces'],
  ['ServiceAccount', '/api/v1/serviceaccounts'],
  ['RoleBinding', '/apis/rbac.authorization.k8s.io/v1/rolebindings'],
  [EXCEPTION, '/apis/policy.portcullis.dev/v1alpha1/podsecurityexceptions'],
  ['CronJob', '/apis/batch/v1/cronjobs'],
  ['DaemonSet', '/apis/apps/v1/daemonsets'],
  ['Deployment', '/apis/apps/v1/deployments'],
  ['Job', '/apis/batch/v1/jobs'],
  ['Pod', '/api/v1/pods'],
  ['ReplicaSet', '/apis/apps/v1/replicasets'],
  ['ReplicationController', '/api/v1/replicationcontrollers'],
  ['StatefulSet', '/apis/apps/v1/statefulsets'],
];
const WORKLOADS: ReadonlySet<string> = new Set(EXPORTED.slice(4).map(([kind]) => kind));

/** A workload in the cluster, and the policies that deny its pod. */
interface Reviewed {
  readonly name: string;
  readonly kind: string;
  readonly namespace: string;
  readonly policies: string;
  readonly hasFinished: boolean;
  /** The violated policies in the warnings about the pod and about the workload. */
  readonly podWarning: string;
  readonly warning: string;
}

interface Listed {
  readonly kind: string;
  readonly name: string;
  readonly verdict?: string;
}

type Namespaces = readonly {
  readonly name: string;
  readonly workloads: readonly Listed[];
  readonly excepted: readonly Listed[];
}[];
type Verdicts = ReadonlyMap<string, string>;

const skip = ASSETS === undefined ? 'the development cluster has no roles for the controllers that create pods' : false;

suite('all commands and reports agree with the decisions of the API server', { skip }, async () => {
  const { plane, system } = await useSystem();
  await system.install();
  const { 'openreports.io': definition } = readFixture<Record<string, JsonObject>>('reports/crds.yaml');
  assert.ok(definition);
  for (const one of [definition, clusterScoped(definition)]) {
    const answer = await create(plane.admin, one);
    assert.equal(answer.status, 201, answer.text);
  }
  for (const name of ['kata', 'other']) {
    const runtimeClass = { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name }, handler: name };
    await create(plane.admin, runtimeClass);
  }
  await allow(plane.admin, 'pod-creators', [CREATOR.username], [CREATE_PODS]);
  await system.add(1);
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);

  const run = async (...args: readonly string[]): Promise<unknown> => {
    const { stdout, stderr } = await runProgram([...args, '--kubeconfig', kubeconfig, '-o', 'json']);
    assert.notEqual(stdout, '', stderr);
    return JSON.parse(stdout);
  };

  /** Creates the namespaces of a world. Running pods exist before the policies apply. */
  const createWorld = async (given: World): Promise<readonly Workload[]> => {
    await system.configure({ scc: { mode: 'off' } });
    await pauseUntilApplied(plane);
    for (const object of given.objects.filter(({ kind }) => kind !== EXCEPTION)) {
      const isNamespace = object.kind === 'Namespace';
      const first = isNamespace ? { ...object, metadata: { ...object.metadata, labels: {} } } : object;
      const { status, text } = await create(plane.admin, first as JsonObject);
      assert.ok(status === 201 || status === 409, text);
    }
    const created: Workload[] = [];
    for (const workload of given.workloads) {
      const answer = await create(plane.admin, asNew(workload));
      // API servers reject some of the random templates.
      if (answer.status === 422 || answer.status === 400) continue;
      assert.equal(answer.status, 201, answer.text);
      const { name, uid } = objectMetadata(responseObject(answer)) as { readonly name: string; readonly uid: string };
      if (workload.pod) await create(plane.admin, ownedBy(workload.pod, { name, uid }));
      await finish(workload);
      created.push(workload);
    }
    for (const { kind, metadata } of given.objects) {
      if (kind !== 'Namespace') continue;
      const path = `/api/v1/namespaces/${metadata?.name ?? ''}`;
      const change = { metadata: { labels: metadata?.labels ?? {} } };
      const { status, text } = await plane.admin.send('PATCH', path, change, MERGE);
      assert.equal(status, 200, text);
    }
    await system.configure(given.settings);
    await pauseUntilApplied(plane);
    for (const object of given.objects.filter(({ kind }) => kind === EXCEPTION)) await approve(object as JsonObject);
    return created;
  };

  /** Sets the status of a finished workload, which API servers ignore when they create it. */
  const finish = async ({ object }: Workload): Promise<void> => {
    const { kind, status } = object as { readonly kind?: string; readonly status?: JsonObject };
    if (!hasFinished({ kind, status })) return;
    const { path } = await resolvePaths(plane.admin, object as JsonObject);
    const time = new Date().toISOString();
    const condition = { status: 'True', lastTransitionTime: time, lastProbeTime: time };
    const types = ['SuccessCriteriaMet', 'Complete'];
    const job = { startTime: time, completionTime: time, conditions: types.map((type) => ({ type, ...condition })) };
    const change = { status: kind === 'Job' ? job : status };
    const answer = await plane.admin.send('PATCH', `${path}/status`, change, MERGE);
    assert.equal(answer.status, 200, answer.text);
  };

  /** Creates an exception as alice, and approves it as bob. */
  const approve = async (object: JsonObject): Promise<void> => {
    const { status, ...proposed } = object;
    const as = (user: string) => ({ 'impersonate-user': user, 'impersonate-group': 'system:masters' });
    const { specHash } = (status as { readonly approval: { readonly specHash: string } }).approval;
    const change = { status: { approval: { specHash } } };
    const { path } = await resolvePaths(plane.admin, object);
    await eventually(async () => {
      const { metadata, ...others } = proposed as { readonly metadata: JsonObject };
      const answer = await create(plane.admin, { ...others, metadata: { ...metadata, annotations: {} } }, as('alice'));
      assert.ok(answer.status === 201 || answer.status === 409, answer.text);
      const approved = await plane.admin.send('PATCH', `${path}/status`, change, { ...as('bob'), ...MERGE });
      assert.equal(approved.status, 200, approved.text);
    }, 30_000);
  };

  const review = async (workload: Workload, given: World): Promise<Reviewed> => {
    const { kind, object } = workload;
    const { name = '', namespace = '' } = object.metadata ?? {};
    const findAccount = (account: string) =>
      given.objects.find((one) => one.kind === 'ServiceAccount' && one.metadata?.name === account);
    const pod = createPod(workload, { namespace, creator: CREATOR, findAccount });
    assert.ok(pod);
    const { username = '', groups = [] } = pod.requester;
    const headers = { 'impersonate-user': username, 'impersonate-group': groups.join(',') };
    const { annotations } = pod.pod.metadata ?? {};
    const body = { apiVersion: 'v1', kind: 'Pod', metadata: { generateName: 'p-', annotations }, spec: pod.pod.spec };
    const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
    const { 'impersonate-group': _groups, ...user } = headers;
    const answer = await plane.admin.send('POST', path, body, isController(username) ? user : headers);
    const message = answer.status === 201 ? '' : String(responseMessage(answer));
    assert.ok(answer.status === 201 || answer.status === 403, answer.text);
    const policies = message === '' ? '' : message.includes('PodSecurity') ? 'PodSecurity' : 'SCC';
    const collection = (await resolvePaths(plane.admin, object as JsonObject)).collection;
    const again = await plane.admin.send('POST', `${collection}?dryRun=All`, asNew(workload, `${name}-again`));
    return {
      ...{ name, namespace, kind, policies, hasFinished: hasFinished(object) },
      podWarning: warnedPolicy(answer.warnings),
      warning: kind === 'Pod' ? warnedPolicy(answer.warnings) : warnedPolicy(again.warnings),
    };
  };

  /** Returns the first policy by which `explain` states that each pod is denied, by workload. */
  const explain = async (reviewed: readonly Reviewed[]): Promise<ReadonlyMap<string, string>> => {
    const explained = new Map<string, string>();
    for (const [namespace, group] of Map.groupBy(reviewed, (one) => one.namespace)) {
      const references = group.map(({ kind, name }) => `${kind.toLowerCase()}/${name}`);
      const { objects } = (await run('explain', ...references, '-n', namespace, '--as', CREATOR.username)) as {
        readonly objects: readonly { kind: string; name: string; denials: readonly { by: string }[] }[];
      };
      for (const { kind, name, denials } of objects) explained.set(`${kind}/${name}`, denials[0]?.by ?? '');
    }
    return explained;
  };

  /** Returns the first report that the dashboard sends. */
  const readLive = async (): Promise<Namespaces> => (await runDashboard(['--kubeconfig', kubeconfig])).namespaces;

  /** Returns the verdicts of each reader of the Pod Security state. */
  const listReaders = async (): Promise<readonly (readonly [reader: string, verdicts: Verdicts])[]> => {
    const [plan, report, live] = await Promise.all([run('rollout', 'plan'), run('report'), readLive()]);
    const { items } = (await responseBody(plane, `${REPORTS}/reports`)) as { readonly items: readonly ReportItem[] };
    const reported = items.flatMap(({ results = [] }) =>
      results
        .filter(({ rule }) => rule !== 'namespace')
        .flatMap(({ properties, resources = [] }) =>
          resources.map((one) => {
            const verdict = properties?.['verdict'] ?? (properties?.['exception'] === undefined ? '' : 'excepted');
            return [`${one.kind}/${one.name}`, verdict] as const;
          }),
        ),
    );
    return [
      ['rollout plan', listVerdicts((plan as Planned).namespaces)],
      ['report', listVerdicts((report as Planned).namespaces)],
      ['dashboard', listVerdicts(live)],
      [LEADER, joinVerdicts(reported)],
    ];
  };

  /**
   * Returns the workloads that `check` denies in the manifests of the cluster. `check` evaluates neither exemptions nor
   * pod defaults.
   */
  const check = async (reviewed: readonly Reviewed[], given: World): Promise<ReadonlySet<string> | undefined> => {
    const { defaults, podSecurity } = given.settings as Readonly<Record<string, JsonObject>>;
    if (defaults?.['mode'] === 'apply') return undefined;
    const { enforce = 'privileged', enforceVersion = 'latest' } = (podSecurity?.['defaults'] ?? {}) as JsonObject;
    const folder = await mkdtemp(join(tmpdir(), 'portcullis-agreement-'));
    const config = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
    const file = join(folder, 'config.json');
    await writeFile(file, JSON.stringify({ ...config, metadata: { name: 'cluster' }, spec: given.settings }));
    const names = new Set(given.objects.flatMap(({ kind, metadata }) => (kind === 'Namespace' ? metadata?.name : [])));
    const workloads = new Set(reviewed.map(({ kind, name }) => `${kind}/${name}`));
    const items: JsonObject[] = [];
    for (const [kind, path] of EXPORTED) {
      const list = (await responseBody(plane, path)) as { readonly items: readonly JsonObject[] };
      for (const item of list.items) {
        const { name, namespace } = objectMetadata(item) as { readonly name: string; readonly namespace?: string };
        const isWorkload = WORKLOADS.has(kind);
        const [group, version] = path.split('/').slice(path.startsWith('/apis') ? 2 : 1);
        const apiVersion = path.startsWith('/apis') ? `${group}/${version}` : 'v1';
        const isSelected = isWorkload ? workloads.has(`${kind}/${name}`) : names.has(namespace ?? name);
        if (isSelected) items.push({ ...item, apiVersion, kind });
      }
    }
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    const policy = ['--level', String(enforce), '--kubernetes-version', String(enforceVersion)];
    const { stdout, stderr } = await runProgram(['check', '-f', '-', '--config', file, ...policy, '-o', 'json'], {
      stdin,
    });
    await rm(folder, { recursive: true });
    assert.notEqual(stdout, '', stderr);
    const { objects, errors, notEvaluated } = JSON.parse(stdout) as {
      readonly objects: readonly (Listed & { readonly findings: readonly { readonly mode: string }[] })[];
      readonly errors: readonly object[];
      readonly notEvaluated: readonly object[];
    };
    assert.deepEqual([...errors, ...notEvaluated], []);
    const denied = objects.filter(({ findings }) => findings.some(({ mode }) => mode === 'enforce'));
    return new Set(denied.map(({ kind, name }) => `${kind}/${name}`));
  };

  const compare = async (workloads: readonly Workload[], given: World): Promise<void> => {
    const reviewed = await Promise.all(workloads.map((workload) => review(workload, given)));
    const explained = await explain(reviewed);
    const checked = await check(reviewed, given);
    const readers = await listReaders();
    const [[, planned] = ['', new Map<string, string>()]] = readers;
    const ownWarn = new Set(
      given.objects.flatMap(({ metadata }) => (hasLabel(metadata?.labels, '/warn') ? metadata?.name : [])),
    );
    const labeled = new Set(
      given.objects.flatMap(({ metadata }) => (hasLabel(metadata?.labels, '/enforce') ? metadata?.name : [])),
    );
    const { phase } = given.settings['rollout'] as { readonly phase?: string };
    const isDisabled = phase === 'Disabled';
    const exempt = new Set(
      workloads.flatMap(({ kind, object }) =>
        JSON.stringify(object).includes('"kata"') ? [`${kind}/${object.metadata?.name}`] : [],
      ),
    );
    const differences = reviewed.flatMap((one) => {
      const { kind, name, namespace, policies, podWarning, warning } = one;
      const workload = `${kind}/${name}`;
      const isDenied = policies === 'PodSecurity';
      const expected = one.hasFinished ? '' : policies;
      const verdict = planned.get(workload) ?? '';
      const isExcepted = verdict.includes('excepted');
      const isWarned = warning !== '';
      const answers: readonly (readonly [reader: string, answer: unknown, expected: unknown])[] = [
        ['explain', explained.get(workload), expected],
        ...(checked === undefined || exempt.has(workload)
          ? []
          : [['check', checked.has(workload), policies !== ''] as const]),
        // If SCC admission denies the pod, the API server does not evaluate Pod Security.
        ...(policies === 'SCC'
          ? []
          : [['rollout plan denies now', verdict === 'deniedNow', expected === 'PodSecurity'] as const]),
        ...readers.map(([reader, verdicts]) => {
          const listed = verdicts.get(workload) ?? '';
          // In the Disabled phase, the leader evaluates only the current level.
          return reader === LEADER && isDisabled
            ? ([reader, listed.includes('deniedNow'), verdict.includes('deniedNow')] as const)
            : ([reader, listed, verdict] as const);
        }),
        // A denied pod has no warning, and the warn level is at least the enforced level unless a label sets it.
        ...(kind === 'Pod' || policies === 'SCC' || isExcepted
          ? []
          : isDenied
            ? ownWarn.has(namespace) || !labeled.has(namespace)
              ? []
              : [['warning', isWarned, true] as const]
            : [['warning', warning, podWarning] as const]),
      ];
      return answers.flatMap(([reader, answer, right]) =>
        answer === right
          ? []
          : [`${namespace} ${workload}: ${policies || 'allowed'}, ${String(right)}, but ${reader}: ${String(answer)}`],
      );
    });
    assert.deepEqual(differences, [], JSON.stringify(given.settings));
    // API servers reject many of the random templates.
    assert.ok(
      reviewed.some(({ policies }) => policies !== ''),
      String(reviewed.length),
    );
  };

  for (const [index, sample] of fc.sample(world, { numRuns: WORLDS, seed: 20_261_130 }).entries()) {
    test(`about the pods of workloads in world ${index}`, async () => {
      const given = realWorld(sample, `w${index}`);
      const workloads = await createWorld(given);
      // API servers and the leader apply changed settings with a delay of some seconds.
      await eventually(() => compare(workloads, given), 300_000);
    });
  }

  test('and enforcement denies the workloads that rollout plan predicts', async () => {
    const [sample] = fc.sample(world, { numRuns: 1, seed: 20_261_201 });
    assert.ok(sample);
    const evaluate = { ...sample.settings, scc: { mode: 'report' }, podSecurity: EXCEPTIONS_OFF };
    // Half of the namespaces have no labels, so enforcement changes their level.
    const objects = sample.objects.flatMap((object, index) => {
      if (object.kind === EXCEPTION) return [];
      const isUnlabeled = object.kind === 'Namespace' && index % 2 === 0;
      return [isUnlabeled ? { ...object, metadata: { ...object.metadata, labels: {} } } : object];
    });
    const settings = { ...evaluate, rollout: { phase: 'Evaluate' } };
    const given = realWorld({ ...sample, objects, settings }, 'enforced');
    const workloads = await createWorld(given);
    await eventually(() => compare(workloads, given), 120_000);
    const { namespaces } = (await run('rollout', 'plan')) as Planned;
    const planned = listVerdicts(namespaces);
    const path = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
    const rollout = { phase: 'Enforce', raiseSettleTime: '1s' };
    await system.configure({ ...given.settings, rollout });
    const mode = { spec: { enforcementMode: 'Restricted' } };
    const answer = await plane.admin.send('PATCH', path, mode, MERGE);
    assert.equal(answer.status, 200, answer.text);
    await eventually(async () => {
      const { status } = (await responseBody(plane, path)) as { readonly status?: Conditions };
      assert.equal(status?.conditions?.find(({ type }) => type === 'Enforcing')?.status, 'True');
    }, 120_000);
    await eventually(async () => {
      const reviewed = await Promise.all(workloads.map((workload) => review(workload, given)));
      const differences = reviewed.flatMap(({ kind, name, policies, hasFinished: isFinished }) => {
        const verdict = planned.get(`${kind}/${name}`) ?? '';
        const isPlanned = verdict === 'deniedNow' || verdict === 'wouldBeDenied';
        const isSame = isFinished || policies === 'SCC' || isPlanned === (policies === 'PodSecurity');
        return isSame ? [] : [`${kind}/${name}: planned ${verdict || 'allowed'}, but ${policies || 'allowed'}`];
      });
      assert.deepEqual(differences, []);
      assert.ok([...planned.values()].includes('wouldBeDenied'));
    }, 60_000);
  });
});

interface Planned {
  readonly namespaces: Namespaces;
}

interface Conditions {
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

interface ReportItem {
  readonly results?: readonly {
    readonly rule?: string;
    readonly properties?: Readonly<Record<string, string>>;
    readonly resources?: readonly { readonly kind: string; readonly name: string }[];
  }[];
}

async function responseBody({ admin }: ControlPlane, path: string): Promise<unknown> {
  return responseObject(await admin.send('GET', path));
}

/** Waits until the replica has applied the settings and registered the webhooks for them. */
async function pauseUntilApplied(plane: ControlPlane): Promise<void> {
  await eventually(async () => {
    const path = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
    const { metadata, status } = (await responseBody(plane, path)) as {
      readonly metadata: { readonly generation: number };
      readonly status?: {
        readonly conditions?: readonly { type: string; status: string; observedGeneration?: number }[];
      };
    };
    const applied = status?.conditions?.find(({ type }) => type === 'Applied');
    assert.equal(applied?.status, 'True');
    assert.equal(applied.observedGeneration ?? metadata.generation, metadata.generation);
  }, 60_000);
}

function isController(username: string): boolean {
  return username.startsWith('system:serviceaccount:');
}

/** Returns the policy in the warning about violations, or an empty string. */
function warnedPolicy(warnings: readonly string[]): string {
  return warnings.map((text) => /would violate PodSecurity \\?"(.*?)\\?"/.exec(text)?.[1] ?? '').find(Boolean) ?? '';
}

function hasLabel(labels: object | undefined, suffix: string): boolean {
  return Object.keys(labels ?? {}).some((key) => key.endsWith(suffix));
}

/** Returns the verdict of each listed workload. A workload may be excepted and also need a restart. */
function listVerdicts(namespaces: Namespaces): Verdicts {
  return joinVerdicts(
    namespaces.flatMap(({ workloads, excepted }) => [
      ...workloads.map(({ kind, name, verdict = '' }) => [`${kind}/${name}`, verdict] as const),
      ...excepted.map(({ kind, name }) => [`${kind}/${name}`, 'excepted'] as const),
    ]),
  );
}

function joinVerdicts(verdicts: readonly (readonly [workload: string, verdict: string])[]): Verdicts {
  const groups = Map.groupBy(verdicts, ([workload]) => workload);
  return new Map(
    [...groups].map(([workload, group]) => {
      const words = new Set(group.map(([, verdict]) => verdict).filter(Boolean));
      return [workload, [...words].sort().join(' ')];
    }),
  );
}

function clusterScoped(definition: JsonObject): JsonObject {
  const { metadata, spec } = definition as { readonly metadata: JsonObject; readonly spec: JsonObject };
  const { kind, plural, singular } = spec['names'] as Readonly<Record<string, string>>;
  const names = { kind: `Cluster${kind}`, plural: `cluster${plural}`, singular: `cluster${singular}` };
  return {
    ...definition,
    metadata: { name: `cluster${String(metadata['name'])}` },
    spec: { ...spec, scope: 'Cluster', names },
  };
}

/**
 * Gives the namespaces and workloads of a world unique names, replaces the labels that API servers reject, and omits the
 * objects that the leader writes.
 */
function realWorld(given: World, prefix: string): World {
  const text = JSON.stringify(given)
    .replaceAll(/"(team-\d+)"/g, `"${prefix}-$1"`)
    .replaceAll('"strict"', '"baseline"')
    .replaceAll('"newest"', '"latest"');
  const { workloads, objects, settings, ...others } = JSON.parse(text) as World;
  const { rollout } = settings as { readonly rollout?: { readonly phase?: string } };
  const rename = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, name: `${prefix}-${object.metadata?.name ?? ''}` },
  });
  const isReal = ({ kind, ...object }: KubeObject): boolean => {
    const { spec } = object as { readonly spec?: { readonly expiresAt?: string } };
    const isExpired = kind === EXCEPTION && Date.parse(spec?.expiresAt ?? '') < Date.now();
    return kind !== 'ConfigMap' && kind !== 'PSAEnforcementConfig' && !isExpired;
  };
  return {
    ...others,
    // The mode of the enforcement configuration, not the phase, decides whether pods are denied.
    settings: { ...settings, rollout: rollout?.phase === 'Enforce' ? { phase: 'Evaluate' } : (rollout ?? {}) },
    objects: objects.filter(isReal),
    workloads: workloads.map(({ kind, object, pod }) => ({ kind, object: rename(object), pod: pod && rename(pod) })),
  };
}

/** Returns the workload as a new object, with its own name or another name. */
function asNew({ object }: Workload, name = object.metadata?.name): JsonObject {
  return { ...object, metadata: { ...object.metadata, name, uid: undefined }, status: undefined };
}

function ownedBy(pod: KubeObject, owned: { readonly name: string; readonly uid: string }): JsonObject {
  const [owner] = pod.metadata?.ownerReferences ?? [];
  const { ephemeralContainers: _unused, ...spec } = (pod as { readonly spec: JsonObject }).spec;
  return {
    ...pod,
    metadata: { ...pod.metadata, ownerReferences: [{ ...owner, ...owned }] },
    spec,
    status: undefined,
  };
}
