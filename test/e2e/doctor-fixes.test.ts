/**
 * Executes the fixes that `doctor` prints in a shell, and checks that they change only the faulty fields of a
 * customized installation.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { VERSION } from '../../src/cli/command.ts';
import type { PrintedFinding } from '../../src/cli/doctor/fix.ts';
import { buildManifests, defaultSettings, type ManifestSettings, PROFILES } from '../../src/install/index.ts';
import type { Kinds } from '../../src/kube/kinds.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseObject } from '../support/answers.ts';
import {
  ASSETS,
  type ControlPlane,
  createSystem,
  startControlPlane,
  type System,
  withoutPolicies,
} from '../support/control-plane/index.ts';
import { apply, create, localObjects, remove, resolvePaths } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { hasKubectl } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';
import { MAIN } from '../support/serve-process.ts';

const needed = ASSETS === undefined || !hasKubectl ? 'KUBEBUILDER_ASSETS and kubectl are needed' : false;

const MERGE = { 'content-type': 'application/merge-patch+json' };
const ADMISSION = 'admissionregistration.k8s.io/v1';
const SPEC = {
  scc: { mode: 'enforce', exemptNamespaces: ['kube-system', 'legacy'] },
  podSecurity: { defaults: { enforce: 'baseline' }, exemptions: { usernames: ['deployer'] } },
  webhooks: { management: 'static', timeoutSeconds: 7 },
};
const LABELS = { 'example.com/team': 'platform' };
const CONFIGURATION = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';

/** A fail-closed webhook that matches the pods of the replicas. */
const OTHER_PRODUCT = {
  apiVersion: ADMISSION,
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'policy' },
  webhooks: [
    {
      name: 'policy.example.com',
      clientConfig: { url: 'https://127.0.0.1:1' },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      namespaceSelector: { matchLabels: LABELS },
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
    },
  ],
};

/** The cases delete these objects, including their user-defined labels. */
const PLAIN: readonly string[] = [
  'MutatingWebhookConfiguration zz.portcullis.dev',
  'CustomResourceDefinition psaenforcementconfigs.config.openshift.io',
  'ClusterRole portcullis-approve-exceptions',
  'ClusterRole portcullis-view',
  'ServiceAccount portcullis',
];

/** Returns the objects of an installation with a different image and number of replicas. */
function customized(objects: readonly JsonObject[]): readonly JsonObject[] {
  return objects.map((object) => {
    if (object['kind'] !== 'Deployment') return object;
    const text = JSON.stringify(object);
    const changed = text.replace(/"image":"[^"]+"/, '"image":"registry.example.com/p:9"');
    return JSON.parse(changed.replace(/"replicas":3/, '"replicas":5')) as JsonObject;
  });
}

/** Adds user-defined labels and annotations to the objects of an installation. */
async function label({ admin }: ControlPlane, objects: readonly JsonObject[]): Promise<void> {
  const metadata = { labels: LABELS, annotations: { 'example.com/ticket': 'OPS-1' } };
  for (const object of objects) {
    if (PLAIN.includes(`${String(object['kind'])} ${String(objectMetadata(object)['name'])}`)) continue;
    const { path } = await resolvePaths(admin, object);
    const answer = await admin.send('PATCH', `${path}?fieldManager=kubectl-label`, { metadata }, MERGE);
    assert.equal(answer.status, 200, answer.text);
  }
}

/** Starts a control plane, and provides `portcullis` as a shell command. */
async function startShell() {
  const plane = await startControlPlane();
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const folder = join(plane.folder, 'bin');
  await mkdir(folder);
  await writeFile(join(folder, 'portcullis'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(join(folder, 'portcullis'), 0o755);
  const env = {
    ...process.env,
    KUBECONFIG: kubeconfig,
    KUBE_EDITOR: 'sed -i "/^  rollout:/,/phase:/d"',
    PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`,
  };
  const execute = (command: string): void => {
    const { status, stderr } = spawnSync('sh', ['-c', command], { env, encoding: 'utf8', timeout: 120_000 });
    assert.equal(status, 0, `${command}\n${stderr}`);
  };
  const diagnose = async (): Promise<readonly PrintedFinding[]> => {
    const { stdout, stderr } = await runProgram(['doctor', '-o', 'json'], { env: { KUBECONFIG: kubeconfig } });
    assert.equal(stderr, '');
    const { findings } = JSON.parse(stdout) as { readonly findings: readonly PrintedFinding[] };
    return findings.filter(({ severity }) => severity === 'problem' || severity === 'warning');
  };
  return { plane, execute, diagnose };
}

type Shell = Awaited<ReturnType<typeof startShell>>;

/** Returns the content of objects that neither API servers nor replicas change. */
async function readAll({ admin }: ControlPlane, objects: readonly JsonObject[]): Promise<ReadonlyMap<string, unknown>> {
  const settings = {
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
  };
  const contents = new Map<string, unknown>();
  for (const object of [...objects, settings]) {
    const { path } = await resolvePaths(admin, object);
    const answer = await admin.send('GET', path);
    contents.set(path, answer.status === 200 ? content(responseObject(answer)) : answer.status);
  }
  for (const resource of ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations']) {
    for (const object of responseItems(await admin.send('GET', `/apis/${ADMISSION}/${resource}`))) {
      contents.set(`${resource} ${String(objectMetadata(object)['name'])}`, content(object));
    }
  }
  return contents;
}

/** Removes the fields that API servers set, and sorts webhooks and rules, whose order is irrelevant. */
function content(object: JsonObject): JsonObject {
  const { name, namespace, labels, annotations } = objectMetadata(object);
  const { webhooks, rules, ...rest } = object;
  const byName = (a: unknown, b: unknown): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
  const kept = Object.entries(rest).filter(([field]) => !['status', 'apiVersion', 'kind'].includes(field));
  return {
    ...Object.fromEntries(kept),
    metadata: { name, namespace, labels, annotations },
    ...(Array.isArray(webhooks) ? { webhooks: webhooks.toSorted(byName) } : {}),
    ...(Array.isArray(rules) ? { rules: grants(rules) } : {}),
  };
}

/** Returns a text for each permission. */
function grants(rules: readonly unknown[]): readonly string[] {
  return rules
    .filter(isObject)
    .flatMap(({ apiGroups, resources, nonResourceURLs, verbs, resourceNames }) => [
      ...product([apiGroups, resources ?? nonResourceURLs, verbs, resourceNames ?? ['']]),
    ])
    .toSorted();
}

function product(lists: readonly unknown[]): readonly string[] {
  return lists.reduce<readonly string[]>(
    (texts, list) =>
      texts.flatMap((text) => ((list as readonly string[] | undefined) ?? ['']).map((one) => `${text} ${one}`)),
    [''],
  );
}

const APPLY =
  /^portcullis install \| kubectl apply --server-side --force-conflicts -l 'app\.kubernetes\.io\/component!=admission' -f - # /m;

interface Repair {
  readonly name: string;
  readonly skip?: string | false;
  /** A text that the fix must contain. */
  readonly fix: RegExp;
  damage(): Promise<unknown>;
  /** Checks the result of the fix, and removes the remaining objects of the case. */
  verify?(): Promise<unknown>;
}

/** Executes all fixes until there are no findings. Returns the commands. */
async function repair(shell: Shell): Promise<string> {
  const executed: string[] = [];
  for (let round = 0; round < 3; round++) {
    const findings = await shell.diagnose();
    if (findings.length === 0) break;
    for (const command of new Set(findings.map((one) => one.fix ?? ''))) {
      shell.execute(command);
      executed.push(command);
    }
  }
  return executed.join('\n');
}

/** Damages the installation, executes all fixes, and compares the objects with their previous state. */
async function checkRepair(
  shell: Shell,
  objects: readonly JsonObject[],
  { fix, damage, verify }: Repair,
): Promise<void> {
  const before = await readAll(shell.plane, objects);
  await damage();
  assert.match(await repair(shell), fix);
  await verify?.();
  assert.deepEqual(await shell.diagnose(), []);
  assert.deepEqual(await readAll(shell.plane, objects), before);
}

suite('the commands of doctor fix an installation whose webhooks have a URL:', { skip: needed }, () => {
  let shell: Shell;
  let system: System;
  let plane: ControlPlane;
  before(async () => {
    shell = await startShell();
    plane = shell.plane;
    const objectsFor = (port: number): readonly JsonObject[] => customized(localObjects(port, { policy: SPEC }));
    system = await createSystem(plane, { objectsFor });
    await eventually(() => system.install(), 30_000);
    await label(plane, system.objects);
    shell.execute('kubectl -n portcullis set resources deployment/portcullis --limits=memory=1Gi');
    await system.add(2);
    await system.configure(SPEC);
  });
  after(async () => {
    await system.stop().finally(() => plane.stop());
  });

  const path = (kind: string, name: string): string => `/apis/${ADMISSION}/${kind.toLowerCase()}s/${name}`;
  const VALIDATING = path('ValidatingWebhookConfiguration', 'portcullis.dev');
  const send = async (method: string, target: string, body?: unknown): Promise<void> => {
    const answer = await plane.admin.send(method, target, body, method === 'PATCH' ? MERGE : {});
    assert.ok(answer.status < 300, answer.text);
  };
  /** Changes the webhooks of a configuration. */
  const change = async (
    target: string,
    edit: (webhooks: readonly JsonObject[]) => readonly JsonObject[],
  ): Promise<void> => {
    const { webhooks } = responseObject(await plane.admin.send('GET', target));
    await send('PATCH', target, { webhooks: edit(webhooks as readonly JsonObject[]) });
  };
  const POLICY = path('ValidatingWebhookConfiguration', 'policy');
  const rbac = (kind: string, name: string): string => `/apis/rbac.authorization.k8s.io/v1/${kind}s/${name}`;

  test('the unchanged installation has no problems', async () => {
    await eventually(async () => assert.deepEqual(await shell.diagnose(), []), 60_000);
  });

  const REPAIRS: readonly Repair[] = [
    {
      name: 'webhook configurations that were changed are restored',
      fix: APPLY,
      async damage() {
        await send('DELETE', path('MutatingWebhookConfiguration', 'zz.portcullis.dev'));
        await change(VALIDATING, (webhooks) => webhooks.filter(({ name }) => name !== 'connect.pods.portcullis.dev'));
        await send('PATCH', VALIDATING, { metadata: { labels: { 'app.kubernetes.io/part-of': null } } });
        await change(VALIDATING, ([first, ...rest]) => {
          const url = `https://127.0.0.1:${system.port}/x`;
          const clientConfig = { ...(first?.['clientConfig'] as JsonObject), url };
          const selectors = { namespaceSelector: {}, matchConditions: [] };
          return [{ ...first, ...selectors, clientConfig, failurePolicy: 'Ignore', timeoutSeconds: 29 }, ...rest];
        });
      },
    },
    {
      name: 'an additional webhook is deleted',
      fix: /^kubectl patch validatingwebhookconfiguration portcullis\.dev -p '.*"\$patch":"delete"/m,
      damage: () => change(VALIDATING, (webhooks) => [{ ...webhooks[0], name: 'old.portcullis.dev' }, ...webhooks]),
    },
    {
      name: 'a copy of a configuration is deleted',
      fix: /^kubectl delete --ignore-not-found validatingwebhookconfigurations\/copy$/m,
      damage: () =>
        create(plane.admin, {
          apiVersion: ADMISSION,
          kind: 'ValidatingWebhookConfiguration',
          metadata: { name: 'copy', labels: { 'app.kubernetes.io/part-of': 'portcullis' } },
        }),
    },
    {
      name: 'break-glass is turned off',
      fix: /^portcullis break-glass off/m,
      damage() {
        shell.execute('portcullis break-glass on --reason=test');
        return Promise.resolve();
      },
    },
    {
      name: 'a deleted service account, permissions and CRDs are created',
      fix: APPLY,
      async damage() {
        const target = rbac('clusterrole', 'portcullis');
        const { rules } = responseObject(await plane.admin.send('GET', target));
        await send('PATCH', target, { rules: (rules as readonly JsonObject[]).slice(1) });
        await send('PATCH', rbac('clusterrolebinding', 'portcullis'), { subjects: [] });
        shell.execute('kubectl delete crd psaenforcementconfigs.config.openshift.io');
        shell.execute('kubectl delete clusterrole portcullis-view portcullis-approve-exceptions');
        shell.execute('kubectl delete serviceaccount portcullis -n portcullis');
      },
    },
    {
      name: 'permissions for changed settings are created',
      fix: /^kubectl delete --ignore-not-found clusterroles\/portcullis-old/m,
      damage: () =>
        create(plane.admin, {
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'ClusterRole',
          metadata: { name: 'portcullis-old', labels: { 'app.kubernetes.io/part-of': 'portcullis' } },
        }),
    },
    {
      name: 'a webhook of another product no longer prevents the replicas from starting',
      fix: /^kubectl patch validatingwebhookconfiguration policy -p \S+"values":\["portcullis"\]/m,
      damage: () => create(plane.admin, OTHER_PRODUCT),
      async verify() {
        const { webhooks } = responseObject(await plane.admin.send('GET', POLICY));
        const [webhook] = webhooks as readonly JsonObject[];
        const matchExpressions = [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['portcullis'] }];
        assert.deepEqual(webhook?.['namespaceSelector'], { matchLabels: LABELS, matchExpressions });
        await send('DELETE', POLICY);
      },
    },
    {
      name: 'policies left behind by an installation without a server are deleted',
      skip: withoutPolicies,
      fix: /^kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings -l /m,
      async damage() {
        await system.configure({ ...SPEC, podSecurity: { defaults: { enforce: 'restricted' } } });
        const set =
          "--set=podSecurity.defaults.enforce=restricted --set='podSecurity.exemptions.namespaces=[kube-system]'";
        shell.execute(`portcullis install --without-server --for-kubernetes=1.35 ${set} | kubectl apply -f -`);
      },
      async verify() {
        const policies = `/apis/${ADMISSION}/validatingadmissionpolicies`;
        const names = responseItems(await plane.admin.send('GET', policies)).map(
          (item) => objectMetadata(item)['name'],
        );
        assert.deepEqual(names, [
          'portcullis-exceptions',
          'portcullis-grants',
          'portcullis-service-account',
          'portcullis-settings',
        ]);
        await system.configure(SPEC);
      },
    },
    {
      name: 'a namespace for networking is exempted',
      fix: /^kubectl label namespace calico-system portcullis\.dev\/admission=fail-open --overwrite # only if /m,
      damage: () => send('POST', '/api/v1/namespaces', { metadata: { name: 'calico-system' } }),
    },
  ];
  for (const one of REPAIRS) test(one.name, { skip: one.skip ?? false }, () => checkRepair(shell, system.objects, one));

  test('nothing is registered while no replica responds', async () => {
    const registered = system.objects.filter(({ kind }) => String(kind).endsWith('WebhookConfiguration'));
    // A recreated configuration has no user-defined labels.
    await send('DELETE', VALIDATING);
    assert.match(await repair(shell), APPLY);
    const before = await readAll(plane, registered);
    await system.retire();
    await send('DELETE', VALIDATING);
    for (const { check, fix = '' } of await shell.diagnose()) {
      if (check === 'webhooks') assert.match(fix, /^# first fix the problems that these checks report: replicas/);
      shell.execute(fix);
    }
    assert.equal((await plane.admin.send('GET', VALIDATING)).status, 404);
    await system.add(1);
    await repair(shell);
    assert.deepEqual(await readAll(plane, registered), before);
  });

  test('webhooks that the leader manages do not change', async () => {
    await system.configure({ ...SPEC, webhooks: { management: 'managed' } });
    // The manifests do not contain permissions for this configuration.
    await eventually(async () => {
      const findings = await shell.diagnose();
      for (const { fix = '' } of findings.filter(({ check }) => check === 'installation')) shell.execute(fix);
      assert.deepEqual(findings, []);
    }, 60_000);
    await system.retire();
    await send('DELETE', VALIDATING);
    const before = await readAll(plane, system.objects);
    const findings = await shell.diagnose();
    const { fix = '' } = findings.find(({ check }) => check === 'webhooks') ?? {};
    assert.match(fix, /^# first fix the problems that these checks report: .*leases/);
    for (const one of findings) shell.execute(one.fix ?? '');
    assert.deepEqual(await readAll(plane, system.objects), before);
    await system.add(1);
    await eventually(async () => assert.deepEqual(await shell.diagnose(), []), 60_000);
  });

  test('SCC admission is turned off on a cluster that has SCC admission of its own', async () => {
    const group = 'route.openshift.io';
    const names = { plural: 'routes', singular: 'route', kind: 'Route', listKind: 'RouteList' };
    const schema = { openAPIV3Schema: { type: 'object' } };
    await create(plane.admin, {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `routes.${group}`, annotations: { 'api-approved.kubernetes.io': 'unapproved' } },
      spec: { group, names, scope: 'Namespaced', versions: [{ name: 'v1', served: true, storage: true, schema }] },
    });
    await eventually(async () => {
      const found = (await shell.diagnose()).find(({ object }) => object === 'SCC admission');
      assert.match(found?.fix ?? '', /^kubectl patch portcullisconfiguration cluster --type=merge -p '\S+'$/);
      shell.execute(found?.fix ?? '');
    }, 15_000);
    const settings = responseObject(
      await plane.admin.send('GET', '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster'),
    );
    assert.deepEqual(settings['spec'], {
      ...SPEC,
      scc: { ...SPEC.scc, mode: 'off' },
      webhooks: { management: 'managed' },
    });
    await eventually(async () => assert.ok(!(await shell.diagnose()).some(({ object }) => object === 'SCC admission')));
  });
});

suite('the commands of doctor fix an installation whose webhooks have a Service:', { skip: needed }, () => {
  let shell: Shell;
  let objects: readonly JsonObject[] = [];
  const SETTINGS: ManifestSettings = {
    ...defaultSettings(VERSION),
    ...PROFILES.scc,
    policy: { webhooks: { management: 'static' }, scc: { mode: 'report' } },
  };
  before(async () => {
    shell = await startShell();
    objects = customized(JSON.parse(JSON.stringify(buildManifests(SETTINGS))) as JsonObject[]);
    await eventually(() => apply(shell.plane.admin, objects), 30_000);
    await label(shell.plane, objects);
  });
  after(() => shell.plane.stop());
  const fixes = async (object: RegExp): Promise<readonly string[]> =>
    (await shell.diagnose()).filter((one) => object.test(one.object)).map(({ fix = '' }) => fix);
  const find = (kind: string): JsonObject => objects.find((one) => one['kind'] === kind) ?? {};

  test('nothing is registered while the Service has no ready endpoint', async () => {
    const spec = {
      apiVersion: 'config.portcullis.dev/v1alpha1',
      kind: 'PortcullisConfiguration',
      spec: SETTINGS.policy,
    };
    await create(shell.plane.admin, { ...spec, metadata: { name: 'cluster' } });
    await remove(shell.plane.admin, find('ValidatingWebhookConfiguration'));
    const [fix = ''] = await fixes(/^ValidatingWebhookConfiguration/);
    assert.match(fix, /^# first fix the problems that these checks report: replicas/);
  });

  test('a configuration is created for the Service', async () => {
    const { admin } = shell.plane;
    const { path } = await resolvePaths(admin, find('Deployment'));
    const status = { replicas: 5, readyReplicas: 5 };
    const answer = await admin.send('PATCH', `${path}/status`, { status }, MERGE);
    assert.equal(answer.status, 200, answer.text);
    const labels = { 'kubernetes.io/service-name': 'portcullis' };
    await create(admin, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'portcullis-1', namespace: 'portcullis', labels },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.7'] }],
      ports: [],
    });
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    await create(admin, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'portcullis', namespace: 'portcullis' },
      spec: { holderIdentity: 'leader', leaseDurationSeconds: 3600, renewTime },
    });
    const before = await readAll(shell.plane, objects);
    const [fix = ''] = await fixes(/^ValidatingWebhookConfiguration/);
    assert.match(fix, APPLY);
    shell.execute(fix);
    assert.deepEqual(await fixes(/^ValidatingWebhookConfiguration/), []);
    const created = await readAll(shell.plane, objects);
    const changed = [...created]
      .filter(([name, one]) => !isDeepStrictEqual(one, before.get(name)))
      .map(([name]) => name.replace(/^.*[/ ]/, ''));
    assert.deepEqual(changed, ['portcullis.dev', 'portcullis.dev']);
  });

  test('a feature in the settings is installed, and its objects are deleted after it is removed from the settings', async () => {
    const { admin } = shell.plane;
    const { path } = await resolvePaths(admin, find('Deployment'));
    const readArguments = async (): Promise<string> => {
      const { spec } = responseObject(await admin.send('GET', path)) as Kinds['Deployment'];
      return (spec?.template.spec?.containers[0]?.args ?? []).filter((one) => one.startsWith('--features')).join();
    };
    await admin.send('PATCH', CONFIGURATION, { spec: { olm: {} } }, MERGE);
    const [fix = ''] = await fixes(/^PortcullisConfiguration/);
    assert.equal(fix, `kubectl patch portcullisconfiguration cluster --type=merge -p '{"spec":{"olm":null}}'`);
    shell.execute('portcullis install --olm | kubectl apply --server-side -f -');
    assert.deepEqual(await fixes(/^(?:PortcullisConfiguration|roles|service account)/), []);
    assert.equal(await readArguments(), '--features=rollout,scc,olm');
    await admin.send('PATCH', CONFIGURATION, { spec: { olm: null } }, MERGE);
    shell.execute('portcullis install --olm=false | kubectl apply --server-side -f -');
    assert.equal(await readArguments(), '--features=rollout,scc');
    const [deletion = ''] = await fixes(/^roles/);
    assert.match(deletion, /^kubectl delete --ignore-not-found clusterrolebindings\/portcullis-olm /);
    shell.execute(deletion);
    assert.deepEqual(await fixes(/^roles/), []);
  });

  test('a single replica is scaled up', async () => {
    const before = await readAll(shell.plane, objects);
    const { path } = await resolvePaths(shell.plane.admin, find('Deployment'));
    await shell.plane.admin.send('PATCH', path, { spec: { replicas: 1 } }, MERGE);
    const [fix = ''] = await fixes(/^Deployment/);
    assert.equal(fix, 'kubectl -n portcullis scale deployment portcullis --replicas=3');
    shell.execute(fix);
    assert.deepEqual(
      (await fixes(/^Deployment/)).filter((one) => one.includes('scale')),
      [],
    );
    await shell.plane.admin.send('PATCH', path, { spec: { replicas: 5 } }, MERGE);
    assert.deepEqual(await readAll(shell.plane, objects), before);
  });
});
