import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { Io } from '../../src/cli/command.ts';
import { type Inventory, type InventoryValues, readInventory } from '../../src/cli/inventory/inventory.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { getApiVersion, RESOURCES } from '../../src/kube/resources.ts';
import type { KubeObject } from '../../src/kube/types.ts';
import { sccGrants } from '../../src/views/scc-grants.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const ALL = Object.keys(RESOURCES) as readonly Kind[];
const NOTHING = { filename: [], kubeconfig: undefined, context: undefined };

function ioWith(stdin = '', env: Io['env'] = {}): Io {
  const output = { write: () => undefined };
  const { signal } = new AbortController();
  return { stdin: Readable.from([stdin]), stdout: output, text: output, stderr: output, env, signal };
}

async function readText(text: string, values: Partial<InventoryValues> = {}, kinds = ALL): Promise<Inventory> {
  return await readInventory({ ...NOTHING, filename: ['-'], ...values }, ioWith(text), { kinds });
}

const getNames = (objects: readonly KubeObject[]): string[] =>
  objects.map(
    ({ metadata }) => `${metadata?.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata?.name}`,
  );

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: null}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {serviceAccountName: web, containers: [{name: c, image: i}]}
`;

const POD = 'apiVersion: v1\nkind: Pod\n';
const SPEC = 'spec: {containers: [{name: c, image: i}]}\n';

const RANGED = `apiVersion: v1
kind: Namespace
metadata:
  name: bank
  annotations:
    openshift.io/sa.scc.uid-range: 1000000000/10000
    openshift.io/sa.scc.supplemental-groups: 1000000000/10000
    openshift.io/sa.scc.mcs: s0:c1,c0
`;

describe('objects in manifests', () => {
  test('get missing objects by default, which are listed as assumptions', async () => {
    const { store, source, assumptions, namespace, user } = await readText(`${DEPLOYMENT}---
apiVersion: v1
kind: Pod
metadata: {generateName: once-}
spec: {containers: [{name: c, image: i}]}
---
${RANGED}`);
    assert.deepEqual([source, namespace, user], ['manifests', 'default', undefined]);
    assert.equal(store.synced(), true);
    assert.deepEqual(assumptions, [
      'the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings',
      'namespaces: default, shop',
      'service accounts: default/default, shop/web',
      'UID ranges of namespaces: default, shop',
    ]);
    assert.deepEqual(getNames(store.list('Namespace')), ['bank', 'default', 'shop']);
    assert.deepEqual(store.get('Namespace', 'shop')?.metadata?.annotations, {
      'openshift.io/sa.scc.uid-range': '1000020000/10000',
      'openshift.io/sa.scc.supplemental-groups': '1000020000/10000',
      'openshift.io/sa.scc.mcs': 's0:c5,c0',
    });
    assert.equal(store.list('SecurityContextConstraints').length, 13);
    const pod = store.get('Pod', 'once-', 'default');
    assert.equal(pod?.spec?.serviceAccountName, 'default');
    assert.equal(pod.spec.dnsPolicy, 'ClusterFirst');
    assert.equal(pod.spec.volumes?.length, 1);
    assert.equal(store.get('Deployment', 'web', 'shop')?.spec?.revisionHistoryLimit, 10);
  });

  test('get no additional objects if they describe a complete cluster', async () => {
    const { assumptions, store } = await readText(`${RANGED}---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: bank}
automountServiceAccountToken: false
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: bank}, spec: {containers: [{name: c, image: i}]}}
- {apiVersion: security.openshift.io/v1, kind: SecurityContextConstraints, metadata: {name: anyuid, namespace: x}}
- {apiVersion: example.com/v1, kind: Deployment, metadata: 5}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
`);
    assert.deepEqual(assumptions, []);
    assert.deepEqual(getNames(store.list('SecurityContextConstraints')), ['anyuid']);
    assert.deepEqual(store.get('SecurityContextConstraints', 'anyuid')?.volumes?.includes('secret'), true);
    assert.equal(store.get('Pod', 'a', 'bank')?.spec?.volumes, undefined);
    assert.deepEqual(store.list('Deployment'), []);
  });

  test('with a custom SCC are combined with the standard SCCs, which replace no object', async () => {
    const { assumptions, store } = await readText(`apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: own}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:openshift:scc:restricted-v2}
roleRef: {kind: ClusterRole, name: cluster-admin}
`);
    assert.deepEqual(assumptions, [
      'the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings',
      'ClusterRole cluster-admin',
    ]);
    assert.equal(store.list('SecurityContextConstraints').length, 14);
    assert.equal(store.get('ClusterRoleBinding', 'system:openshift:scc:restricted-v2')?.roleRef.name, 'cluster-admin');
  });

  test('without a namespace get the namespace from --namespace', async () => {
    const text = `${POD}metadata: {name: a}\n${SPEC}`;
    const { store, namespace } = await readText(text, { namespace: 'shop' });
    assert.deepEqual([getNames(store.list('Pod')), namespace], [['shop/a'], 'shop']);
  });

  test('get missing objects only of the required kinds', async () => {
    const { assumptions } = await readText(DEPLOYMENT, {}, ['SecurityContextConstraints']);
    assert.equal(assumptions.length, 1);
  });

  test('are abbreviated in the list of assumptions if there are many namespaces', async () => {
    const pods = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(
      (name) => `${POD}metadata: {name: a, namespace: ${name}}\n${SPEC}`,
    );
    assert.equal((await readText(pods.join('---\n'))).assumptions[1], 'namespaces: a, b, c, d, e and 2 more');
  });

  const undecodable = 'API servers cannot decode the Pod: ';
  const unnamed =
    'API servers reject the Pod: metadata.name: Required value: name or generateName is required. Set metadata.name.';
  const unregistered = (kind: string, version: string) => `no kind "${kind}" is registered for version "${version}"`;
  const wrong: readonly (readonly [name: string, text: string, message: string])[] = [
    [
      'that cannot be parsed',
      'a: [\n---\n- 1\n',
      'stdin:2:1: did not find expected node content\n' + 'stdin:3:1: expected an object with apiVersion and kind',
    ],
    ['that are missing because the input is empty', '', 'no objects in standard input'],
    [
      'of a removed API version',
      'apiVersion: extensions/v1beta1\nkind: Deployment\n',
      `stdin:1:1: ${unregistered('Deployment', 'extensions/v1beta1')}`,
    ],
    [
      'of the wrong API group',
      'apiVersion: v1\nkind: SecurityContextConstraints\n',
      `stdin:1:1: ${unregistered('SecurityContextConstraints', 'v1')}`,
    ],
    ['without a name', `${POD}metadata: {}\n${SPEC}`, `stdin:3:1: ${unnamed}`],
    [
      'with metadata of the wrong type',
      `${POD}metadata: []\n`,
      `stdin:3:1: ${undecodable}metadata: Invalid value: []: must be an object. Use a value of the required type.`,
    ],
    [
      'with a name of the wrong type',
      `${POD}metadata:\n  name: 5\n`,
      `stdin:4:3: ${undecodable}metadata.name: Invalid value: 5: must be a string. Put the value in quotes.`,
    ],
    [
      'with labels of the wrong type',
      `${POD}metadata:\n  name: a\n  labels: {a: 1}\n`,
      `stdin:5:12: ${undecodable}metadata.labels.a: Invalid value: 1: must be a string. Put the value in quotes.`,
    ],
    [
      'with owner references of the wrong type',
      `${POD}metadata:\n  name: a\n  ownerReferences: [a]\n`,
      `stdin:5:21: ${undecodable}metadata.ownerReferences[0]: Invalid value: "a": must be an object. Use a value of the required type.`,
    ],
    ['with several errors', `${POD}${SPEC}---\n${POD}${SPEC}`, `stdin:1:1: ${unnamed}\nstdin:5:1: ${unnamed}`],
  ];
  for (const [name, text, message] of wrong) {
    test(`${name} are rejected`, () => assert.rejects(readText(text), { name: 'UserError', message }));
  }

  test('with arbitrary fields are read, or rejected with their position', async () => {
    const value = fc.oneof(fc.constantFrom('a', '', null, {}, []), fc.jsonValue({ maxDepth: 3 }));
    const part = (...fields: readonly string[]): fc.Arbitrary<unknown> =>
      fc.oneof(value, fc.record(Object.fromEntries(fields.map((field) => [field, value])), { requiredKeys: [] }));
    const object = fc.constantFrom(...ALL).chain((kind) =>
      fc.record(
        {
          apiVersion: fc.constant(getApiVersion(kind)),
          kind: fc.constant(kind),
          metadata: fc.record(
            {
              name: fc.constantFrom('a', '__proto__'),
              namespace: fc.constantFrom('a', 'b'),
              annotations: part('a'),
              labels: value,
            },
            { requiredKeys: ['name'] },
          ),
          spec: part('template', 'containers', 'serviceAccountName', 'jobTemplate', 'volumes'),
          rules: value,
          subjects: value,
          roleRef: part('kind', 'name'),
          volumes: value,
          users: value,
        },
        { requiredKeys: ['apiVersion', 'kind', 'metadata'] },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(object, { maxLength: 5 }), async (items) => {
        try {
          const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
          const { store } = await readText(text);
          await runProgram(['scc', 'pods', '-f', '-'], { stdin: text });
          for (const scc of store.list('SecurityContextConstraints')) sccGrants(store, scc);
        } catch (error) {
          assert.match(String(error), /^UserError: (?:stdin:\d+:\d+: |no objects in)/);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('the cluster that a command reads', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
  });
  after(async () => await cluster.stop());

  test('is completed with the standard SCCs if it has no SCCs', async () => {
    const { store, source, assumptions, namespace, user } = await readInventory({ ...NOTHING, kubeconfig }, ioWith(), {
      kinds: ALL,
      gaps: 'fill',
    });
    assert.deepEqual([source, namespace, user?.username], ['cluster', 'default', 'admin']);
    assert.deepEqual(assumptions, [
      'the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings',
      'UID ranges of namespaces: default, kube-node-lease, kube-public, kube-system',
      'no rangeallocations.security.internal.openshift.io: the cluster does not serve them',
      'no psaenforcementconfigs.config.openshift.io: the cluster does not serve them',
      'no portcullisconfigurations.config.portcullis.dev: the cluster does not serve them',
      'no podsecurityexceptions.policy.portcullis.dev: the cluster does not serve them',
      'no clusterserviceversions.operators.coreos.com: the cluster does not serve them',
      'no catalogsources.operators.coreos.com: the cluster does not serve them',
      'no nodes.config.openshift.io: the cluster does not serve them',
      'no machineconfigpools.machineconfiguration.openshift.io: the cluster does not serve them',
      'no reports.openreports.io: the cluster does not serve them',
      'no clusterreports.openreports.io: the cluster does not serve them',
      'no policyreports.wgpolicyk8s.io: the cluster does not serve them',
      'no clusterpolicyreports.wgpolicyk8s.io: the cluster does not serve them',
    ]);
    assert.equal(store.list('SecurityContextConstraints').length, 13);
  });

  test('is the cluster in KUBECONFIG', async () => {
    const { store } = await readInventory(NOTHING, ioWith('', { KUBECONFIG: kubeconfig }), {
      kinds: ['Namespace', 'SecurityContextConstraints'],
    });
    assert.deepEqual(store.get('Namespace', 'default')?.metadata?.annotations, undefined);
    assert.deepEqual(store.list('SecurityContextConstraints'), []);
  });

  test('is read only for the required kinds and namespace', async () => {
    const needs = { kinds: ['Namespace', 'ServiceAccount'] as const, only: 'kube-public' };
    const { store } = await readInventory({ ...NOTHING, kubeconfig }, ioWith(), needs);
    assert.deepEqual(getNames(store.list('Namespace')), ['kube-public']);
    assert.deepEqual(getNames(store.list('ServiceAccount')), ['kube-public/default']);
  });

  test('is read including the pod templates of the resources in the settings', async () => {
    const send = async (method: string, path: string, object: object): Promise<void> => {
      const { status, text } = await cluster.admin.send(method, path, object);
      assert.equal(status, 201, text);
    };
    const definition = (plural: string, kind: string, scope: string): object => ({
      metadata: { name: `${plural}.argoproj.io` },
      spec: {
        group: 'argoproj.io',
        scope,
        names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        ],
      },
    });
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    await send('POST', definitions, definition('rollouts', 'Rollout', 'Namespaced'));
    await send('POST', definitions, definition('clusterjobs', 'ClusterJob', 'Cluster'));
    const rollouts = '/apis/argoproj.io/v1/namespaces/default/rollouts';
    const rollout = (name: string, spec: object): object => ({
      apiVersion: 'argoproj.io/v1',
      kind: 'Rollout',
      metadata: { name },
      spec,
    });
    await eventually(() => send('POST', rollouts, rollout('web', { template: { spec: { hostPID: true } } })));
    await send('POST', rollouts, rollout('odd', { container: { image: 'i', command: ['c'] } }));
    const named = ['rollouts', 'clusterjobs', 'absent'].map((resource) => ({
      group: 'argoproj.io',
      version: '*',
      resource,
    }));
    const read = async (config: string) =>
      await readInventory({ ...NOTHING, kubeconfig: config }, ioWith(), {
        kinds: ['Namespace'],
        workloadResources: () => Promise.resolve([...named, { group: 'absent.io', version: 'v1', resource: 'things' }]),
      });
    const { customSources, assumptions } = await read(kubeconfig);
    assert.deepEqual(
      customSources.map(({ kind, object, template }) => [kind, ...getNames([object]), template.join('.')]),
      [['Rollout', 'default/web', 'spec.template']],
    );
    assert.deepEqual(assumptions, [
      'no clusterjobs.argoproj.io: they are cluster-scoped, and the namespace of their pods is unknown',
      'no absent.argoproj.io: the cluster does not serve them',
      'no things.absent.io: the cluster does not serve them',
      'no pods for containers outside pod templates: Rollout default/odd (spec.container)',
    ]);
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    const metadata = { name: 'viewer' };
    await send('POST', `${rbac}/clusterroles`, {
      metadata,
      rules: [{ apiGroups: [''], resources: ['namespaces'], verbs: ['list'] }],
    });
    await send('POST', `${rbac}/clusterrolebindings`, {
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'viewer' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'viewer' }],
    });
    const restricted = await read(await cluster.kubeconfig('viewer'));
    assert.ok(restricted.assumptions.includes('rollouts.argoproj.io not read: the user is not allowed to list them'));
    assert.deepEqual(restricted.customSources, []);
  });
});
