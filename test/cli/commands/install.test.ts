import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, suite, test } from 'node:test';
import { parse } from 'yaml';
import { VERSION } from '../../../src/cli/command.ts';
import { type ClusterFacts, planForCluster, planOptions } from '../../../src/cli/install/plan.ts';
import { findWeakenings } from '../../../src/cli/installation/weakening.ts';
import { resolveValues } from '../../../src/cli/options.ts';
import { serveOptions } from '../../../src/cli/serve-options.ts';
import { readDocuments } from '../../../src/config/yaml.ts';
import { buildManifests, CRDS, defaultSettings } from '../../../src/install/index.ts';
import { type ManifestSettings, PROFILES } from '../../../src/install/settings.ts';
import type { JsonObject, KubeObject } from '../../../src/kube/types.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

function printed(settings: Partial<ManifestSettings>): readonly unknown[] {
  return buildManifests({ ...defaultSettings(VERSION), ...settings });
}

function read(text: string): readonly unknown[] {
  const { documents, errors } = readDocuments(text, 'stdout');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value);
}

const UNSEEN = (profile: string): string =>
  `Assuming the ${profile} profile and Kubernetes 1.32 or newer, because no cluster was read\n`;

describe('install without a cluster', () => {
  const cases: readonly (readonly [args: readonly string[], settings: Partial<ManifestSettings>])[] = [
    [['--profile=default'], {}],
    [['--profile=scc'], PROFILES.scc],
    [['--profile=default', '--scc'], PROFILES.scc],
    [['--profile=without-rollout'], PROFILES['without-rollout']],
    [['--profile=scc', '--scc=false', '--rollout=false'], PROFILES['without-rollout']],
    [['--profile=default', '--kubelet'], PROFILES.kubelet],
    [['--profile=kubelet', '--kubelet=false', '--olm'], PROFILES.olm],
    [['--profile=kubelet', '--nodes-config'], { ...PROFILES.kubelet, nodesConfig: true }],
    [
      ['--profile=olm', '--kubelet', '--set=kubelet.minimumVersion=1.33.0', '--set=olm.hardening.mode=off'],
      {
        features: { ...PROFILES.kubelet.features, olm: true },
        policy: { kubelet: { minimumVersion: '1.33.0' }, olm: { hardening: { mode: 'off' } } },
      },
    ],
    [['--profile=local'], PROFILES.local],
    [
      ['--profile=local', '--set=webhooks.management=static'],
      { ...PROFILES.local, policy: { webhooks: { management: 'static' } } },
    ],
    [['--profile=cert-manager', '--monitoring'], { certificates: 'cert-manager', monitoring: 'prometheus-operator' }],
    [['--profile=monitoring', '--monitoring=false'], {}],
    [['--profile=default', '--cert-manager=false'], {}],
    [['--profile=high-availability', '--replicas=7'], { replicas: 7, spread: 'required' }],
    [
      ['--profile=scc', '--namespace=security', '--image=r.example.com/p:1', '--set=scc.authorization=sar'],
      {
        ...PROFILES.scc,
        ...{ namespace: 'security', image: 'r.example.com/p:1', policy: { scc: { authorization: 'sar' } } },
      },
    ],
    [
      [
        '--profile=scc',
        '--set',
        'scc.mode=off',
        '--set=scc.exemptNamespaces=[a, b]',
        '--set=webhooks.management=static',
      ],
      {
        ...PROFILES.scc,
        policy: { scc: { mode: 'off', exemptNamespaces: ['a', 'b'] }, webhooks: { management: 'static' } },
      },
    ],
    [
      ['--profile=monitoring', '--runbook-url=https://wiki.example.com/runbook'],
      { monitoring: 'prometheus-operator', runbook: 'https://wiki.example.com/runbook' },
    ],
  ];
  for (const [args, settings] of cases) {
    test(`prints the manifests for ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await runProgram(['install', ...args]);
      assert.deepEqual(read(stdout), printed(settings));
      const profile = args[0]?.slice('--profile='.length) ?? '';
      const replicas = 'Replicas run as processes: portcullis serve --kubeconfig=replica.kubeconfig --features=rollout';
      const initial = settings.policy ? ` '--initial-settings=${JSON.stringify(settings.policy)}'` : '';
      const next = profile === 'local' ? `${replicas} --webhook-url=https://127.0.0.1:8443${initial}\n` : '';
      assert.equal(stderr, `${UNSEEN(profile)}${next}`);
      assert.equal(code, 0);
    });
  }

  const wrong: readonly (readonly [args: readonly string[], message: string])[] = [
    [
      ['--profile=production'],
      'invalid argument "production" for "--profile" flag: must be one of default, monitoring, scc, without-rollout, kubelet, olm, cert-manager, high-availability, local, control-plane',
    ],
    [['--profile=default', '--kubeconfig=x'], '--profile cannot be combined with --kubeconfig and --context'],
    [
      ['--profile=local', '--replicas=2'],
      '--replicas: the local profile has no Deployment, because replicas run as processes',
    ],
    [
      ['--profile=local', '--image=a:1'],
      '--image: the local profile has no Deployment, because replicas run as processes',
    ],
    [['--profile=default', '--context=x'], '--profile cannot be combined with --kubeconfig and --context'],
    [
      ['--profile=default', '--replicas=0'],
      'invalid argument "0" for "--replicas" flag: must be a whole number from 1 to 15',
    ],
    [
      ['--profile=default', '--runbook-url=runbook.md#x'],
      'invalid argument "runbook.md#x" for "--runbook-url" flag: must be the URL of a page, such as https://example.com/runbook.md',
    ],
    [
      ['--profile=default', '--set=kubelet.minimumVersion=1.33.0'],
      'spec.kubelet requires the kubelet feature: add --kubelet',
    ],
    [['--profile=default', '--set=scc.mode=enforce'], 'spec.scc requires the scc feature: add --scc'],
    [
      ['--profile=scc', '--scc=false', '--set=scc.mode=enforce'],
      'spec.scc requires the scc feature: remove --scc=false, or add --set=scc=null',
    ],
    [
      ['--profile=kubelet', '--set=kubelet.minimumVersion=v1.33'],
      'PortcullisConfiguration "cluster" is invalid: spec.kubelet.minimumVersion: Invalid value: "v1.33": must be in a semver compatible format of x.y.z, or empty',
    ],
    [
      ['--profile=default', '--set=nope='],
      'invalid argument "nope=" for "--set" flag: nope has no value: use nope=null for the default',
    ],
    [['--profile=control-plane', '--scc'], '--profile=control-plane cannot be combined with --scc'],
    [['--profile=default', '--output-dir=x'], '--output-dir requires --profile=control-plane or --static'],
    [['--profile=control-plane', '--output-dir=/proc/x'], 'cannot write to /proc/x: there is no such file'],
    [['--profile=default', '--nodes-config'], '--nodes-config requires the kubelet feature: add --kubelet'],
    [['--profile=default', '--image='], 'invalid argument "" for "--image" flag: must not be empty'],
    [['extra'], "too many arguments for 'install'. Expected 0 arguments but got 1: extra."],
    [[], 'no cluster to read: KUBECONFIG and HOME are not set; set --kubeconfig'],
  ];
  for (const [args, message] of wrong) {
    test(`rejects ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await runProgram(['install', ...args]);
      assert.deepEqual([code, stdout, stderr.split('\n')[0]], [2, '', `error: ${message}`]);
    });
  }

  test('rejects an invalid namespace', async () => {
    const { code, stderr } = await runProgram(['install', '--profile=default', '--namespace=A_b']);
    assert.equal(code, 2);
    assert.match(
      stderr,
      /^error: invalid argument "A_b" for "-n, --namespace" flag: "A_b" is not a valid namespace name: /,
    );
  });
});

describe('install --profile=control-plane', () => {
  const IMAGE = '--image=r.example.com/portcullis:1';

  test('prints all files', async () => {
    const { code, stdout, stderr } = await runProgram(['install', '--profile=control-plane', IMAGE]);
    assert.deepEqual([code, stderr], [0, 'The files also need certificates, which --output-dir creates.\n']);
    const documents = read(stdout) as readonly JsonObject[];
    assert.deepEqual(
      documents.map(({ kind }) => kind),
      ['Pod', 'AuthorizationConfiguration', 'Config', 'ClusterRole', 'ClusterRoleBinding'],
    );
    const [pod, authorization] = documents;
    const [container] = (pod as { spec: { containers: readonly { image: string; args: readonly string[] }[] } }).spec
      .containers;
    assert.equal(container?.image, 'r.example.com/portcullis:1');
    const typed = container.args.slice(1).map((arg) => {
      const [, name = '', value = 'true'] = /^--([^=]+)(?:=(.*))?$/.exec(arg) ?? [];
      assert.ok(name in serveOptions, arg);
      return [name, [value]] as const;
    });
    const values = resolveValues(serveOptions, { typed: new Map(typed), env: {} });
    assert.deepEqual([values.authorizer, values['bind-address'], values['secure-port']], [true, '127.0.0.1', 9444]);
    const authorizers = (authorization?.['authorizers'] ?? []) as readonly JsonObject[];
    assert.deepEqual(
      authorizers.map(({ name }) => name),
      ['minimum-kubelet-version', 'node', 'rbac'],
    );
  });

  test('writes the files and certificates to a folder, and keeps the certificates in a second run', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    const args = ['install', '--profile=control-plane', IMAGE, `--output-dir=${folder}`];
    const readText = (name: string): Promise<string> => readFile(join(folder, name), 'utf8');
    try {
      const first = await runProgram(args);
      const certificate = await readText('authz/tls.crt');
      const second = await runProgram(args);
      assert.deepEqual(second, first);
      assert.equal(
        first.stdout.replaceAll(folder, 'DIR'),
        [
          'DIR/manifests/portcullis-authorizer.yaml: for /etc/kubernetes/manifests of each control plane node',
          'DIR/authz/authorization.yaml: for /etc/kubernetes/authz: the --authorization-config file of kube-apiserver',
          'DIR/authz/minimum-kubelet-version.kubeconfig: for /etc/kubernetes/authz: kubeconfig that kube-apiserver uses to call the webhook',
          'DIR/rbac.yaml: permissions of the webhook, to apply with kubectl',
          'DIR/authz/*.crt, *.key: webhook certificates, valid for one year',
          '',
        ].join('\n'),
      );
      assert.equal(await readText('authz/tls.crt'), certificate);
      assert.equal(new X509Certificate(certificate).checkIP('127.0.0.1'), '127.0.0.1');
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('install for a cluster', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
  });
  after(() => cluster.stop());

  const define = async (name: string, kind: string): Promise<void> => {
    const [plural = '', ...group] = name.split('.');
    const spec = {
      group: group.join('.'),
      scope: 'Namespaced',
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
    };
    await send({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name }, spec });
  };
  const send = async (definition: object): Promise<void> => {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const { status, text } = await cluster.admin.send('POST', path, definition);
    assert.equal(status, 201, text);
    await cluster.cluster.idle();
  };
  const install = (...args: readonly string[]) => runProgram(['install', `--kubeconfig=${kubeconfig}`, ...args]);
  const CHARTS =
    'Note: the cluster will serve security.openshift.io, so charts that detect OpenShift by this group, such as those of Bitnami, omit runAsUser and fsGroup, which SCC admission sets only while it enforces SCCs. Their value global.compatibility.openshift.adaptSecurityContext=disabled keeps both fields\n';
  const seen = (notes: string): RegExp =>
    new RegExp(`^Note: Kubernetes v1\\.\\d+\\.\\d+\\S* at https://127\\.0\\.0\\.1:${cluster.port}\n${notes}$`);

  test('a cluster without operators gets the default manifests', async () => {
    const { code, stdout, stderr } = await install();
    assert.match(stderr, seen(''));
    assert.deepEqual(read(stdout), printed({}));
    assert.equal(code, 0);
  });

  test('a cluster that does not serve the SCC API group gets manifests with the SCC CRD', async () => {
    const { code, stdout, stderr } = await install('--scc');
    assert.match(stderr, seen(CHARTS));
    assert.deepEqual(read(stdout), printed(PROFILES.scc));
    assert.equal(code, 0);
  });

  test('a Deployment that a user of another namespace created is not an installation', async () => {
    const other = buildManifests({ ...defaultSettings(VERSION), namespace: 'default' }).find(
      ({ kind }) => kind === 'Deployment',
    );
    const deployments = '/apis/apps/v1/namespaces/default/deployments';
    const { status, text } = await cluster.admin.send('POST', deployments, other);
    assert.equal(status, 201, text);
    const { code, stderr } = await install();
    assert.match(stderr, seen(''));
    assert.equal(code, 0);
    await cluster.admin.send('DELETE', `${deployments}/portcullis`);
  });

  test('an installation without running pods is changed, and keeps its profile', async () => {
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'portcullis' };
    const subjects = [{ kind: 'ServiceAccount', name: 'portcullis', namespace: 'portcullis' }];
    const labels = { 'app.kubernetes.io/part-of': 'portcullis' };
    const webhooks = [
      {
        name: 'validate.pods.portcullis.dev',
        clientConfig: { url: 'https://127.0.0.1:8443/validate/pods' },
        rules: [],
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
      },
    ];
    const objects = [
      [
        '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
        { metadata: { name: 'portcullis' }, roleRef, subjects },
      ],
      [
        '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
        { metadata: { name: 'portcullis.dev', labels }, webhooks },
      ],
    ] as const;
    for (const [path, object] of objects) assert.equal((await cluster.admin.send('POST', path, object)).status, 201);
    for (const action of ['install', 'upgrade']) {
      const { code, stdout, stderr } = await runProgram([action, `--kubeconfig=${kubeconfig}`]);
      const message =
        'the replicas in namespace portcullis run as processes: use portcullis install --profile=local with the features and options of the installation';
      assert.deepEqual([code, stdout, stderr], [2, '', `error: ${message}\n`]);
    }
    for (const [path, { metadata }] of objects) await cluster.admin.send('DELETE', `${path}/${metadata.name}`);
  });

  test('the command that deletes obsolete objects contains the flags that select the cluster', async () => {
    const path = '/apis/rbac.authorization.k8s.io/v1/clusterroles';
    const labels = { 'app.kubernetes.io/part-of': 'portcullis' };
    const role = { metadata: { name: 'portcullis-old', labels }, rules: [] };
    assert.equal((await cluster.admin.send('POST', path, role)).status, 201);
    const command = 'obsolete: after the rollout: kubectl delete --ignore-not-found clusterroles/portcullis-old';
    const file = `--kubeconfig=${kubeconfig}`;
    for (const flags of [[], ['--context=portcullis'], [file], [file, '--context=portcullis']]) {
      const { stderr } = await runProgram(['install', ...flags], { env: { KUBECONFIG: kubeconfig } });
      assert.match(stderr, seen(`${[command, ...flags].join(' ')}\n`));
    }
    await cluster.admin.send('DELETE', `${path}/portcullis-old`);
  });

  test('install fails if the installation cannot be read', async () => {
    const { code, stdout, stderr } = await runProgram(['install', '--kubeconfig', await cluster.kubeconfig('alice')]);
    assert.match(stderr, /^error: https:\/\/127\.0\.0\.1:\d+: .* is forbidden: /);
    assert.deepEqual([code, stdout], [2, '']);
  });

  test('upgrade fails if there is no installation', async () => {
    const { code, stderr } = await runProgram(['upgrade', `--kubeconfig=${kubeconfig}`]);
    assert.deepEqual(
      [code, stderr],
      [2, 'error: Portcullis is not installed in namespace portcullis: use portcullis install\n'],
    );
  });

  test('options that require a missing operator are rejected', async () => {
    const { code, stdout, stderr } = await install('--cert-manager');
    const message = `error: --cert-manager: https://127.0.0.1:${cluster.port} does not serve cert-manager.io: install cert-manager first, or remove the option`;
    assert.deepEqual([code, stdout, stderr.split('\n')[0]], [2, '', message]);
  });

  test('a cluster with monitoring operators gets a ServiceMonitor and alerts, which a note mentions', async () => {
    for (const definition of CRDS) await send(definition);
    await define('servicemonitors.monitoring.coreos.com', 'ServiceMonitor');
    await define('certificates.cert-manager.io', 'Certificate');
    const { stdout, stderr } = await install();
    const notes = [
      'Note: detected the Prometheus operator: the output contains a ServiceMonitor and alerts; --monitoring=false omits them\n',
      'Note: detected cert-manager: with --cert-manager, it issues the serving certificate; otherwise, the replicas create it\n',
    ];
    assert.match(stderr, seen(notes.join('')));
    assert.deepEqual(read(stdout), printed({ monitoring: 'prometheus-operator' }));
  });

  test('an OpenShift cluster gets no rollout, and --scc is rejected', async () => {
    await define('routes.route.openshift.io', 'Route');
    const { stdout, stderr } = await install('--monitoring=false', '--cert-manager');
    assert.match(stderr, seen('Note: detected OpenShift, which manages SCCs, their CRDs and ranges\n'));
    assert.deepEqual(read(stdout), printed({ ...PROFILES['without-rollout'], certificates: 'cert-manager' }));
    const { code, stderr: refusal } = await install('--scc');
    assert.equal(code, 2);
    assert.equal(
      refusal.split('\n')[0],
      'error: --scc: OpenShift has its own SCC admission, which conflicts with Portcullis SCC admission: remove --scc',
    );
  });
});

const PLAIN: ClusterFacts = {
  server: 'https://c:6443',
  version: 'v1.36.3',
  groups: ['apps', 'batch'],
  hasForeignSccs: false,
  hasForeignNodesConfig: false,
};

interface Case {
  readonly case: string;
  readonly facts?: Partial<ClusterFacts>;
  readonly installed?: Partial<ManifestSettings>;
  readonly settings?: Partial<ManifestSettings>;
  readonly notes?: readonly string[];
  readonly problem?: string;
}

const NO_OPTIONS = resolveValues(planOptions, { typed: new Map(), env: {} });

suite('the install plan depends on the cluster and the options:', () => {
  const file = readFileSync('test/fixtures/install-plans.yaml', 'utf8');
  for (const { case: name, facts, installed = {}, settings, notes = [], problem } of parse(file) as readonly Case[]) {
    test(name, () => {
      const groups = [...(facts?.groups ?? PLAIN.groups), 'security.openshift.io'];
      const cluster = { ...PLAIN, ...facts, groups };
      if (problem !== undefined) {
        assert.throws(() => planForCluster(cluster, installed, NO_OPTIONS), { name: 'UserError', message: problem });
        return;
      }
      const seen = `Kubernetes ${cluster.version} at ${cluster.server}`;
      const expected = { settings: { ...defaultSettings(VERSION), ...settings }, notes: [seen, ...notes] };
      assert.deepEqual(planForCluster(cluster, installed, NO_OPTIONS), expected);
    });
  }
});

describe('findWeakenings lists the settings that enforce less than before', () => {
  const cases: readonly (readonly [before: JsonObject, after: JsonObject, expected: readonly string[]])[] = [
    [
      { podSecurity: { defaults: { enforce: 'baseline' } } },
      { podSecurity: { defaults: { enforce: 'baseline', enforceVersion: 'v1.30' } } },
      ['podSecurity.defaults.enforceVersion from latest to v1.30'],
    ],
    [
      { floor: { mode: 'enforce' } },
      { floor: { mode: 'enforce' }, webhooks: { failurePolicy: 'Ignore' } },
      ['webhooks.failurePolicy from Fail to Ignore'],
    ],
    [{ floor: { mode: 'enforce' }, webhooks: { failurePolicy: 'Ignore' } }, {}, ['floor.mode from enforce to off']],
    [
      { podSecurity: { defaults: { enforceVersion: 'v1.36' } } },
      { podSecurity: { defaults: { enforce: 'restricted', enforceVersion: 'v1.30' } } },
      [],
    ],
    [{ scc: { compatibility: 'openshift' } }, {}, ['scc.compatibility from openshift to portcullis']],
    [{ scc: { mode: 'enforce' } }, { scc: { mode: 'report' } }, ['scc.mode from enforce to report']],
    [{ scc: { mode: 'report' } }, { scc: { mode: 'off' } }, []],
  ];
  for (const [before, after, expected] of cases) {
    test(`${JSON.stringify(before)} to ${JSON.stringify(after)}`, () => {
      const settings = (policy: JsonObject) => ({ namespace: 'portcullis', policy });
      assert.deepEqual(findWeakenings(settings(before), settings(after)), expected);
    });
  }
});

test('install --scc=false is rejected as a weakening only if the label of a namespace enforces SCCs', async (t) => {
  const started = await startCluster();
  t.after(() => started.stop());
  const installed = printed(PROFILES.scc).find((object) => (object as KubeObject).kind === 'Deployment');
  await started.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'portcullis' } });
  await started.admin.send('POST', '/apis/apps/v1/namespaces/portcullis/deployments', installed);
  const args = ['install', '--scc=false', '--kubeconfig', await started.kubeconfig()];
  assert.equal((await runProgram(args)).code, 0);
  const labels = { 'portcullis.dev/scc': 'enforce' };
  await started.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', labels } });
  const stderr = 'error: the settings would weaken enforcement: no SCCs in shop: add --allow-weaker to accept this\n';
  assert.deepEqual(await runProgram(args), { code: 2, stdout: '', stderr });
});
