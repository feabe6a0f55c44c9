import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const NAME = 'system:openshift:scc:anyuid';
const ROLE = `clusterrole.rbac.authorization.k8s.io/${NAME}`;
const BINDING = `rolebinding.rbac.authorization.k8s.io/${NAME}`;
const apiGroup = 'rbac.authorization.k8s.io';
const BUILDER = { kind: 'ServiceAccount', name: 'builder', namespace: 'shop' };
const ALICE = { apiGroup, kind: 'User', name: 'alice' };

describe('scc grant and scc revoke', () => {
  let cluster: TestCluster;
  let kubeconfig = '';
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await installStandardSccs(cluster.cluster);
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await cluster.admin.send('POST', '/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'builder' } });
    await cluster.admin.send('DELETE', `${RBAC}/clusterroles/${NAME}`);
  });
  after(async () => await cluster.stop());

  const run = (args: string) => runProgram(['scc', ...args.split(' '), '--kubeconfig', kubeconfig]);
  const read = async (path: string): Promise<JsonObject | undefined> => {
    const { status, body } = await cluster.admin.send('GET', `${RBAC}/${path}/${NAME}`);
    return status === 200 ? (body as JsonObject) : undefined;
  };

  /**
   * Steps that change the same cluster. Each step has its arguments, its output, and the subjects of the binding
   * afterwards.
   */
  const steps: readonly (readonly [args: string, stdout: string, scope: string, subjects: readonly object[] | null])[] =
    [
      [
        'grant anyuid -z builder -n shop --dry-run=server',
        `${ROLE} created (server dry run)\n${BINDING} created in namespace shop (server dry run)\n${ROLE} added: "builder" (server dry run)\n`,
        'namespaces/shop/rolebindings',
        null,
      ],
      [
        'grant anyuid -z builder -n shop --dry-run=client -o yaml',
        `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${NAME}
rules:
  - apiGroups:
      - security.openshift.io
    resources:
      - securitycontextconstraints
    resourceNames:
      - anyuid
    verbs:
      - use
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: ${NAME}
  namespace: shop
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ${NAME}
subjects:
  - kind: ServiceAccount
    name: builder
    namespace: shop
`,
        'namespaces/shop/rolebindings',
        null,
      ],
      [
        'grant anyuid -z builder -n shop',
        `${ROLE} created\n${BINDING} created in namespace shop\n${ROLE} added: "builder"\n`,
        'namespaces/shop/rolebindings',
        [BUILDER],
      ],
      [
        'grant anyuid -u system:serviceaccount:shop:builder -u alice -n shop',
        `${BINDING} configured in namespace shop\n${ROLE} added: ["builder" "alice"]\n`,
        'namespaces/shop/rolebindings',
        [BUILDER, ALICE],
      ],
      [
        'grant anyuid -g developers -o name',
        `clusterrolebinding.rbac.authorization.k8s.io/${NAME}\n`,
        'clusterrolebindings',
        [{ apiGroup, kind: 'Group', name: 'developers' }],
      ],
      [
        'revoke anyuid -z builder -n shop --dry-run=client',
        `${BINDING} configured in namespace shop (dry run)\n${ROLE} removed: "builder" (dry run)\n`,
        'namespaces/shop/rolebindings',
        [BUILDER, ALICE],
      ],
      [
        'revoke anyuid -z builder -n shop',
        `${BINDING} configured in namespace shop\n${ROLE} removed: "builder"\n`,
        'namespaces/shop/rolebindings',
        [ALICE],
      ],
      [
        'revoke anyuid -u alice -n shop',
        `${BINDING} deleted from namespace shop\n${ROLE} removed: "alice"\n`,
        'namespaces/shop/rolebindings',
        null,
      ],
    ];
  test('change the same objects as oc adm policy', async () => {
    for (const [args, stdout, path, subjects] of steps) {
      assert.deepEqual(await run(args), { code: 0, stdout, stderr: '' });
      assert.deepEqual((await read(path))?.['subjects'] ?? null, subjects, args);
    }
    assert.deepEqual((await read('clusterroles'))?.['rules'], [
      {
        apiGroups: ['security.openshift.io'],
        resources: ['securitycontextconstraints'],
        resourceNames: ['anyuid'],
        verbs: ['use'],
      },
    ]);
  });

  test('create a separate binding for a grant with an expiry time, which scc who-can lists', async () => {
    const { stdout, stderr } = await run('grant anyuid -z builder -n shop --for 14d');
    const [, name = '', end = ''] =
      /^rolebinding\.\S+\/(portcullis:scc-until:anyuid:(\S+)) created in namespace shop$/m.exec(stdout) ?? [];
    assert.equal(
      stderr,
      `Note: the subjects may use the SCC until ${end}. RBAC lets them pass it on: portcullis audit exemptions lists grants that were created in the meantime\n`,
    );
    const leftMs = Date.parse(end) - Date.now();
    assert.ok(Math.abs(leftMs - 14 * 24 * 3_600_000) < 60_000, stdout);
    const { body } = await cluster.admin.send('GET', `${RBAC}/namespaces/shop/rolebindings/${name}`);
    const { metadata, roleRef, subjects } = body as JsonObject;
    assert.deepEqual((metadata as JsonObject)['annotations'], { 'portcullis.dev/grant-expires-at': end });
    const role = `${NAME}:temporary`;
    assert.deepEqual([roleRef, subjects], [{ apiGroup, kind: 'ClusterRole', name: role }, [BUILDER]]);
    const { rules } = (await cluster.admin.send('GET', `${RBAC}/clusterroles/${role}`)).body as JsonObject;
    assert.deepEqual(rules, [
      {
        apiGroups: ['security.openshift.io'],
        resources: ['securitycontextconstraints'],
        resourceNames: ['anyuid'],
        verbs: ['use'],
      },
      { apiGroups: ['grants.portcullis.dev'], resources: ['temporarygrants'], verbs: ['hold'] },
    ]);
    const listed = await run('who-can anyuid -n shop');
    assert.match(
      listed.stdout,
      new RegExp(
        `^ServiceAccount shop/builder +shop +RoleBinding ${name}, ClusterRole ${NAME}:temporary, until ${end}$`,
        'm',
      ),
    );
    assert.equal((await run('revoke anyuid -z builder -n shop')).code, 0);
    assert.equal((await cluster.admin.send('GET', `${RBAC}/namespaces/shop/rolebindings/${name}`)).status, 404);
  });

  test('revoke every grant that scc who-can lists', async () => {
    const metadata = { name: 'web', namespace: 'shop' };
    const account = { kind: 'ServiceAccount', ...metadata };
    const create = async (path: string, body: object): Promise<void> => {
      const { status, text } = await cluster.admin.send('POST', path, body);
      assert.equal(status, 201, text);
    };
    const rule = { apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'], verbs: ['use'] };
    const bind = (name: string, kind: string, role: string) => ({
      metadata: { name },
      roleRef: { apiGroup, kind, name: role },
      subjects: [account],
    });
    await create('/api/v1/namespaces/shop/serviceaccounts', { metadata });
    await create(`${RBAC}/namespaces/shop/roles`, {
      metadata: { name: 'own' },
      rules: [{ ...rule, resourceNames: ['anyuid'] }],
    });
    await create(`${RBAC}/clusterroles`, { metadata: { name: 'wide' }, rules: [{ ...rule, verbs: ['use', 'get'] }] });
    const planned = 'portcullis:scc:anyuid:web';
    await create(`${RBAC}/namespaces/shop/rolebindings`, bind(planned, 'ClusterRole', NAME));
    // In a RoleBinding, the namespace of a service account is optional.
    const subjects = [{ kind: 'ServiceAccount', name: 'web' }];
    await create(`${RBAC}/namespaces/shop/rolebindings`, { ...bind('own', 'Role', 'own'), subjects });
    await create(`${RBAC}/clusterrolebindings`, bind('all', 'ClusterRole', NAME));
    const SCCS = '/apis/security.openshift.io/v1/securitycontextconstraints';
    await create(`${RBAC}/namespaces/shop/rolebindings`, {
      ...bind('user', 'ClusterRole', NAME),
      subjects: [{ apiGroup, kind: 'User', name: 'system:serviceaccount:shop:web' }],
    });
    const users = ['system:serviceaccount:shop:web', 'carol'];
    const merge = { 'content-type': 'application/merge-patch+json' };
    assert.equal((await cluster.admin.send('PATCH', `${SCCS}/anyuid`, { users }, merge)).status, 200);
    const grants = async (): Promise<readonly string[]> => {
      const lines = (await run('who-can anyuid')).stdout
        .split('\n')
        .filter((line) => / (?:shop\/|system:serviceaccount:shop:)web /.test(line));
      return lines.map((line) => line.replaceAll(/ +/g, ' ').trim());
    };
    assert.deepEqual((await grants()).length, 5);
    const bindings = ['own', planned, 'user'].map(
      (name) => `${BINDING.replace(NAME, name)} deleted from namespace shop\n`,
    );
    const own = 'role.rbac.authorization.k8s.io/own removed: "web"\n';
    assert.deepEqual(await run('revoke anyuid -z web -n shop'), {
      code: 0,
      stdout: `${bindings.join('')}${own}${`${ROLE} removed: "web"\n`.repeat(2)}`,
      stderr: '',
    });
    assert.equal((await cluster.admin.send('GET', `${RBAC}/namespaces/shop/rolebindings/${planned}`)).status, 404);
    const scc = 'securitycontextconstraints.security.openshift.io/anyuid';
    assert.deepEqual(await run('revoke anyuid -u system:serviceaccount:shop:web'), {
      code: 0,
      stdout: `clusterrolebinding.rbac.authorization.k8s.io/all deleted\n${scc} configured\n${ROLE} removed: "web"\n${scc} removed: "web"\n`,
      stderr: '',
    });
    assert.deepEqual(await grants(), []);
    await create(`${RBAC}/namespaces/shop/rolebindings`, bind('wide', 'ClusterRole', 'wide'));
    assert.equal(
      (await run('revoke anyuid -z web -n shop')).stderr,
      `error: role wide also grants other permissions: remove the subjects with kubectl -n shop edit rolebinding wide --kubeconfig=${kubeconfig}\n`,
    );
  });

  test('remove the subjects of a binding that finalizers keep, so that it no longer grants the SCC', async () => {
    const path = `${RBAC}/namespaces/shop/rolebindings/${NAME}`;
    assert.equal((await run('grant anyuid -z builder -n shop')).code, 0);
    const merge = { 'content-type': 'application/merge-patch+json' };
    const patch = (finalizers: readonly string[]) =>
      cluster.admin.send('PATCH', path, { metadata: { finalizers } }, merge);
    assert.equal((await patch(['example.com/keep'])).status, 200);
    assert.deepEqual(await run('revoke anyuid -z builder -n shop'), {
      code: 0,
      stdout: `${BINDING} configured in namespace shop\n${ROLE} removed: "builder"\n`,
      stderr: '',
    });
    assert.deepEqual((await read('namespaces/shop/rolebindings'))?.['subjects'] ?? [], []);
    assert.equal((await patch([])).status, 200);
    assert.equal((await cluster.admin.send('DELETE', path)).status, 200);
  });

  test('report a missing service account', async () => {
    for (const mode of ['--dry-run=client', '--dry-run=none']) {
      const { code, stderr } = await run(`grant anyuid -z nosuch -n shop ${mode}`);
      assert.deepEqual([code, stderr], [0, 'Warning: ServiceAccount "nosuch" not found in namespace shop\n']);
    }
    assert.equal((await run('revoke anyuid -z nosuch -n shop')).stderr, '');
  });

  const rejected: readonly (readonly [args: string, message: string])[] = [
    [
      'grant anyuid',
      "at least one of --user, --group and --serviceaccount is required\nSee 'portcullis scc grant --help' for usage.",
    ],
    [
      'revoke anyuid -u bob -n shop',
      'unable to find target [bob] in the grants of anyuid in namespace shop; see all grants with: portcullis scc who-can anyuid --kubeconfig=KUBECONFIG',
    ],
    [
      'revoke privileged -u bob',
      'unable to find target [bob] in the grants of privileged for all namespaces; see all grants with: portcullis scc who-can privileged --kubeconfig=KUBECONFIG',
    ],
    [
      'grant nonroot -u bob -n default',
      'rolebinding system:openshift:scc:nonroot found for role view, not system:openshift:scc:nonroot',
    ],
  ];
  test('report invalid arguments', async () => {
    const roleRef = { apiGroup, kind: 'ClusterRole', name: 'view' };
    const other = { metadata: { name: 'system:openshift:scc:nonroot' }, roleRef, subjects: [] };
    assert.equal((await cluster.admin.send('POST', `${RBAC}/namespaces/default/rolebindings`, other)).status, 201);
    for (const [args, message] of rejected) {
      const stderr = `error: ${message.replace('KUBECONFIG', kubeconfig)}\n`;
      assert.deepEqual(await run(args), { code: 2, stdout: '', stderr });
    }
    const plugin = await runProgram(['revoke', 'anyuid', '-u', 'bob', '--kubeconfig', kubeconfig], {
      file: 'kubectl-scc',
    });
    assert.match(plugin.stderr, /; see all grants with: kubectl scc who-can anyuid --kubeconfig=\S+\n$/);
    assert.match(
      (await run('grant nothing -u bob')).stderr,
      /^error: SCC "nothing" not found; existing SCCs: anyuid, /,
    );
  });
});

describe('scc create', () => {
  const create = (spec: object, args: readonly string[] = [], securityContext: object = {}) => {
    const containers = [{ name: 'c', image: 'i', securityContext }];
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers, ...spec } };
    return runProgram(['scc', 'create', 'own', 'pod/web', '-n', 'shop', '-f', '-', ...args], {
      stdin: JSON.stringify(pod),
    });
  };
  const OFFLINE = ['--offline', '--dry-run=client'];

  const cases: readonly (readonly [name: string, spec: object, context: object, fields: object])[] = [
    [
      'capabilities',
      {},
      { capabilities: { add: ['NET_ADMIN'] } },
      { allowedCapabilities: ['NET_BIND_SERVICE', 'NET_ADMIN'] },
    ],
    ['a host namespace', { hostPID: true }, { runAsUser: 0 }, { allowHostPID: true, runAsUser: { type: 'RunAsAny' } }],
    [
      'sysctls',
      { securityContext: { sysctls: [{ name: 'kernel.msgmax', value: '1' }] } },
      {},
      { allowedUnsafeSysctls: ['kernel.msgmax'] },
    ],
    [
      'a non-default user and host paths',
      { hostIPC: true, volumes: [{ name: 'v', hostPath: { path: '/v' } }] },
      { runAsUser: 7 },
      { allowHostIPC: true, allowHostDirVolumePlugin: true, runAsUser: { type: 'RunAsAny' } },
    ],
  ];
  for (const [name, spec, context, fields] of cases) {
    test(`prints an SCC that allows ${name}`, async () => {
      const { code, stdout, stderr } = await create(spec, [...OFFLINE, '-o', 'json'], context);
      assert.equal(code, 0, stderr);
      assert.match(stderr, /^Assumed: .*; UID ranges of namespaces: shop\.\n$/);
      const scc = JSON.parse(stdout) as Record<string, unknown>;
      const { metadata, users, groups, priority, allowPrivilegedContainer } = scc;
      const identity = { metadata, users, groups, priority, allowPrivilegedContainer };
      assert.deepEqual(identity, {
        metadata: { name: 'own' },
        users: [],
        groups: [],
        priority: null,
        allowPrivilegedContainer: false,
      });
      assert.deepEqual(Object.fromEntries(Object.keys(fields).map((key) => [key, scc[key]])), fields);
    });
  }

  test('names the correction of the pod without which the copy does not admit it', async () => {
    const sysctls = [{ name: 'net/core/somaxconn', value: '1' }];
    const { stderr } = await create({ securityContext: { sysctls } }, OFFLINE);
    assert.match(
      stderr,
      /^It is a copy of SCC "restricted-v2" with: allowedUnsafeSysctls=\["net.core.somaxconn"\]\nIt admits pod\/web only after you write net.core.somaxconn instead of net\/core\/somaxconn in spec.securityContext.sysctls\[0\].name\nNext: portcullis scc grant own -z default -n shop\n$/m,
    );
  });

  const rejected: readonly (readonly [name: string, spec: object, context: object, message: string])[] = [
    ['to create an SCC for a pod that is already admitted', {}, {}, 'SCC "restricted-v2" admits it'],
    [
      'to create an SCC for a pod that an existing SCC would admit',
      { securityContext: { fsGroup: 7 } },
      { runAsUser: 7 },
      'SCC "nonroot-v2" would admit it: portcullis scc grant nonroot-v2 -z default -n shop',
    ],
    [
      'to create an SCC for a privileged pod',
      {},
      { privileged: true },
      'SCC "privileged" would admit it: portcullis scc grant privileged -z default -n shop',
    ],
  ];
  for (const [name, spec, context, reason] of rejected) {
    test(`refuses ${name}`, async () => {
      const stderr = `error: no custom SCC for pod/web: ${reason}\n`;
      assert.deepEqual(await create(spec, OFFLINE, context), { code: 2, stdout: '', stderr });
    });
  }

  test('quotes names from manifests in the shell command', async () => {
    const { stderr } = await create({ serviceAccountName: "a'; id #", hostNetwork: true }, OFFLINE);
    assert.match(stderr, /scc grant \S+ -z 'a'\\''; id #' -n shop\n$/);
  });

  test('writes an SCC that admits the pod once its use is granted', async (t) => {
    const cluster = await startCluster();
    t.after(() => cluster.stop());
    await installStandardSccs(cluster.cluster);
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    const at = [`--kubeconfig=${await cluster.kubeconfig()}`];
    const context = { capabilities: { add: ['NET_ADMIN'] } };
    const created = 'securitycontextconstraints.security.openshift.io/own created';
    const stderr = `It is a copy of SCC "restricted-v2" with: allowedCapabilities=["NET_BIND_SERVICE","NET_ADMIN"]\nNext: portcullis scc grant own -z default -n shop ${at.join(' ')}\n`;
    assert.deepEqual(await create({}, [...at, '--dry-run=server'], context), {
      code: 0,
      stdout: `${created} (server dry run)\n`,
      stderr,
    });
    assert.deepEqual(await create({}, at, context), { code: 0, stdout: `${created}\n`, stderr });
    assert.equal((await runProgram(['scc', 'grant', 'own', '-z', 'default', '-n', 'shop', ...at])).code, 0);
    assert.deepEqual(await create({}, at, context), {
      code: 2,
      stdout: '',
      stderr: 'error: no custom SCC for pod/web: SCC "own" admits it\n',
    });
  });
});
