import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type JsonObject, objectMember } from '../../../src/kube/types.ts';
import { hashSpec } from '../../../src/views/exceptions.ts';
import { installCrds } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { type Environment, runProgram } from '../../support/memory-io.ts';

const manifests = (labels: string): string => `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {${labels}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: web, image: nginx}]}}
`;

const SHARED =
  'warning: the exception applies to all pods with the default service account, so give the workload its own service account\n';

describe('exception create evaluates the stricter of the current level and the level that the rollout plans', () => {
  const settings = (phase: string): string => `
apiVersion: config.portcullis.dev/v1alpha1
kind: PortcullisConfiguration
metadata: {name: cluster}
spec: {rollout: {phase: ${phase}}}
---`;
  const cases: readonly (readonly [phase: string, labels: string, code: number, stdout: RegExp, stderr: string])[] = [
    ['Disabled', '', 2, /^$/, 'error: deployment/web needs no exception: its pods satisfy the privileged level\n'],
    ['Evaluate', '', 0, /\n {4}- check: hostNamespaces\n[^]*\n {4}- check: runAsNonRoot\n/, SHARED],
    ['Evaluate', 'portcullis.dev/enforce: baseline', 0, /\n {4}- check: hostNamespaces\n/, SHARED],
  ];
  for (const [phase, labels, code, stdout, stderr] of cases) {
    test(`phase ${phase}, labels ${labels}`, async () => {
      const stdin = settings(phase) + manifests(labels);
      const args = ['exception', 'create', 'deployment/web', '-f', '-', '--offline', '-n', 'shop', '--for=1h'];
      const outcome = await runProgram([...args, '--reason=SEC-1'], { stdin });
      assert.deepEqual([outcome.code, outcome.stderr], [code, stderr]);
      assert.match(outcome.stdout, stdout);
    });
  }
});

test('exception create evaluates the pod with the defaults of SCC admission in the given mode', async () => {
  const stdin = `${manifests('pod-security.kubernetes.io/enforce: restricted').replace('hostNetwork: true, ', '')}---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: own}
groups: ['system:authenticated']
allowPrivilegeEscalation: false
requiredDropCapabilities: [ALL]
runAsUser: {type: MustRunAsRange, uidRangeMin: 1000, uidRangeMax: 1999}
seLinuxContext: {type: RunAsAny}
seccompProfiles: [runtime/default]
`;
  const create = async (mode: string) => {
    const args = ['exception', 'create', 'deployment/web', '-f', '-', '--offline', '-n', 'shop', '--for=1h'];
    const { code, stdout, stderr } = await runProgram([...args, '--reason=SEC-1', `--scc-mode=${mode}`], { stdin });
    return [code, stdout.match(/check: \w+/g) ?? [], stderr];
  };
  const needless = 'error: deployment/web needs no exception: its pods satisfy the restricted level\n';
  assert.deepEqual(await create('enforce'), [2, [], needless]);
  const [code, checks] = await create('report');
  assert.deepEqual(
    [code, checks],
    [
      0,
      [
        'check: allowPrivilegeEscalation',
        'check: capabilities_restricted',
        'check: runAsNonRoot',
        'check: seccompProfile_restricted',
      ],
    ],
  );
});

const workloadWith = (spec: object): JsonObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    selector: { matchLabels: { a: 'b' } },
    template: { metadata: { labels: { a: 'b' } }, spec: { serviceAccountName: 'web', ...spec } },
  },
});
const hostPorts = (from: number, count: number): readonly object[] =>
  Array.from({ length: count }, (_, index) => ({ containerPort: 80, hostPort: from + index }));

describe('exception create prints as many exceptions as API servers require for', () => {
  const cases: readonly (readonly [claim: string, spec: object, names: readonly string[]])[] = [
    ['33 values of one check', { containers: [{ name: 'a', image: 'i', ports: hostPorts(8000, 33) }] }, ['web']],
    [
      '33 entries',
      {
        containers: Array.from({ length: 33 }, (_, index) => {
          return { name: `c${index}`, image: 'i', ports: hostPorts(8000 + index, 1) };
        }),
      },
      ['web', 'web-2'],
    ],
  ];
  for (const [claim, spec, expected] of cases) {
    test(claim, async () => {
      const list = `---\n${JSON.stringify(workloadWith(spec))}\n`;
      const flags = ['-f', '-', '--offline', '-n', 'shop', '--for=1h', '--reason=x', '--level=baseline'];
      const { stdout } = await runProgram(['exception', 'create', 'deployment/web', ...flags], { stdin: list });
      assert.deepEqual(stdout.match(/(?<=^ {2}name: ).*/gm), expected);
      const check = ['check', '--level=baseline', '-f', '-'];
      const checked = await runProgram(check, { stdin: `${list}---\n${stdout}` });
      assert.deepEqual([checked.code, checked.stderr], [0, ''], checked.stdout);
    });
  }
});

describe('exception create fails instead of printing an exception that API servers reject because of', () => {
  const path = `/${'x'.repeat(512)}`;
  const hostPath = { containers: [{ name: 'web', image: 'i' }], volumes: [{ name: 'v', hostPath: { path } }] };
  const hostNetwork = { containers: [{ name: 'web', image: 'i' }], hostNetwork: true };
  const name = `${'x'.repeat(252)}_`;
  const cases: readonly (readonly [claim: string, spec: object, flags: readonly string[], error: RegExp])[] = [
    [
      'a long value',
      hostPath,
      ['--reason=x'],
      /^no exception can cover spec\.volumes\[0\]\.hostPath of deployment\/web$/,
    ],
    [
      'a long reason',
      hostNetwork,
      [`--reason=${'x'.repeat(1025)}`],
      /^the exception would be invalid: spec\.reason: Invalid value: "x+\.*": must have 1 to 1024 characters$/,
    ],
    [
      'an invalid name',
      hostNetwork,
      ['--reason=x', `--name=${name}`],
      /^the exception would be invalid: metadata\.name: Invalid value: /,
    ],
  ];
  for (const [claim, spec, flags, error] of cases) {
    test(claim, async () => {
      const args = ['exception', 'create', 'deployment/web', '-f', '-', '--offline', '-n', 'shop', '--for=1h'];
      const { code, stdout, stderr } = await runProgram([...args, '--level=baseline', ...flags], {
        stdin: JSON.stringify(workloadWith(spec)),
      });
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr.replace(/^error: /, '').trim(), error);
    });
  }
});

describe('where the PodSecurity plugin ignores exceptions,', () => {
  const create = (labels: string) =>
    runProgram(
      ['exception', 'create', 'deployment/web', '-f', '-', '--offline', '-n', 'shop', '--for=1h', '--reason=SEC-1'],
      { stdin: manifests(labels) },
    );

  test('exception create warns about the upstream label', async () => {
    const { code, stdout, stderr } = await create('pod-security.kubernetes.io/enforce: baseline');
    assert.equal(code, 0);
    assert.match(stdout, /\n {4}- check: hostNamespaces\n {6}values:\n {8}- hostNetwork\n/);
    assert.equal(
      stderr,
      `${SHARED}warning: the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the baseline level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace shop portcullis.dev/enforce=baseline pod-security.kubernetes.io/enforce=privileged --overwrite\n`,
    );
    assert.equal((await create('portcullis.dev/enforce: baseline')).stderr, SHARED);
  });

  test('the next step of rollout plan changes both labels', async () => {
    const stdin = manifests('pod-security.kubernetes.io/enforce: privileged, portcullis.dev/enforce: baseline');
    const { stdout } = await runProgram(['rollout', 'plan', '-f', '-', '-n', 'shop'], { stdin });
    assert.match(
      stdout,
      /\n {2}Next: Change the workloads, or set a weaker level: kubectl label namespace\/shop portcullis\.dev\/enforce=privileged pod-security\.kubernetes\.io\/enforce=privileged --overwrite\.\n/,
    );
  });
});

const EXCEPTIONS = '/apis/policy.portcullis.dev/v1alpha1/namespaces/shop/podsecurityexceptions';
const SPEC = {
  serviceAccountName: 'gateway',
  allow: [{ check: 'seccompProfile_restricted', values: ['nil'] }],
  expiresAt: '2099-01-01T00:00:00Z',
  reason: 'SEC-1',
};
const HASH = hashSpec(SPEC);
const HOSTILE = { ...SPEC, allow: [{ check: 'hostNamespaces', values: ['hostPID'] }] };
const HOSTILE_HASH = hashSpec(HOSTILE);
const SHOWN = `authors:
  - alice
spec:
  serviceAccountName: gateway
  allow:
    - check: seccompProfile_restricted
      values:
        - nil
  expiresAt: "2099-01-01T00:00:00Z"
  reason: SEC-1
specHash: ${HASH}
`;
const QUESTION =
  'This approves the spec above: exceptions from seccompProfile_restricted for service account gateway in namespace shop until 2099-01-01T00:00:00Z. Type "yes" to continue:\n';
const REFUSED = `error: not approved, because stdin is not a terminal. If the spec above is acceptable: portcullis exception approve e -n shop --spec-hash=${HASH} --kubeconfig=KUBECONFIG\n`;
const OTHER_HASH = `error: the spec has the hash ${HASH}, not ${HOSTILE_HASH}: review the current spec before you approve it\n`;
const NO_HASH = `error: invalid argument "abc" for "--spec-hash" flag: must be a hash from portcullis exception list -o json\nSee 'portcullis exception approve --help' for usage.\n`;
const DENIED = 'error: not approved: the response was not "yes"\n';
const TERMINAL = ['stdin'] as const;

describe('exception approve', () => {
  let cluster: TestCluster;
  let kubeconfig = '';
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await installCrds(cluster.cluster);
    await cluster.cluster.idle();
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop' } });
  });
  after(async () => await cluster.stop());
  beforeEach(async () => {
    await cluster.admin.send('DELETE', `${EXCEPTIONS}/e`);
    const metadata = { name: 'e', namespace: 'shop', annotations: { 'portcullis.dev/authors': '["alice"]' } };
    await cluster.admin.send('POST', EXCEPTIONS, { metadata, spec: SPEC });
  });

  const run = (args: readonly string[], environment?: Environment) =>
    runProgram(['exception', ...args, '-n', 'shop', '--kubeconfig', kubeconfig], environment);
  const approvedHash = async (): Promise<unknown> => {
    const { body } = await cluster.admin.send('GET', `${EXCEPTIONS}/e`);
    return objectMember(objectMember(body, 'status'), 'approval')['specHash'];
  };

  /**
   * The arguments, the environment, and the result. Approvals need the webhooks, so test/e2e/exceptions.test.ts tests
   * them.
   */
  const cases: readonly (readonly [
    name: string,
    args: readonly string[],
    environment: Environment,
    expected: readonly [code: number, stdout: string, stderr: string],
  ])[] = [
    [
      'changes nothing without confirmation',
      [],
      { terminals: TERMINAL, stdin: 'y\n' },
      [2, SHOWN, `${QUESTION}${DENIED}`],
    ],
    ['changes nothing at the end of input', [], { terminals: TERMINAL }, [2, SHOWN, `${QUESTION}${DENIED}`]],
    ['refuses if there is neither a terminal nor a hash', [], { stdin: 'yes\n' }, [2, SHOWN, REFUSED]],
    ['refuses if the spec has another hash', [`--spec-hash=${HOSTILE_HASH}`], {}, [2, SHOWN, OTHER_HASH]],
    ['refuses if the value for the hash is not a hash', ['--spec-hash=abc'], {}, [2, '', NO_HASH]],
    [
      'only prints the spec in a client-side dry run',
      ['--dry-run=client'],
      {},
      [0, `${SHOWN}podsecurityexception/e approved (dry run)\n`, ''],
    ],
    [
      'compares the hash in a server-side dry run',
      ['--dry-run=client', `--spec-hash=${HOSTILE_HASH}`],
      {},
      [2, SHOWN, OTHER_HASH],
    ],
  ];
  for (const [name, args, environment, [code, stdout, stderr]] of cases) {
    test(name, async () => {
      const expected = { code, stdout, stderr: stderr.replace('KUBECONFIG', kubeconfig) };
      assert.deepEqual(await run(['approve', 'e', ...args], environment), expected);
      assert.equal(await approvedHash(), undefined);
    });
  }

  test('exception list prints the same hash for the cluster and for a manifest', async () => {
    const manifest = {
      apiVersion: 'policy.portcullis.dev/v1alpha1',
      kind: 'PodSecurityException',
      metadata: { name: 'e', namespace: 'shop' },
      spec: SPEC,
    };
    for (const { stdout } of [
      await run(['list', '-o', 'json']),
      await runProgram(['exception', 'list', '-f', '-', '-o', 'json'], { stdin: JSON.stringify(manifest) }),
    ]) {
      const { exceptions } = JSON.parse(stdout) as { readonly exceptions: readonly JsonObject[] };
      assert.deepEqual(
        exceptions.map(({ name, state, specHash }) => [name, state, specHash]),
        [['e', 'Proposed', HASH]],
      );
    }
    assert.match((await run(['list', '-o', 'wide'])).stdout, new RegExp(` SPEC HASH .*\\n.* ${HASH} `));
  });
});

test('exception list lists nothing in a cluster without the CRD', async () => {
  const { kubeconfig, stop } = await startCluster();
  try {
    assert.deepEqual(await runProgram(['exception', 'list', '--kubeconfig', await kubeconfig()]), {
      code: 0,
      stdout:
        'Assumed: no podsecurityexceptions.policy.portcullis.dev: the cluster does not serve them.\n\nNo exceptions.\n',
      stderr: '',
    });
  } finally {
    await stop();
  }
});
