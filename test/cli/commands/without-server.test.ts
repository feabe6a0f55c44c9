/** Tests the output of an installation without a server, and the commands that read the settings of its policies. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readDocuments } from '../../../src/config/yaml.ts';
import { defaultSettings, staticWebhookConfigurations } from '../../../src/install/index.ts';
import { setApiDefaults } from '../../../src/kube/defaults.ts';
import { draft, type JsonObject, type KubeObject } from '../../../src/kube/types.ts';
import { type Outcome, runProgram } from '../../support/memory-io.ts';
import {
  json,
  list,
  refusal,
  type Responder,
  type ScriptedServer,
  startScriptedServer,
} from '../../support/scripted-server.ts';

const INSTALL = ['install', '--without-server'];
const SETTINGS = [
  '--set=podSecurity.exemptions.namespaces=[kube-system]',
  '--set=podSecurity.defaults.enforce=baseline',
];
const ONLY =
  'an installation without a server supports only spec.defaults, spec.guard and spec.podSecurity.{defaults,exemptions,emulationVersion}';

/** The arguments and the error. */
const MISTAKES: readonly (readonly [args: readonly string[], error: string])[] = [
  ...[
    '--image=a',
    '--replicas=2',
    '--namespace=a',
    '--cert-manager',
    '--monitoring=false',
    '--scc=false',
    '--rollout',
    '--kubelet',
    '--olm',
    '--profile=default',
  ].map((arg) => [[arg], `${arg.replace(/=.*/, '')}: not supported by an installation without a server`] as const),
  ...[
    'scc.mode=enforce',
    'rollout.phase=Enforce',
    'floor.mode=enforce',
    'webhooks={failurePolicy: Ignore}',
    'colour=red',
    'constructor.name=red',
    'podSecurity={workloadResources: []}',
  ].map((setting) => {
    const path = setting.replace(/=\{(\w+):.*/, '.$1').replace(/=.*/, '');
    return [[`--set=${setting}`], `--set=${path}: ${ONLY}`] as const;
  }),
  [
    ['--set=defaults.mode=apply', '--for-kubernetes=1.35'],
    'spec.defaults.mode is apply, but its MutatingAdmissionPolicy requires Kubernetes v1.36 or newer, and the policies are for v1.35: upgrade the API servers, or add --set=defaults.mode=off',
  ],
  [['--output-dir=a'], '--output-dir requires --static'],
  [
    ['--static'],
    '--static requires --for-kubernetes=1.37 or newer, because older API servers do not read policies from files',
  ],
  [['--context=a'], '--for-kubernetes cannot be combined with --kubeconfig and --context'],
  [
    ['--set=podSecurity.defaults.enforce=strict'],
    'PortcullisConfiguration "cluster" is invalid: spec.podSecurity.defaults.enforce: Unsupported value: "strict": supported values: "privileged", "baseline", "restricted"',
  ],
  [
    ['--set=podSecurity={defaults: {enforce: restricted}, exemptions: {namespaces: [a]}}'],
    "podSecurity.defaults.enforce=restricted would deny system pods in namespace kube-system: exempt it with --set='podSecurity.exemptions.namespaces=[a, kube-system]'",
  ],
  [
    [
      `--set=podSecurity.exemptions.usernames=[${Array.from({ length: 500 }, (_, index) => `system:serviceaccount:${'a'.repeat(63)}:${index}`).join()}]`,
    ],
    'the settings have 45984 bytes, but an annotation on the policies can have at most 32768: exempt fewer users, namespaces or runtime classes',
  ],
];

describe('install --without-server', () => {
  for (const [args, error] of MISTAKES) {
    test(`rejects ${args.join(' ').slice(0, 80)}`, async () => {
      const version = args.some((arg) => arg.startsWith('--for-kubernetes=')) ? [] : ['--for-kubernetes=1.36'];
      const outcome = await runProgram([...INSTALL, ...version, ...args]);
      assert.deepEqual(outcome, { code: 2, stdout: '', stderr: `error: ${error}\n` });
    });
  }
  const versions: readonly (readonly [version: string, reason: string])[] = [
    ['1.34', ', because older API servers reject functions in the policies'],
    ['latest', ''],
  ];
  for (const [version, reason] of versions) {
    test(`rejects policies for version ${version}`, async () => {
      const error = `invalid argument "${version}" for "--for-kubernetes" flag: must be a Kubernetes version such as 1.36, and at least 1.35${reason}`;
      assert.deepEqual(await runProgram([...INSTALL, `--for-kubernetes=${version}`]), {
        code: 2,
        stdout: '',
        stderr: `error: ${error}\nSee 'portcullis install --help' for usage.\n`,
      });
    });
  }
  test('applies the checks of the newest known version to a newer version', async () => {
    const { code, stderr } = await runProgram([...INSTALL, '--for-kubernetes=1.99']);
    assert.deepEqual(
      [code, stderr],
      [
        0,
        'Assuming Kubernetes 1.99 or newer, because no cluster was read\nKubernetes 1.99 is newer than 1.37, the newest supported version: the checks for 1.37 apply\n',
      ],
    );
  });
  test('is required by --for-kubernetes', async () => {
    const { code, stderr } = await runProgram(['install', '--for-kubernetes=1.36']);
    assert.deepEqual([code, stderr], [2, 'error: --for-kubernetes requires --without-server\n']);
  });
  test('rejects --static together with the version of a cluster', async () => {
    const error = '--static requires --for-kubernetes, because API servers do not list policies from files';
    assert.deepEqual(await runProgram([...INSTALL, '--static']), { code: 2, stdout: '', stderr: `error: ${error}\n` });
    const { stderr } = await runProgram(['install', '--static']);
    assert.equal(stderr, 'error: --static requires --without-server\n');
  });
});

type Policy = JsonObject & KubeObject & { readonly metadata: { readonly name: string } };

async function generate(
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly objects: readonly Policy[] }> {
  const { code, stdout, stderr } = await runProgram([...INSTALL, '--for-kubernetes=1.36', ...SETTINGS, ...args]);
  assert.deepEqual([code, stderr], [0, 'Assuming Kubernetes 1.36 or newer, because no cluster was read\n']);
  return { stdout, objects: readDocuments(stdout, 'policies').documents.map(({ value }) => value as Policy) };
}

const ANNOTATION = 'portcullis.dev/policy-settings';
const CONTENT =
  '{"program":"0.1.0","kubernetes":"v1.36","spec":{"podSecurity":{"exemptions":{"namespaces":["kube-system"]},"defaults":{"enforce":"baseline"}}}}';

test('install --without-server prints a policy and its bindings for each level, with the exemptions in the settings', async () => {
  const { stdout, objects } = await generate(
    '--set=podSecurity.defaults.warn=restricted',
    '--set=podSecurity.exemptions={usernames: [root], namespaces: [kube-system], runtimeClasses: [kata]}',
  );
  assert.deepEqual(
    objects.map(({ kind = '', metadata }) => `${kind.replace('ValidatingAdmission', '')} ${metadata.name}`),
    [
      'Policy enforce-baseline.psa.portcullis.dev',
      'PolicyBinding enforce-baseline.psa.portcullis.dev',
      'PolicyBinding enforce-baseline-unlabeled.psa.portcullis.dev',
      'Policy enforce-restricted.psa.portcullis.dev',
      'PolicyBinding enforce-restricted.psa.portcullis.dev',
      'Policy pod-security.kubernetes.io',
      'PolicyBinding pod-security.kubernetes.io',
      'Policy warn-baseline.psa.portcullis.dev',
      'PolicyBinding warn-baseline.psa.portcullis.dev',
      'Policy warn-restricted.psa.portcullis.dev',
      'PolicyBinding warn-restricted.psa.portcullis.dev',
      'PolicyBinding warn-restricted-unlabeled.psa.portcullis.dev',
    ],
  );
  const policy = JSON.stringify(objects[0]);
  assert.match(policy, /"operator":"NotIn","values":\["kube-system"\]/);
  assert.match(policy, /request\.userInfo\.username in \[\\"root\\"\]/);
  assert.match(policy, /variables\.spec\.\?runtimeClassName\.orValue\(\\"\\"\) in \[\\"kata\\"\]/);
  const [title, ...comment] = stdout.split('\n').filter((line) => line.startsWith('#'));
  assert.equal(
    title,
    '# Pod Security Standards in the API server, generated by portcullis v0.1.0 for Kubernetes v1.36 and newer.',
  );
  assert.match(comment.join('\n'), /--prune -l \S*app\.kubernetes\.io\/component=policies \\\n/);
});

describe('the policy files for API servers', () => {
  type StaticPolicy = Policy & { readonly spec: JsonObject };
  const STATIC = [...INSTALL, ...SETTINGS, '--static', '--for-kubernetes=1.37'];
  const run = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runProgram([...STATIC, ...args]);
    assert.deepEqual([code, stderr], [0, 'Assuming Kubernetes 1.37 or newer, because no cluster was read\n']);
    return stdout;
  };
  const plugin = (name: string, folder: string) => ({
    name,
    configuration: {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: `${name}Configuration`,
      staticManifestsDir: `/etc/kubernetes/admission/${folder}`,
    },
  });
  const VALIDATING = plugin('ValidatingAdmissionPolicy', 'validating');

  test('contain the same policies, with names that API servers require', async () => {
    const stdout = await run();
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.startsWith('# admission/')),
      [
        '# admission/validating/portcullis.yaml: for /etc/kubernetes/admission/validating of each control plane node',
        '# admission/admission.yaml: for /etc/kubernetes/admission: the --admission-control-config-file of kube-apiserver',
      ],
    );
    const { objects } = await generate();
    const documents = readDocuments(stdout, 'policies').documents.map(({ value }) => value as StaticPolicy);
    const configuration = documents.pop();
    assert.deepEqual(configuration, {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'AdmissionConfiguration',
      plugins: [VALIDATING],
    });
    const suffix = '.static.k8s.io';
    const names = documents.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.deepEqual(
      names,
      objects.map(({ kind, metadata }) => `${kind} ${metadata.name}${suffix}`),
    );
    for (const { kind, spec } of documents) {
      const { policyName } = spec;
      if (String(kind).endsWith('Binding'))
        assert.ok(names.includes(`ValidatingAdmissionPolicy ${String(policyName)}`));
      else assert.equal(spec['paramKind'], undefined);
    }
  });

  test('put the policies of each plugin into a separate file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    try {
      const stdout = await run('--set=defaults.mode=apply', `--output-dir=${folder}`);
      assert.equal(
        stdout.replaceAll(folder, 'DIR'),
        `DIR/admission/validating/portcullis.yaml: for /etc/kubernetes/admission/validating of each control plane node
DIR/admission/mutating/portcullis.yaml: for /etc/kubernetes/admission/mutating of each control plane node
DIR/admission/admission.yaml: for /etc/kubernetes/admission: the --admission-control-config-file of kube-apiserver
`,
      );
      const read = async (path: string) =>
        readDocuments(await readFile(join(folder, 'admission', path), 'utf8'), path).documents.map(
          ({ value }) => value as Policy & { readonly plugins: unknown },
        );
      const kinds = async (path: string) => [...new Set((await read(path)).map(({ kind }) => kind))];
      assert.deepEqual(await kinds('validating/portcullis.yaml'), [
        'ValidatingAdmissionPolicy',
        'ValidatingAdmissionPolicyBinding',
      ]);
      assert.deepEqual(await kinds('mutating/portcullis.yaml'), [
        'MutatingAdmissionPolicy',
        'MutatingAdmissionPolicyBinding',
      ]);
      const [configuration] = await read('admission.yaml');
      assert.deepEqual(configuration?.plugins, [VALIDATING, plugin('MutatingAdmissionPolicy', 'mutating')]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

test('install --without-server prints policies that contain its settings, and its output is deterministic', async () => {
  const [first, second] = [await generate(), await generate()];
  assert.equal(first.stdout, second.stdout);
  const policies = first.objects.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
  assert.deepEqual(
    policies.map(({ metadata }) => [metadata.name, metadata.annotations?.[ANNOTATION]]),
    [
      'enforce-baseline.psa.portcullis.dev',
      'enforce-restricted.psa.portcullis.dev',
      'pod-security.kubernetes.io',
      'warn-baseline.psa.portcullis.dev',
      'warn-restricted.psa.portcullis.dev',
    ].map((name) => [name, CONTENT]),
  );
});

test('the guard adds a ValidatingAdmissionPolicy, whose binding only warns in warn mode', async () => {
  const { objects } = await generate('--set=guard.labels=warn');
  const [policy, binding] = objects.slice(-2);
  assert.deepEqual([policy?.metadata.name, binding?.metadata.name], Array(2).fill('guard.psa.portcullis.dev'));
  assert.deepEqual((binding?.spec as JsonObject)['validationActions'], ['Warn', 'Audit']);
});

test('pod defaults add a MutatingAdmissionPolicy and its binding', async () => {
  const { stdout, objects } = await generate('--set=defaults={mode: apply, fields: [runAsNonRoot]}');
  const [policy, binding] = objects.slice(-2);
  assert.deepEqual(
    [policy?.kind, policy?.metadata.name, binding?.kind, binding?.metadata.name],
    ['Policy', 'PolicyBinding'].flatMap((kind) => [`MutatingAdmission${kind}`, 'defaults.psa.portcullis.dev']),
  );
  const settings = CONTENT.replace(/\}\}$/, ',"defaults":{"mode":"apply","fields":["runAsNonRoot"]}}}');
  for (const { metadata } of objects.filter(({ kind = '' }) => kind.endsWith('Policy'))) {
    assert.equal(metadata.annotations?.[ANNOTATION], settings);
  }
  // There is no SCC admission that defaults pods, so the policy does not depend on the namespace.
  assert.doesNotMatch(JSON.stringify(policy), /namespaceObject/);
  for (const text of [stdout, (await generate()).stdout]) {
    assert.match(text, /--prune-allowlist=admissionregistration\.k8s\.io\/v1\/MutatingAdmissionPolicy /);
  }
});

const WORKLOADS = `
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: shop }
spec: { selector: { matchLabels: { a: b } }, template: { metadata: { labels: { a: b } }, spec: { containers: [{ name: c, image: i }] } } }
---
apiVersion: v1
kind: Pod
metadata: { name: host, namespace: shop }
spec: { hostNetwork: true, containers: [{ name: c, image: i }] }
`;
const SOURCE =
  'Settings: annotation portcullis.dev/policy-settings of the policies in the API server. Policies provide no namespace reviews, no metrics, no SCC admission and no enforcement rollout.\n';

describe('commands that read the policies', () => {
  let server: ScriptedServer;
  let file: string;
  before(async () => {
    server = await startScriptedServer();
    file = await server.file(
      'config.yaml',
      'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\nspec: { podSecurity: { defaults: { enforce: restricted, warn: restricted } } }\n',
    );
  });
  after(() => server.stop());

  /**
   * Runs a command on the policies and workloads. Removes the assumptions about objects that the manifests lack from
   * the output.
   */
  async function run(args: readonly string[], change: (policies: string) => string = (text) => text): Promise<Outcome> {
    const { stdout: policies } = await generate();
    const outcome = await runProgram([...args, '-f', '-'], { stdin: `${change(policies)}---${WORKLOADS}` });
    return { ...outcome, stdout: outcome.stdout.replace(/\nAssumed: (?!.*(?:UID|SecurityContext)).*\n/, '') };
  }

  const cases: readonly (readonly [args: readonly string[], code: number, stdout: string])[] = [
    [
      ['explain'],
      1,
      `Deployment shop/web: admitted
  Created by       system:serviceaccount:kube-system:replicaset-controller
  Service account  default
  Pod Security     baseline:latest (default)

Pod shop/host: denied, violates PodSecurity "baseline:latest"
  Created by       any authenticated user (set --as)
  Service account  default
  Denied because   violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)
  Fix              Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.
  Pod Security     baseline:latest (default)

1 admitted, 1 denied

${SOURCE}`,
    ],
    [
      ['rollout', 'plan'],
      1,
      `${SOURCE}
NAMESPACE   CURRENT              PLANNED      VERDICT     DENIED   RESTART   REASON
shop        baseline (default)   restricted   violating   2

For details and next steps, add -o wide.

1 namespace: 1 violating; 1 workload (1 running pod) denied now, 1 workload (0 running pods) would be denied
`,
    ],
    [
      ['rollout', 'plan', '--level=baseline'],
      1,
      `${SOURCE}
NAMESPACE   CURRENT              PLANNED    VERDICT      DENIED   RESTART   REASON
shop        baseline (default)   baseline   denied now   1

For details and next steps, add -o wide.

1 namespace: 1 denied now; 1 workload (1 running pod) denied now
`,
    ],
  ];
  for (const [args, code, stdout] of cases) {
    test(`evaluate pods with the result of the policies: ${args.join(' ')}`, async () =>
      assert.deepEqual(await run(args), { code, stdout, stderr: '' }));
  }

  test('evaluate templates after pod defaults are set', async () => {
    const { stdout: policies } = await generate(
      '--set=defaults.mode=apply',
      '--set=podSecurity.defaults.enforce=restricted',
    );
    const evaluate = async (...args: readonly string[]): Promise<string> =>
      (await runProgram([...args, '-f', '-'], { stdin: `${policies}---${WORKLOADS}` })).stdout;
    assert.match(await evaluate('explain'), /^Deployment shop\/web: admitted$/m);
    assert.match(
      await evaluate('rollout', 'plan'),
      /^1 namespace: 1 denied now; 1 workload \(1 running pod\) denied now$/m,
    );
  });

  test('prefer a --config file to the policies', async () => {
    const { stdout } = await run(['rollout', 'plan', '--config', file]);
    assert.match(stdout, /^Settings: \S+config\.yaml\.\n/);
    assert.match(stdout, /\nshop +baseline \(default\) +restricted +violating +2\n/);
    assert.match((await run(['explain', '--config', file])).stdout, /Pod Security +restricted:latest \(default\)\n/);
  });

  for (const args of [['explain'], ['rollout', 'status'], ['scc', 'plan']]) {
    test(`state that they ignore the settings of a server: ${args.join(' ')}`, async () => {
      const configuration = `apiVersion: config.portcullis.dev/v1alpha1
kind: PortcullisConfiguration
metadata: { name: cluster }
spec: { podSecurity: { defaults: { enforce: restricted } }, scc: { mode: enforce } }
`;
      const { stdout, stderr } = await run(args, (policies) => `${policies}---\n${configuration}`);
      const note = '. PortcullisConfiguration "cluster" is not evaluated, even if a server uses it.\n';
      assert.ok(stdout.includes(SOURCE.replace('.\n', note)), stdout + stderr);
    });
  }

  for (const args of [['audit', 'exemptions'], ['report']]) {
    test(`include ${args.join(' ')}, which lists no webhook`, async () => {
      const namespace = 'apiVersion: v1\nkind: Namespace\nmetadata: { name: kube-system }\n';
      const { stdout } = await run([...args, '-o', 'json'], (policies) => `${policies}---\n${namespace}`);
      const { exemptions } = JSON.parse(stdout) as { readonly exemptions: readonly { readonly policy: string }[] };
      assert.deepEqual(
        exemptions.filter(({ policy }) => policy === 'webhook'),
        [],
      );
      assert.ok(exemptions.length > 0);
    });
  }

  test('include rollout status, which reports that there is no rollout', async () => {
    const { code, stdout } = await run(['rollout', 'status']);
    assert.equal(code, 0);
    assert.ok(
      stdout.includes(
        '\nState    Off: the policies in the API server have a constant default, without a rollout\nNext     Plan another default (LEVEL: baseline or restricted): portcullis rollout plan --level LEVEL.\n',
      ),
      stdout,
    );
  });

  const damages: readonly (readonly [change: (text: string) => string, error: string])[] = [
    [
      (text) => text.replaceAll('"kubernetes":"v1.36"', '"kubernetes":"latest"'),
      'annotation portcullis.dev/policy-settings of a policy is invalid',
    ],
    [
      (text) => text.replaceAll('{"program"', '"program"'),
      'annotation portcullis.dev/policy-settings of a policy is invalid',
    ],
    [
      (text) => text.replace('"v1.36"', '"v1.35"'),
      'the policies have different settings in their annotations portcullis.dev/policy-settings',
    ],
  ];
  for (const [change, error] of damages) {
    test(`reject damaged policies: ${error}`, async () => {
      const repair =
        'apply the complete output of portcullis install --without-server --for-kubernetes with all settings';
      assert.deepEqual(await run(['explain'], change), { code: 2, stdout: '', stderr: `error: ${error}: ${repair}\n` });
    });
  }
});

interface Cluster {
  readonly minor?: string;
  readonly objects?: readonly KubeObject[];
  /** The spec of the PortcullisConfiguration. */
  readonly spec?: JsonObject;
  readonly configurations?: readonly KubeObject[];
  readonly namespaces?: readonly KubeObject[];
  /** The response to a dry run of a pod. */
  readonly pod?: Responder;
}

const NOT_FOUND = refusal(404, 'not found');

const DEFAULTS_ROUTES = [
  [/\/mutatingadmissionpolicies\?/, 'MutatingAdmissionPolicy'],
  [/\/mutatingadmissionpolicybindings\?/, 'MutatingAdmissionPolicyBinding'],
] as const;

/** Starts a server that responds as an API server with these objects. */
function respond({
  minor = '36',
  objects = [],
  spec,
  configurations = [],
  namespaces = [],
  pod = json({ metadata: { name: 'p' } }, 201),
}: Cluster): Responder {
  const items = (kind: string) => list(...objects.filter((one) => one.kind === kind));
  const routes: readonly (readonly [path: RegExp, responder: Responder])[] = [
    [/^\/version$/, json({ major: '1', minor, gitVersion: `v1.${minor}.2` })],
    [/^\/apis$/, json({ groups: [] })],
    [/\/validatingadmissionpolicies\?/, items('ValidatingAdmissionPolicy')],
    [/\/validatingadmissionpolicybindings\?/, items('ValidatingAdmissionPolicyBinding')],
    ...(Number(minor) < 36 ? [] : DEFAULTS_ROUTES.map(([path, kind]) => [path, items(kind)] as const)),
    [/\/validatingwebhookconfigurations\?/, list(...configurations)],
    [/\/portcullisconfigurations\/cluster$/, spec ? json({ metadata: { name: 'cluster' }, spec }) : NOT_FOUND],
    [/\/namespaces\?/, list(...namespaces)],
    [/\/pods\?dryRun=All$/, pod],
    [/\/selfsubjectreviews$/, json({ status: { userInfo: { username: 'alice' } } }, 201)],
  ];
  return (response, request) => {
    const [, responder = NOT_FOUND] = routes.find(([path]) => path.test(request.url ?? '')) ?? [];
    responder(response, request);
  };
}

describe('on a cluster,', () => {
  let server: ScriptedServer;
  let kubeconfig: string;
  let objects: readonly Policy[];
  before(async () => {
    server = await startScriptedServer();
    kubeconfig = await server.kubeconfig();
    const generated = await generate('--set=defaults.mode=apply');
    objects = generated.objects.map((object) => {
      const stored = draft(object);
      setApiDefaults(stored);
      return stored;
    });
  });
  after(() => server.stop());

  async function run(cluster: Cluster, ...args: readonly string[]): Promise<Outcome> {
    server.respond(respond(cluster));
    const { code, stdout, stderr } = await runProgram([...args, '--kubeconfig', kubeconfig]);
    const plain = (text: string): string =>
      text.replaceAll(server.url, 'SERVER').replaceAll(` --kubeconfig=${kubeconfig}`, '');
    return { code, stdout: plain(stdout), stderr: plain(stderr) };
  }
  const EXEMPT = SETTINGS[0] ?? '';

  test('install rejects an unsupported API server version', async () => {
    const error = 'error: SERVER runs Kubernetes v1.34.2: v1.35 or newer is required for functions in the policies\n';
    assert.deepEqual(await run({ minor: '34' }, ...INSTALL), { code: 2, stdout: '', stderr: error });
  });

  test('policies adopt the settings of a server', async () => {
    const spec = {
      podSecurity: { defaults: { enforce: 'baseline' } },
      scc: { mode: 'enforce' },
      floor: { mode: 'off' },
      defaults: { mode: 'apply', namespaceSelector: { matchLabels: { 'a.b/c': 'd' } } },
    };
    const { code, stdout, stderr } = await run({ spec }, ...INSTALL, EXEMPT, '--allow-weaker');
    assert.equal(
      stderr,
      `Note: Kubernetes v1.36.2 at SERVER
Not included in the policies: spec.scc.mode, spec.floor.mode
`,
    );
    assert.equal(code, 0);
    assert.match(
      stdout,
      /"spec":\{"podSecurity":\{"defaults":\{"enforce":"baseline"\},"exemptions":\{"namespaces":\["kube-system"\]\}\},"defaults":\{"mode":"apply","namespaceSelector":\{"matchLabels":\{"a\.b\/c":"d"\}\}\}\}/,
    );
    const old = await run({ spec, minor: '35' }, ...INSTALL, EXEMPT);
    assert.match(
      old.stderr,
      /^error: spec\.defaults\.mode is apply, but .* the policies are for v1\.35: upgrade the API servers, or add --set=defaults\.mode=off\n/,
    );
  });

  test('install --without-server fails while the rollout phase is Enforce', async () => {
    const error =
      'spec.rollout.phase is Enforce, so the server changes the default level at run time, but policies contain a constant level: add --set=podSecurity.defaults.enforce=restricted, or another level';
    const { stderr } = await run({ spec: { rollout: { phase: 'Enforce' } } }, ...INSTALL);
    assert.equal(stderr, `error: ${error}\n`);
  });

  test('a new server adopts the settings of the policies, which remain installed', async () => {
    const { code, stdout, stderr } = await run({ objects }, 'install');
    assert.equal(code, 0, stderr);
    assert.match(
      stdout,
      /\{"podSecurity":\{"exemptions":\{"namespaces":\["kube-system"\]\},"defaults":\{"enforce":"baseline"\}\},"defaults":\{"mode":"apply"\}\}/,
    );
    assert.match(
      stderr,
      /\npolicies: they remain in force. Once the server enforces at least as much, portcullis doctor prints the command that deletes them\n/,
    );
    const weaker = await run({ objects }, 'install', '--set=podSecurity.defaults.enforce=privileged');
    assert.match(
      weaker.stderr,
      /^error: the settings would weaken enforcement: podSecurity\.defaults\.enforce from baseline to privileged/,
    );
  });

  test('the settings of the policies take precedence over those of a server that was uninstalled', async () => {
    const spec = { podSecurity: { defaults: { enforce: 'privileged', warn: 'baseline' } } };
    const { stdout, stderr } = await run({ objects, spec }, 'install');
    const merged =
      '{"podSecurity":{"defaults":{"enforce":"baseline","warn":"baseline"},"exemptions":{"namespaces":["kube-system"]}},"defaults":{"mode":"apply"}}';
    assert.ok(stdout.includes(merged), stderr);
    const weaker = await run({ objects, spec }, 'install', '--set=podSecurity.exemptions.usernames=[eve]');
    assert.match(
      weaker.stderr,
      /^error: the settings would weaken enforcement: podSecurity\.exemptions\.usernames with eve in addition: /,
    );
  });

  const ending: readonly (readonly [name: string, cluster: Cluster, reason: string | undefined])[] = [
    ['SCC admission is enforced by default', { spec: { scc: { mode: 'enforce' } } }, 'scc.mode from enforce to off'],
    [
      'SCC admission is enforced in some namespaces',
      {
        spec: {},
        namespaces: ['shop', 'web'].map((name) => ({
          metadata: { name, labels: { 'portcullis.dev/scc': 'enforce' } },
        })),
      },
      'no SCCs in shop, web',
    ],
    [
      'only the server enforces the level of some namespaces',
      {
        spec: {},
        namespaces: Object.entries({ bank: 'restricted', other: 'privileged', shop: 'strict' }).map(([name, own]) => ({
          metadata: {
            name,
            labels: { 'portcullis.dev/enforce': own, 'pod-security.kubernetes.io/enforce': 'privileged' },
          },
        })),
      },
      'no label portcullis.dev/enforce in bank, shop',
    ],
    [
      'a minimum kubelet version exists',
      { spec: { kubelet: { minimumVersion: '1.30.0' } } },
      'spec.kubelet is removed',
    ],
    [
      'SCC admission is in report mode',
      { spec: { scc: { mode: 'report' } }, namespaces: [{ metadata: { name: 'shop' } }] },
      undefined,
    ],
  ];
  for (const [name, cluster, reason] of ending) {
    test(`replacing a server with policies ${reason === undefined ? 'is not a weakening' : 'is a weakening'} if ${name}`, async () => {
      const { code, stderr } = await run(cluster, ...INSTALL);
      if (reason === undefined) assert.equal(code, 0, stderr);
      else {
        const error = `error: the settings would weaken enforcement: ${reason}: add --allow-weaker to accept this\n`;
        assert.deepEqual([code, stderr], [2, error]);
        assert.equal((await run(cluster, ...INSTALL, '--allow-weaker')).code, 0);
      }
    });
  }

  test('the policy for defaults is obsolete after defaults are turned off', async () => {
    const args = [...INSTALL, '--set=defaults.mode=off'];
    assert.equal(
      (await run({ objects }, ...args)).stderr,
      'error: the settings would weaken enforcement: defaults.mode from apply to off: add --allow-weaker to accept this\n',
    );
    const { code, stdout, stderr } = await run({ objects }, ...args, '--allow-weaker');
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stdout, /kind: MutatingAdmissionPolicy/);
    assert.match(
      stderr,
      /\nobsolete: kubectl delete mutatingadmissionpolicies defaults\.psa\.portcullis\.dev\nobsolete: kubectl delete mutatingadmissionpolicybindings defaults\.psa\.portcullis\.dev\n$/,
    );
  });

  test('printed commands contain the flag that selects the context', async () => {
    const { stdout, stderr } = await run(
      { objects },
      'upgrade',
      '--set=defaults.mode=off',
      '--allow-weaker',
      '--context=x',
    );
    assert.match(
      stdout,
      /^# +kubectl apply -f - --prune -l \S+ \\\n# +(?:--prune-allowlist=\S+ )+--context=x\napiVersion: /m,
    );
    assert.match(
      stderr,
      /\nobsolete: kubectl delete mutatingadmissionpolicies defaults\.psa\.portcullis\.dev --context=x\nobsolete: /,
    );
    const denied = await run({}, ...INSTALL, '--set=podSecurity.defaults.enforce=baseline', '--context=x');
    assert.equal(
      denied.stderr,
      "error: podSecurity.defaults.enforce=baseline would deny system pods in namespace kube-system: exempt it with --set='podSecurity.exemptions.namespaces=[kube-system]', or label it: kubectl label namespace kube-system pod-security.kubernetes.io/enforce=privileged --context=x\n",
    );
  });

  test('an upgrade does not accept server options', async () => {
    const { stderr } = await run({ objects }, 'upgrade', '--replicas=2');
    assert.equal(stderr, 'error: --replicas: not supported by an installation without a server\n');
  });

  const namespaces = [
    { metadata: { name: 'default' } },
    { metadata: { name: 'kube-system' } },
    { metadata: { name: 'shop', labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } } },
  ];
  const pod = refusal(
    403,
    'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)',
  );
  /** Returns the objects with different text in the annotations. */
  const withText = (text: string, other: string): readonly KubeObject[] => {
    const [from = '', to = ''] = [text, other].map((one) => JSON.stringify(one).slice(1, -1));
    return objects.map((one) => JSON.parse(JSON.stringify(one).replace(from, to)) as KubeObject);
  };

  const WITHOUT_SETTINGS = [
    'problem policies policies: none contains its settings in annotation portcullis.dev/policy-settings',
    'Impact: their enforcement is unknown, and other commands assume the default settings',
    'Fix: # install them again with all settings, see portcullis install --without-server --help',
  ];

  /** The findings that differ from a healthy installation with the plugin. */
  const findings: readonly (readonly [name: string, cluster: () => Cluster, code: number, lines: readonly string[]])[] =
    [
      ['healthy', () => ({}), 0, []],
      [
        'a newer API server',
        () => ({ minor: '37' }),
        0,
        [
          'info api-server Kubernetes v1.37.2: the policies are for v1.36',
          'Impact: latest means v1.36, so requirements of newer versions are not enforced',
          'Fix: portcullis upgrade | kubectl apply -f -',
        ],
      ],
      [
        'an older API server',
        () => ({ minor: '34' }),
        1,
        [
          'problem api-server Kubernetes v1.34.2: the policies are for v1.36',
          'Impact: the API server may reject functions in the policies, and then denies pods',
          'Fix: portcullis install --without-server | kubectl apply -f -',
          ...['Policy', 'PolicyBinding'].flatMap((kind) => [
            `problem policies MutatingAdmission${kind}/defaults.psa.portcullis.dev: does not exist`,
            'Impact: new pods do not get the configured defaults',
            'Fix: portcullis install --without-server | kubectl apply -f -',
          ]),
        ],
      ],
      [
        'defaults from earlier settings',
        () => ({
          objects: withText('"mode":"apply"', '"mode":"off"').map((one, index) =>
            one.kind === 'MutatingAdmissionPolicy' ? (objects[index] ?? one) : one,
          ),
        }),
        0,
        [
          ...['Policy mutatingadmissionpolicies', 'PolicyBinding mutatingadmissionpolicybindings'].flatMap((one) => {
            const [kind = '', resource = ''] = one.split(' ');
            return [
              `warning policies MutatingAdmission${kind}/defaults.psa.portcullis.dev: is not generated by its settings`,
              'Impact: it sets outdated defaults in new pods',
              `Fix: kubectl delete ${resource} defaults.psa.portcullis.dev`,
            ];
          }),
        ],
      ],
      [
        'policies from another version of the program',
        () => ({ objects: withText('"program":"0.1.0"', '"program":"0.0.9"') }),
        0,
        [
          'info policies policies: were generated by version 0.0.9, so version 0.1.0 does not compare them with their settings',
          'Fix: portcullis upgrade | kubectl apply -f -',
        ],
      ],
      [
        'bindings without policies',
        () => ({ objects: objects.filter(({ kind = '' }) => kind.endsWith('Binding')) }),
        1,
        WITHOUT_SETTINGS,
      ],
      [
        'invalid settings',
        () => ({ objects: withText('"enforce":"baseline"', '"enforce":"strict"') }),
        1,
        [
          'problem policies settings: PortcullisConfiguration "cluster" is invalid: spec.podSecurity.defaults.enforce: Unsupported value: "strict": supported values: "privileged", "baseline", "restricted"',
        ],
      ],
      [
        'policies without settings',
        () => ({ objects: objects.map((one) => ({ ...one, metadata: { ...one.metadata, annotations: {} } })) }),
        1,
        WITHOUT_SETTINGS,
      ],
      [
        'a missing permission to create pods',
        () => ({ pod: refusal(403, 'pods is forbidden: User "alice" cannot create resource "pods"') }),
        0,
        [
          'unknown enforcement namespace default: the default level baseline:latest was not tested: pods is forbidden: User "alice" cannot create resource "pods"',
          'unknown other-admission PodSecurity plugin: cannot detect whether it is enabled: pods is forbidden: User "alice" cannot create resource "pods"',
        ],
      ],
    ];
  const HEALTHY = [
    'info installation installation: policies without a server: no namespace reviews, no metrics, no SCC admission and no enforcement rollout',
    'ok api-server Kubernetes v1.36.2: the policies are for this version',
    'ok policies policies: 17 objects exist and match their settings',
    'ok enforcement namespace default: a violating pod is denied by the default level baseline:latest',
    'info other-admission PodSecurity plugin: is enabled and evaluates the labels of namespaces before the policies',
    'Impact: the exemptions and defaults of the policies do not apply to the plugin',
  ];
  describe('doctor reports', () => {
    for (const [name, cluster, code, lines] of findings) {
      test(name, async () => {
        const outcome = await run({ objects, namespaces, pod, ...cluster() }, 'doctor');
        const seen = outcome.stdout
          .trimEnd()
          .split('\n')
          .map((line) => line.trim().replaceAll(/ {2,}/g, ' '))
          .slice(0, -2);
        assert.deepEqual(
          seen.filter((line) => !HEALTHY.includes(line)),
          lines,
        );
        assert.equal(outcome.code, code);
        if (lines.length === 0) assert.deepEqual(seen, HEALTHY);
      });
    }
    test('policies beside a server', async () => {
      const configurations = staticWebhookConfigurations(defaultSettings('0.1.0'));
      const { stdout } = await run({ objects, namespaces, configurations }, 'doctor', '-o', 'json');
      const { findings: all } = JSON.parse(stdout) as { readonly findings: readonly JsonObject[] };
      const finding = all.find(({ check }) => check === 'policies');
      assert.equal(finding?.['message'], 'from an installation without a server exist alongside the server');
      assert.match(String(finding['fix']), /^# first fix the problems that these checks report: /);
    });
  });
});
