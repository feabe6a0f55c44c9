/** Tests that `install` and `upgrade` keep the settings of an installation, and report conflicts with other clients. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VERSION } from '../../src/cli/command.ts';
import { responseObject } from '../support/answers.ts';
import { useControlPlane } from '../support/control-plane/index.ts';
import { createKubectl, hasKubectl } from '../support/kubectl.ts';
import { type Outcome, runProgram } from '../support/memory-io.ts';

const IMAGE = 'registry.example.com/portcullis:0.0.1';
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const DEPLOYMENT = '/apis/apps/v1/namespaces/portcullis/deployments/portcullis';
const APPLY = { 'content-type': 'application/apply-patch+yaml' };
const PORTCULLIS = 'app.kubernetes.io/part-of=portcullis';
const TOLERATIONS = [{ key: 'dedicated', operator: 'Exists' }];

/** Changes that an administrator makes to the Deployment. */
const CUSTOMISATION = {
  spec: {
    template: {
      spec: {
        tolerations: TOLERATIONS,
        containers: [{ name: 'portcullis', env: [{ name: 'HTTPS_PROXY', value: 'http://proxy' }] }],
      },
    },
  },
};

suite('install, run again on a customized installation,', { skip: !hasKubectl && 'no kubectl' }, async () => {
  const plane = await useControlPlane();
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const run = (command: string, ...args: readonly string[]): Promise<Outcome> =>
    runProgram([command, `--kubeconfig=${kubeconfig}`, ...args]);
  const kubectl = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await createKubectl(kubeconfig)(args);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const applyOutput = async ({ code, stdout, stderr }: Outcome): Promise<string> => {
    assert.equal(code, 0, stderr);
    const result = await createKubectl(kubeconfig)(['apply', '--server-side', '-f', '-'], stdout);
    assert.equal(result.code, 0, result.stderr);
    return stderr;
  };
  /** Returns the lines of `kubectl diff` for the output, except the generation. */
  const diff = async ({ code, stdout, stderr }: Outcome): Promise<readonly string[]> => {
    assert.equal(code, 0, stderr);
    const result = await createKubectl(kubeconfig)(['diff', '--server-side', '--force-conflicts', '-f', '-'], stdout);
    assert.ok(result.code <= 1, result.stderr);
    return result.stdout.split('\n').filter((line) => /^[-+] /.test(line) && !/^. {2}generation: /.test(line));
  };
  const read = async (path: string) => responseObject(await plane.admin.send('GET', path));

  /** Applies the initial settings as the leader does. */
  const applyAsLeader = async (): Promise<void> => {
    const [container] = (await readPod()).containers;
    const spec: unknown = JSON.parse(
      container?.env.find(({ name }) => name === 'PORTCULLIS_INITIAL_SETTINGS')?.value ?? '',
    );
    const body = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration', spec };
    const path = `${SETTINGS}?fieldManager=settings-status-controller`;
    const answer = await plane.admin.send('PATCH', path, { ...body, metadata: { name: 'cluster' } }, APPLY);
    assert.ok(answer.status < 300, answer.text);
  };
  interface PodSpec {
    readonly tolerations?: unknown;
    readonly containers: readonly {
      readonly image: string;
      readonly args: readonly string[];
      readonly resources: unknown;
      readonly env: readonly { readonly name: string; readonly value?: string }[];
    }[];
  }
  const readPod = async (): Promise<PodSpec> => {
    const { spec } = (await read(DEPLOYMENT)) as { readonly spec: { readonly template: { readonly spec: PodSpec } } };
    return spec.template.spec;
  };
  const assertCustomized = async (image: string, replicas: number): Promise<void> => {
    const { tolerations, containers } = await readPod();
    const [container] = containers;
    assert.deepEqual(tolerations, TOLERATIONS);
    assert.equal(container?.image, image);
    assert.ok(container?.env.some(({ name }) => name === 'HTTPS_PROXY'));
    const { spec } = (await read(DEPLOYMENT)) as { readonly spec: { readonly replicas: number } };
    assert.equal(spec.replicas, replicas);
  };

  await applyOutput(
    await run('install', `--image=${IMAGE}`, '--replicas=5', '--scc', '--rollout=false', '--set=scc.mode=enforce'),
  );
  await applyAsLeader();
  await kubectl('patch', 'deployment', 'portcullis', '-n', 'portcullis', '-p', JSON.stringify(CUSTOMISATION));

  test('changes nothing if the arguments are the same', async () => {
    assert.deepEqual(await diff(await run('install')), []);
    const generation = (await read(DEPLOYMENT))['metadata'];
    await applyOutput(await run('install'));
    const { generation: before } = generation as { readonly generation: number };
    const { generation: now } = (await read(DEPLOYMENT))['metadata'] as { readonly generation: number };
    assert.equal(now, before);
    await assertCustomized(IMAGE, 5);
  });

  test('changes only the option in its arguments', async () => {
    assert.deepEqual(await diff(await run('install', '--replicas=7')), ['-  replicas: 5', '+  replicas: 7']);
    await applyOutput(await run('install', '--replicas=7'));
    await assertCustomized(IMAGE, 7);
  });

  test('prints a note about settings with which more namespaces fail closed', async () => {
    const labels = { 'portcullis.dev/scc': 'off' };
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'without', labels } };
    assert.equal((await plane.admin.send('POST', '/api/v1/namespaces', namespace)).status, 201);
    const note = /^Note: the settings make .*$/m;
    const { stderr } = await run('install', '--set=podSecurity.defaults.enforce=baseline');
    assert.equal(
      note.exec(stderr)?.[0],
      'Note: the settings make 2 namespaces fail closed, so no pods can be created there while no replica responds: kube-public, without',
    );
    assert.doesNotMatch((await run('install', '--replicas=7')).stderr, note);
    assert.equal((await plane.admin.send('DELETE', '/api/v1/namespaces/without')).status, 200);
  });

  /** Applies the output, and executes the command that deletes obsolete objects. */
  const installAndClean = async (...args: readonly string[]): Promise<void> => {
    const summary = await applyOutput(await run('install', ...args));
    const [, command] = /^obsolete: after the rollout: kubectl (.*)$/m.exec(summary) ?? [];
    if (command !== undefined) await kubectl(...command.split(' '));
  };
  const features: readonly (readonly [args: readonly string[], features: string, roles: readonly string[]])[] = [
    [['--kubelet'], 'scc,kubelet', ['portcullis-kubelet']],
    [['--olm'], 'scc,kubelet,olm', ['portcullis-kubelet', 'portcullis-olm']],
    [[], 'scc,kubelet,olm', ['portcullis-kubelet', 'portcullis-olm']],
    [['--kubelet=false', '--rollout'], 'rollout,scc,olm', ['portcullis-olm', 'portcullis-rollout']],
    [['--olm=false', '--rollout=false'], 'scc', []],
  ];
  for (const [args, expected, roles] of features) {
    test(`results in the features ${expected} with ${['install', ...args].join(' ')}`, async () => {
      await installAndClean(...args);
      assert.deepEqual(
        (await readPod()).containers[0]?.args.filter((one) => one.startsWith('--features')),
        [`--features=${expected}`],
      );
      const names = await kubectl('get', 'clusterroles,clusterrolebindings', '-o=name', '-l', PORTCULLIS);
      const optional = /\/(portcullis-(?:kubelet|olm|rollout))$/gm;
      const found = [...names.matchAll(optional)].map(([, name = '']) => name).toSorted();
      assert.deepEqual(
        found,
        roles.flatMap((role) => [role, role]),
      );
      const { stdout } = await run('doctor', '-o=json');
      const { findings } = JSON.parse(stdout) as { readonly findings: readonly { readonly object: string }[] };
      assert.deepEqual(
        findings.filter(({ object }) => object === 'roles'),
        [],
      );
      assert.deepEqual(await diff(await run('install')), []);
    });
  }

  test('does not remove a feature before its settings', async () => {
    await applyOutput(await run('install', '--kubelet', '--set=kubelet.minimumVersion=1.30.0'));
    await applyAsLeader();
    assert.equal(
      (await run('install', '--kubelet=false')).stderr,
      'error: spec.kubelet requires the kubelet feature: remove --kubelet=false, or add --set=kubelet=null\n',
    );
    const args = ['--kubelet=false', '--set=kubelet=null'];
    assert.equal(
      (await run('install', ...args)).stderr,
      'error: the settings would weaken enforcement: spec.kubelet is removed: add --allow-weaker to accept this\n',
    );
    await installAndClean(...args, '--allow-weaker');
    await applyAsLeader();
    assert.deepEqual((await read(SETTINGS))['spec'], { scc: { mode: 'enforce' } });
    assert.deepEqual(await diff(await run('install')), []);
  });

  test('prints the command that removes a setting owned by another client', async () => {
    await kubectl('patch', 'portcullisconfiguration', 'cluster', '--type=merge', '-p', '{"spec":{"olm":{}}}');
    await applyOutput(await run('install', '--olm'));
    const { stderr, stdout } = await run('install', '--olm=false', '--set=olm=null', '--allow-weaker');
    assert.doesNotMatch(stdout, /^kind: PortcullisConfiguration$/m);
    const [, patch = ''] =
      /^settings: kubectl patch portcullisconfiguration cluster --type=merge -p '(.*)' --kubeconfig=\S+$/m.exec(
        stderr,
      ) ?? [];
    await kubectl('patch', 'portcullisconfiguration', 'cluster', '--type=merge', '-p', patch);
    await installAndClean('--olm=false');
    assert.deepEqual((await read(SETTINGS))['spec'], { scc: { mode: 'enforce' } });
  });

  test('changes a setting that the leader owns with the initial settings', async () => {
    await applyOutput(await run('install', '--set=scc.mode=report', '--allow-weaker'));
    await applyAsLeader();
    assert.deepEqual((await read(SETTINGS))['spec'], { scc: { mode: 'report' } });
  });

  test('prints manifests that change a setting of an administrator and keep all other settings', async () => {
    const object = {
      apiVersion: 'config.portcullis.dev/v1alpha1',
      kind: 'PortcullisConfiguration',
      metadata: { name: 'cluster' },
      spec: { podSecurity: { defaults: { warn: 'baseline', audit: 'restricted' } } },
    };
    const applied = await createKubectl(kubeconfig)(['apply', '--server-side', '-f', '-'], JSON.stringify(object));
    assert.equal(applied.code, 0, applied.stderr);
    await applyOutput(await run('install', '--set=podSecurity.defaults.warn=restricted', '--set=scc.mode=enforce'));
    await applyAsLeader();
    assert.deepEqual((await read(SETTINGS))['spec'], {
      podSecurity: { defaults: { warn: 'restricted', audit: 'restricted' } },
      scc: { mode: 'enforce' },
    });
  });

  const conflicts: readonly (readonly [field: string, resource: string, patch: object, args: readonly string[]])[] = [
    [
      '.spec.podSecurity.defaults.enforce',
      'portcullisconfiguration/cluster',
      { spec: { podSecurity: { defaults: { enforce: 'baseline' } } } },
      ['--set=podSecurity.defaults.enforce=restricted'],
    ],
    [
      '.metadata.labels.pod-security.kubernetes.io/enforce',
      'namespace/portcullis',
      { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } } },
      [],
    ],
    [
      '.spec.template.spec.containers[name="portcullis"].args',
      'deployment/portcullis',
      [{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value: '--log-level=debug' }],
      [],
    ],
  ];
  for (const [field, resource, patch, args] of conflicts) {
    test(`reports a conflict at ${field}, and kubectl replaces the value only with --force-conflicts`, async () => {
      const type = `--type=${Array.isArray(patch) ? 'json' : 'merge'}`;
      await kubectl('patch', '-n', 'portcullis', resource, type, '-p', JSON.stringify(patch));
      const { stdout } = await run('install', ...args);
      const apply = ['apply', '--server-side', '-f', '-'];
      const { code, stderr } = await createKubectl(kubeconfig)(apply, stdout);
      assert.match(stderr, /Apply failed with 1 conflict: conflict with "kubectl-patch"/);
      assert.ok(stderr.includes(`: ${field}\n`), stderr);
      assert.equal(code, 1);
      const forced = await createKubectl(kubeconfig)([...apply, '--force-conflicts'], stdout);
      assert.equal(forced.code, 0, forced.stderr);
      assert.deepEqual(await diff(await run('install')), []);
    });
  }

  test('keeps minAvailable in the disruption budget', async () => {
    const spec = { minAvailable: '60%', maxUnavailable: null };
    await kubectl('patch', '-n', 'portcullis', 'pdb/portcullis', '--type=merge', '-p', JSON.stringify({ spec }));
    assert.deepEqual(await diff(await run('install')), []);
    await applyOutput(await run('install'));
  });

  test('changes the image and keeps everything else in an upgrade', async () => {
    const before = (await read(SETTINGS))['spec'];
    const next = `registry.example.com/portcullis:${VERSION}`;
    await applyOutput(await run('upgrade'));
    await applyAsLeader();
    await assertCustomized(next, 7);
    assert.deepEqual((await read(SETTINGS))['spec'], before);
  });

  const incompatible: readonly (readonly [version: string, command: string, reason: string])[] = [
    [
      '9.0.0',
      'upgrade',
      `version 9.0.0 is installed, but this program has version ${VERSION}: use version 9.0.0 of the program`,
    ],
    [
      '9.0.0',
      'install',
      `version 9.0.0 is installed, but this program has version ${VERSION}: use version 9.0.0 of the program`,
    ],
    ['0.0.9', 'install', `version 0.0.9 is installed, but this program has version ${VERSION}: use portcullis upgrade`],
  ];
  for (const [version, command, reason] of incompatible) {
    test(`${command} is rejected for the installed version ${version}`, async () => {
      const label = { spec: { template: { metadata: { labels: { 'app.kubernetes.io/version': version } } } } };
      await kubectl('patch', 'deployment', 'portcullis', '-n', 'portcullis', '-p', JSON.stringify(label));
      const { code, stdout, stderr } = await run(command);
      assert.deepEqual([code, stdout, stderr], [2, '', `error: ${reason}\n`]);
    });
  }

  test('rejects a Helm release', async () => {
    await kubectl('label', 'deployment', 'portcullis', '-n', 'portcullis', 'app.kubernetes.io/managed-by=Helm');
    const { code, stderr } = await run('upgrade');
    const reason = 'the installation in namespace portcullis belongs to Helm: use helm upgrade --reuse-values';
    assert.deepEqual([code, stderr], [2, `error: ${reason}\n`]);
    await kubectl('label', 'deployment', 'portcullis', '-n', 'portcullis', 'app.kubernetes.io/managed-by-');
  });

  test('rejects another namespace', async () => {
    const { code, stderr } = await run('install', '--namespace=security');
    assert.deepEqual(
      [code, stderr],
      [2, 'error: Portcullis is installed in namespace portcullis: use --namespace=portcullis\n'],
    );
  });

  test('keeps a serving certificate from another source', async () => {
    const env = [
      { name: 'PORTCULLIS_TLS_CERT_FILE', value: '/tls/tls.crt' },
      { name: 'PORTCULLIS_TLS_PRIVATE_KEY_FILE', value: '/tls/tls.key' },
    ];
    const containers = [{ name: 'portcullis', env, volumeMounts: [{ name: 'tls', mountPath: '/tls' }] }];
    const template = {
      metadata: { labels: { 'app.kubernetes.io/version': VERSION } },
      spec: { volumes: [{ name: 'tls', secret: { secretName: 'own' } }], containers },
    };
    const patch = JSON.stringify({ spec: { template } });
    await kubectl('patch', 'deployment', 'portcullis', '-n', 'portcullis', '-p', patch);
    await installAndClean();
    assert.deepEqual(await diff(await run('install')), []);
    assert.doesNotMatch(await kubectl('get', 'roles', '-n', 'portcullis', '-o=name'), /serving-certificate/);
    const kept = (await readPod()).containers[0]?.env.filter(({ name }) => name.startsWith('PORTCULLIS_TLS_'));
    assert.deepEqual(kept, env);
  });
});
