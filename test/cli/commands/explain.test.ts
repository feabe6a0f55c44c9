import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { installSccs, RANGES } from '../../support/scc-cluster.ts';
import { runProgram, type Environment } from '../../support/memory-io.ts';

process.chdir(join(import.meta.dirname, '../../fixtures/explain'));

const explain = (args: string, surroundings?: Environment) =>
  runProgram(['explain', ...args.split(' ').filter((arg) => arg !== '')], surroundings);

describe('usage errors', () => {
  const cases: readonly { readonly args: string; readonly stderr: string; readonly stdin?: string }[] = [
    { args: '', stderr: 'error: no manifests: pass their paths\n' },
    {
      args: '- -f -',
      stderr: 'error: the standard input can be read only once: remove - or --filename=-\n',
    },
    { args: 'none.yaml', stderr: 'error: the path "none.yaml" does not exist\n' },
    { args: 'mistaken.yaml', stderr: 'error: mistaken.yaml:3:1: metadata must be an object\n' },
    { args: 'cluster.yaml', stderr: 'error: no pods or workloads in the manifests\n' },
    { args: 'root.yaml --as-group operators', stderr: 'error: --as-group needs --as\n' },
    {
      args: 'root.yaml -f cluster.yaml --kubeconfig x',
      stderr: 'error: --filename reads manifests instead of a cluster: remove --kubeconfig and --context\n',
    },
    { args: '-', stdin: 'a: [', stderr: 'error: stdin:1:5: ' },
  ];
  for (const { args, stdin, stderr } of cases) {
    test(args, async () => {
      const outcome = await explain(args, stdin === undefined ? {} : { stdin });
      assert.deepEqual([outcome.code, outcome.stdout], [2, '']);
      assert.ok(outcome.stderr.startsWith(stderr), outcome.stderr);
    });
  }
});

const ANYBODY = '  Created by       any authenticated user (set --as)\n  Service account  default\n';

describe('explanations of pods', () => {
  const cases: readonly { readonly args: string; readonly code: number; readonly stdout: string }[] = [
    {
      args: 'requires-nothing-known.yaml -f cluster.yaml',
      code: 1,
      stdout: `Pod shop/web-*: refused
${ANYBODY}  Mode             enforce
  Refused because  failed to retrieve the required SCC "restricted-v9": securitycontextconstraints.security.openshift.io "restricted-v9" not found

  SCC            PRIORITY  SCORE   USABLE BY             FITS
  broken         1         155000  -                     broken
      not tried: the pod requires another SCC
      error creating provider for SCC broken in namespace shop: MustRunAs requires a UID
  restricted-v2  0         32000   serviceaccount, user  yes
      not tried: the pod requires another SCC
      metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]="runtime/default"
      spec.containers[0].securityContext: runAsUser=1000660000 runAsNonRoot=true capabilities.drop=["ALL"] allowPrivilegeEscalation=false
      spec.securityContext: fsGroup=1000660000 seLinuxOptions.level="s0:c26,c5" seccompProfile.type="RuntimeDefault"
  root           0         55000   -                     yes
      not tried: the pod requires another SCC
      spec.securityContext: seLinuxOptions.level="s0:c26,c5"

Warning: Annotation openshift.io/required-scc requires SCC "restricted-v9", which does not exist. Existing SCCs: broken, restricted-v2, root.
`,
    },
    {
      args: 'odd.yaml -f cluster.yaml',
      code: 1,
      stdout: `Pod shop/odd: refused
${ANYBODY}  Mode             enforce
  Refused because  object was marked as kind pod but was unable to be converted: spec.hostPID: Invalid value: "yes": must be a boolean
`,
    },
    {
      args: 'windows.yaml -f cluster.yaml',
      code: 0,
      stdout: `Pod shop/iis: exempt from SCC admission
${ANYBODY}  Mode             enforce
  Level            baseline (Pod Security Standards, latest)
`,
    },
    {
      args: 'legacy.yaml -f cluster.yaml',
      code: 0,
      stdout: `Pod legacy/root: SCC admission is off in its namespace; otherwise it would be refused
${ANYBODY}  Mode             off: pods are neither evaluated nor changed

  SCC            PRIORITY  SCORE   USABLE BY             FITS
  broken         1         155000  -                     broken
      error creating provider for SCC broken in namespace legacy: MustRunAs requires a UID
  restricted-v2  0         32000   serviceaccount, user  no
      .containers[0].privileged: Invalid value: true: Privileged containers are not allowed
  root           0         55000   -                     no
      .containers[0].privileged: Invalid value: true: Privileged containers are not allowed

Warning: The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.privileged=true.
Warning: No SCC would admit the pod as it is.
`,
    },
    {
      args: 'root.yaml -f cluster.yaml --as olga --as-group operators --scc-mode=report',
      code: 0,
      stdout: `Pod shop/root: admitted by SCC root
  Created by       olga
  Service account  default
  Mode             enforce
  Usable by        its creator, not the service account
  Chosen because   "root" is the only one not too restrictive and not denied
  Level            baseline (Pod Security Standards, latest)

  SCC            PRIORITY  SCORE   USABLE BY             FITS
  broken         1         155000  -                     broken
      error creating provider for SCC broken in namespace shop: MustRunAs requires a UID
  restricted-v2  0         32000   serviceaccount, user  no
      .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]
* root           0         55000   user                  yes
      spec.securityContext: seLinuxOptions.level="s0:c26,c5"

Warning: SCC "root" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.
`,
    },
    {
      args: 'pods.yaml -f cluster.yaml --as olga --as-group operators',
      code: 1,
      stdout: `Pod shop/web: admitted by SCC restricted-v2
  Created by       olga
  Service account  default
  Mode             enforce
  Usable by        the service account
  Chosen because   "restricted-v2" is most restrictive, not denied, and chosen over "root" because "restricted-v2" permits less runAs strategies
  Level            restricted (Pod Security Standards, latest)

  SCC            PRIORITY  SCORE   USABLE BY             FITS
  broken         1         155000  -                     broken
      error creating provider for SCC broken in namespace shop: MustRunAs requires a UID
* restricted-v2  0         32000   serviceaccount, user  yes
      metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]="runtime/default"
      spec.containers[0].securityContext: runAsUser=1000660000 runAsNonRoot=true capabilities.drop=["ALL"] allowPrivilegeEscalation=false
      spec.securityContext: fsGroup=1000660000 seLinuxOptions.level="s0:c26,c5" seccompProfile.type="RuntimeDefault"
  root           0         55000   user                  yes
      spec.securityContext: seLinuxOptions.level="s0:c26,c5"

Deployment shop/root: no SCC admits it
  Created by       system:serviceaccount:kube-system:replicaset-controller
  Service account  default
  Mode             enforce

  SCC            PRIORITY  SCORE   USABLE BY             FITS
  broken         1         155000  -                     broken
      error creating provider for SCC broken in namespace shop: MustRunAs requires a UID
  restricted-v2  0         32000   serviceaccount, user  no
      .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]
  root           0         55000   -                     yes
      spec.securityContext: seLinuxOptions.level="s0:c26,c5"

Warning: The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.
Warning: SCC "root" would admit the pod if service account "default" were granted its use.

1 admitted, 1 refused
`,
    },
  ];
  for (const { args, code, stdout } of cases) {
    test(args, async () => assert.deepEqual(await explain(args), { code, stdout, stderr: '' }));
  }

  test('for a service account as the creator, with its groups', async () => {
    const { stdout } = await explain('root.yaml -f cluster.yaml --as system:serviceaccount:shop:builder');
    assert.match(
      stdout,
      /^Pod shop\/root: admitted by SCC root\n {2}Created by {7}system:serviceaccount:shop:builder\n/,
    );
  });
  test('without other objects: standard SCCs and other assumptions', async () => {
    const { code, stdout } = await explain('root.yaml');
    assert.equal(code, 1);
    assert.match(
      stdout,
      /\n {2}Mode {13}report, assumed: violations are reported, and pods are neither refused nor changed\n/,
    );
    assert.match(stdout, /\n {2}anyuid {15}10 {8}154950 {3}- {21}yes\n/);
    assert.match(
      stdout,
      /\n\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; namespaces: shop; service accounts: shop\/default; UID ranges of namespaces: shop\.\n$/,
    );
  });
  test('for the manifests of --filename without paths', async () => {
    assert.deepEqual(await explain('-f root.yaml'), await explain('root.yaml'));
  });
  test('from the standard input', async () => {
    const stdin =
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\\u001b[2Jb"},"spec":{"containers":[{"name":"a"}]}}';
    const { code, stdout } = await explain('- -n other', { stdin });
    assert.equal(code, 0);
    assert.ok(stdout.startsWith('Pod other/a\\u001b[2Jb: admitted by SCC restricted-v2\n'), stdout);
  });
  test('in colors on a terminal, except with NO_COLOR', async () => {
    const args = 'root.yaml -f cluster.yaml';
    assert.ok((await explain(args, { terminals: ['stdout'] })).stdout.startsWith('\u001b[1mPod shop/root'));
    assert.deepEqual(await explain(args, { terminals: ['stdout'], env: { NO_COLOR: '1' } }), await explain(args));
  });
});

describe('data', () => {
  const expected = {
    objects: [
      {
        kind: 'Pod',
        name: 'root',
        namespace: 'shop',
        createdBy: 'any authenticated user (set --as)',
        serviceAccount: 'default',
        closest: 'restricted-v2',
        grantable: 'root',
        mode: 'enforce',
        allowed: false,
        message:
          'unable to validate against any security context constraint: [provider "broken": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999], provider "root": Forbidden: not usable by user or serviceaccount]',
        warnings: [
          'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
          'SCC "root" would admit the pod if service account "default" were granted its use.',
        ],
        sccs: [
          {
            name: 'broken',
            priority: 1,
            score: 155_000,
            isCandidate: true,
            usableBy: [],
            fits: false,
            errors: [
              'provider "broken": Internal error: error creating provider for SCC broken in namespace shop: MustRunAs requires a UID',
            ],
            disallowedFields: [],
            broken: 'error creating provider for SCC broken in namespace shop: MustRunAs requires a UID',
          },
          {
            name: 'restricted-v2',
            priority: 0,
            score: 32_000,
            isCandidate: true,
            usableBy: ['serviceaccount', 'user'],
            fits: false,
            errors: [
              'provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
            ],
            disallowedFields: [{ path: 'spec.containers[0].securityContext.runAsUser', values: [0] }],
          },
          {
            name: 'root',
            priority: 0,
            score: 55_000,
            isCandidate: true,
            usableBy: [],
            fits: true,
            errors: [],
            disallowedFields: [],
            changes: [{ path: 'spec.securityContext.seLinuxOptions.level', after: 's0:c26,c5' }],
          },
        ],
      },
    ],
    assumptions: [],
  };
  test('as JSON', async () => {
    const { code, stdout } = await explain('root.yaml -f cluster.yaml -o json');
    assert.equal(code, 1);
    assert.deepEqual(JSON.parse(stdout), expected);
  });
  test('as YAML', async () => {
    assert.deepEqual(parse((await explain('root.yaml -f cluster.yaml -o yaml')).stdout), expected);
  });
});

const SPEC = { containers: [{ name: 'c', image: 'i' }] };

describe('with a cluster', () => {
  let cluster: TestCluster;
  let kubeconfig = '';
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await installSccs(cluster);
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'bare' } });
    await cluster.cluster.idle();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  test('the user of the kubeconfig creates pods without a controller', async () => {
    const { code, stdout } = await explain('root.yaml', { env: { KUBECONFIG: kubeconfig } });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod shop\/root: admitted by SCC anyuid\n {2}Created by {7}(?!anybody)\S+\n/);
  });
  test('--as names another creator', async () => {
    const { code, stdout } = await explain(`root.yaml --kubeconfig ${kubeconfig} --as alice`);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^Pod shop\/root: no SCC admits it\n {2}Created by {7}alice\n/);
  });
  const refused: readonly (readonly [name: string, args: string, spec: object, reason: string])[] = [
    [
      'a namespace without ranges has none',
      '-n bare',
      {},
      'error fetching namespace "bare": unable to find annotation openshift.io/sa.scc.uid-range',
    ],
    [
      'the service account must be there',
      '-n shop',
      { serviceAccountName: 'builder' },
      'error looking up service account shop/builder: serviceaccount "builder" not found',
    ],
  ];
  for (const [name, args, spec, reason] of refused) {
    test(name, async () => {
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { ...SPEC, ...spec } };
      const { code, stdout } = await explain(`- --kubeconfig ${kubeconfig} ${args}`, { stdin: JSON.stringify(pod) });
      assert.equal(code, 1, stdout);
      assert.match(stdout, /^Pod \w+\/web: refused\n/);
      assert.ok(stdout.includes(`\n  Refused because  ${reason}\n`), stdout);
      const json = await explain(`- -o json --kubeconfig ${kubeconfig} ${args}`, { stdin: JSON.stringify(pod) });
      const { objects } = JSON.parse(json.stdout) as { objects: { allowed: boolean; message: string }[] };
      assert.deepEqual(
        objects.map(({ allowed, message }) => [allowed, message]),
        [[false, reason]],
      );
    });
  }
  test('the service account may be created together with the pod', async () => {
    const spec = { ...SPEC, serviceAccountName: 'builder' };
    const objects = [
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'builder' } },
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec },
    ];
    const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
    const { code, stdout } = await explain(`- --kubeconfig ${kubeconfig} -n shop`, { stdin });
    assert.equal(code, 0, stdout);
  });
  test('ephemeral containers are ignored', async () => {
    const debug = { name: 'd', image: 'i', securityContext: { privileged: true } };
    const spec = { ...SPEC, ephemeralContainers: [debug] };
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec });
    const { code, stdout } = await explain(`- --kubeconfig ${kubeconfig} -n shop --as alice`, { stdin });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod shop\/web: admitted by SCC restricted-v2\n/);
  });
  test('a cluster without SCCs is not completed', async (t) => {
    const empty = await startCluster();
    t.after(() => empty.stop());
    await empty.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await empty.cluster.idle();
    const { code, stdout } = await explain(`root.yaml --kubeconfig ${await empty.kubeconfig()}`);
    assert.equal(code, 1, stdout);
    assert.ok(stdout.includes('\n  Refused because  no SecurityContextConstraints found in cluster\n'), stdout);
  });
  test('the namespace must exist', async () => {
    assert.deepEqual(await explain(`legacy.yaml --kubeconfig ${kubeconfig}`), {
      code: 2,
      stdout: '',
      stderr: 'error: namespace "legacy" not found\n',
    });
  });
});
