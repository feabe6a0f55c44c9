/**
 * Compares the answers of all readers with an API server: the pods of random workloads are created in dry runs as their
 * controllers would create them. `PORTCULLIS_WORLDS` sets the number of worlds of 40 workloads.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { createPod } from '../../src/kube/controller-pod.ts';
import type { JsonObject, KubeObject } from '../../src/kube/types.ts';
import { type Workload, type World, world } from '../support/agreement/world.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import {
  ASSETS,
  type ControlPlane,
  createSystem,
  startControlPlane,
  type System,
} from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { readFixture } from '../support/fixtures.ts';
import { runProgram } from '../support/memory-io.ts';

const WORLDS = Number(process.env['PORTCULLIS_WORLDS'] ?? 1);
const CREATOR = { username: 'alice', groups: ['system:authenticated'] };
const REPORTS = '/apis/openreports.io/v1alpha1';

/** A workload in the cluster, and the policies that deny its pod. */
interface Reviewed {
  readonly name: string;
  readonly kind: string;
  readonly namespace: string;
  readonly policies: string;
  /** True if the API server warned about Pod Security when the workload was created. */
  readonly isWarned: boolean;
}

type Listed = Pick<Reviewed, 'kind' | 'name'> & { readonly verdict: string };
type Namespaces = readonly { readonly name: string; readonly workloads: readonly Listed[] }[];

const skip = ASSETS === undefined ? 'the development cluster has no roles for the controllers that create pods' : false;

suite('all readers agree with the API server', { skip }, () => {
  let plane: ControlPlane;
  let system: System;
  let kubeconfig: string;

  before(async () => {
    plane = await startControlPlane();
    system = await createSystem(plane);
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
    const binding = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'pod-creators' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'pod-creators' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: CREATOR.username }],
    };
    const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['create'] }];
    const role = { apiVersion: binding.apiVersion, kind: 'ClusterRole', metadata: binding.metadata, rules };
    for (const one of [role, binding]) assert.equal((await create(plane.admin, one)).status, 201);
    await system.scale(1);
    kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  });
  after(async () => {
    await system.stop();
    await plane.stop();
  });

  const run = async (...args: readonly string[]): Promise<unknown> => {
    const { stdout, stderr } = await runProgram([...args, '--kubeconfig', kubeconfig, '-o', 'json']);
    assert.notEqual(stdout, '', stderr);
    return JSON.parse(stdout);
  };

  /** Creates the namespaces of a world. Running pods exist before the policies apply. */
  const createWorld = async (given: World): Promise<readonly Workload[]> => {
    await system.configure({ scc: { mode: 'off' } });
    for (const object of given.objects) {
      const { labels = {} } = (object.metadata ?? {}) as { readonly labels?: Readonly<Record<string, string>> };
      const isNamespace = object.kind === 'Namespace';
      const first = isNamespace ? { ...object, metadata: { ...object.metadata, labels: {} } } : object;
      const { status } = await create(plane.admin, first as JsonObject);
      assert.ok(status === 201 || status === 409, String(status));
      assert.ok(!isNamespace || Object.keys(labels).length < 10);
    }
    const created: Workload[] = [];
    for (const workload of given.workloads) {
      const answer = await create(plane.admin, withSelector(workload));
      // API servers reject some of the random templates.
      if (answer.status === 422 || answer.status === 400) continue;
      assert.equal(answer.status, 201, answer.text);
      const { name, uid } = objectMetadata(responseObject(answer)) as { readonly name: string; readonly uid: string };
      if (workload.pod) await create(plane.admin, ownedBy(workload.pod, { name, uid }));
      created.push(workload);
    }
    for (const { kind, metadata } of given.objects) {
      if (kind !== 'Namespace') continue;
      const path = `/api/v1/namespaces/${metadata?.name ?? ''}`;
      const change = { metadata: { labels: metadata?.labels ?? {} } };
      const { status } = await plane.admin.send('PATCH', path, change, {
        'content-type': 'application/merge-patch+json',
      });
      assert.equal(status, 200);
    }
    await system.configure(given.settings);
    return created;
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
    const again = await plane.admin.send('POST', await dryRunPath(workload), withSelector(workload, `${name}-again`));
    return {
      ...{ name, namespace, kind, policies },
      isWarned: again.warnings.some((warning) => warning.includes('would violate PodSecurity')),
    };
  };

  const dryRunPath = async ({ object }: Workload): Promise<string> => {
    const { resolvePaths } = await import('../support/control-plane/installation.ts');
    return `${(await resolvePaths(plane.admin, object as JsonObject)).collection}?dryRun=All`;
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

  /** Returns the workloads that each reader of the Pod Security state lists as denied now. */
  const listDenied = async (): Promise<readonly (readonly [reader: string, denied: ReadonlySet<string>])[]> => {
    const [plan, report] = (await Promise.all([run('rollout', 'plan'), run('report')])) as Planned[];
    const { items } = (await responseBody(plane, `${REPORTS}/reports`)) as { readonly items: readonly ReportItem[] };
    const reported = items.flatMap(({ results = [] }) =>
      results.flatMap(({ properties, resources = [] }) => (properties?.['verdict'] === 'deniedNow' ? resources : [])),
    );
    return [
      ['rollout plan', deniedNow(plan?.namespaces ?? [])],
      ['report', deniedNow(report?.namespaces ?? [])],
      ['the report of the leader', new Set(reported.map(({ kind, name }) => `${kind}/${name}`))],
    ];
  };

  for (const [index, sample] of fc.sample(world, { numRuns: WORLDS, seed: 20_261_130 }).entries()) {
    test(`world ${index}`, async () => {
      const given = renamed(sample, `w${index}`);
      const workloads = await createWorld(given);
      await pauseUntilApplied(plane);
      const labeled = new Set(
        given.objects.flatMap(({ kind, metadata }) =>
          kind === 'Namespace' && JSON.stringify(metadata?.labels).includes('/enforce":') ? [metadata?.name] : [],
        ),
      );
      // API servers and the leader apply changed settings after some seconds.
      await eventually(async () => {
        const reviewed = await Promise.all(workloads.map((workload) => review(workload, given)));
        const explained = await explain(reviewed);
        const readers = await listDenied();
        const differences = reviewed.flatMap(({ kind, name, namespace, policies, isWarned }) => {
          const workload = `${kind}/${name}`;
          const isDenied = policies === 'PodSecurity';
          const answers = [
            ...(explained.get(workload) === policies ? [] : [`explain: ${String(explained.get(workload))}`]),
            // If SCC admission denies the pod, the API server does not evaluate Pod Security.
            ...readers.flatMap(([reader, denied]) =>
              policies === 'SCC' || denied.has(workload) === isDenied ? [] : [`${reader}: ${String(!isDenied)}`],
            ),
            ...(!labeled.has(namespace) || kind === 'Pod' || policies === 'SCC' || isWarned === isDenied
              ? []
              : [`warning: ${String(isWarned)}`]),
          ];
          return answers.map((answer) => `${namespace} ${workload}: ${policies || 'allowed'}, but ${answer}`);
        });
        assert.deepEqual(differences, []);
        // API servers reject many of the random templates.
        assert.ok(
          reviewed.some(({ policies }) => policies !== ''),
          String(reviewed.length),
        );
      }, 90_000);
    });
  }
});

interface Planned {
  readonly namespaces: Namespaces;
}

interface ReportItem {
  readonly results?: readonly {
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

function deniedNow(namespaces: Namespaces): ReadonlySet<string> {
  const denied = namespaces.flatMap(({ workloads }) => workloads.filter(({ verdict }) => verdict === 'deniedNow'));
  return new Set(denied.map(({ kind, name }) => `${kind}/${name}`));
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

/** Gives the namespaces and workloads of a world unique names. */
function renamed(given: World, prefix: string): World {
  const text = JSON.stringify(given).replaceAll(/"(team-\d+)"/g, `"${prefix}-$1"`);
  const { workloads, ...others } = JSON.parse(text) as World;
  const rename = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, name: `${prefix}-${object.metadata?.name ?? ''}` },
  });
  return {
    ...others,
    workloads: workloads.map(({ kind, object, pod }) => ({ kind, object: rename(object), pod: pod && rename(pod) })),
  };
}

/** Adds the fields that API servers require. */
function withSelector({ kind, object }: Workload, name = object.metadata?.name): JsonObject {
  const labels = { app: 'x' };
  const { spec = {}, ...others } = object as { readonly spec?: JsonObject };
  const complete = { ...others, metadata: { ...object.metadata, name, uid: undefined }, status: undefined };
  if (kind === 'Pod') return { ...complete, spec };
  const template = (one: unknown): JsonObject => {
    const { metadata = {}, spec: pod = {} } = one as { readonly metadata?: JsonObject; readonly spec?: JsonObject };
    const restart = kind === 'Job' || kind === 'CronJob' ? { restartPolicy: 'Never' } : {};
    return { metadata: { ...metadata, labels }, spec: { ...pod, ...restart } };
  };
  if (kind === 'CronJob') {
    const { jobTemplate } = spec as { readonly jobTemplate: { readonly spec: { readonly template: unknown } } };
    return {
      ...complete,
      spec: { schedule: '0 0 1 1 *', jobTemplate: { spec: { template: template(jobTemplate.spec.template) } } },
    };
  }
  const selector =
    kind === 'Job' ? {} : { selector: kind === 'ReplicationController' ? labels : { matchLabels: labels } };
  const claims =
    kind === 'StatefulSet'
      ? {
          volumeClaimTemplates: [
            {
              metadata: { name: 'data' },
              spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1' } } },
            },
          ],
        }
      : {};
  return { ...complete, spec: { ...spec, ...claims, ...selector, template: template(spec['template']) } };
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
