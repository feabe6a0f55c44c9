/**
 * Tests the lifecycle of Helm releases and kustomizations on a cluster without nodes. Replicas run only as test
 * processes.
 */
import assert from 'node:assert/strict';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { VERSION } from '../../src/cli/command.ts';
import {
  buildManifests,
  defaultSettings,
  type Profile,
  PROFILES,
  staticWebhookConfigurations,
} from '../../src/install/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseObject } from '../support/answers.ts';
import { ASSETS, createSystem, useControlPlane } from '../support/control-plane/index.ts';
import { create, replicaArguments } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { CHART, runHelm, withoutHelm } from '../support/helm.ts';
import { createKubectl, hasKubectl, writeOverlay } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';

const needed = ASSETS === undefined || !hasKubectl ? 'KUBEBUILDER_ASSETS and kubectl are needed' : false;

const LABEL = 'app.kubernetes.io/part-of=portcullis';

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { generateName: 'any-', namespace: 'default' },
  spec: { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] },
};

const SECURITY = ['--namespace=security', '--create-namespace'];

/** Returns the names of the objects of a kind in an installation. */
function names(kind: string, profile: Profile): readonly string[] {
  const manifests = buildManifests({ ...defaultSettings(VERSION), ...PROFILES[profile] });
  return manifests.filter((manifest) => manifest.kind === kind).map(({ metadata }) => metadata.name);
}

const DEFINITIONS = names('CustomResourceDefinition', 'default').join(' ');

const CONFIGURATIONS = 'validatingwebhookconfigurations,mutatingwebhookconfigurations';
const DEPLOYMENTS = '/apis/apps/v1/%/deployments';

interface Service {
  readonly spec?: { readonly clusterIP: string };
}

/**
 * Reason to skip tests of the Service, or false. For these tests, this process must listen on the Service port on
 * loopback.
 */
const withoutPort = await new Promise<string | false>((resolve) => {
  const server = createServer().once('error', () => resolve('this process may not listen on port 443 on loopback'));
  server.listen(443, `127.1.${process.pid & 255}.1`, () => server.close(() => resolve(false)));
});

await suite('a Helm release', { skip: withoutHelm === false ? needed : withoutHelm }, async () => {
  const plane = await useControlPlane();
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const kubectl = createKubectl(kubeconfig);
  const helm = (...args: readonly string[]) =>
    runHelm(args, { KUBECONFIG: kubeconfig, HELM_CACHE_HOME: plane.folder, HELM_CONFIG_HOME: plane.folder });
  /** Copies a chart and removes a part of one of its files. */
  const copyChart = async (from: string, name: string, path: string, part: RegExp): Promise<string> => {
    const copy = join(plane.folder, name);
    await cp(from, copy, { recursive: true });
    const text = await readFile(join(copy, path), 'utf8');
    assert.match(text, part);
    await writeFile(join(copy, path), text.replace(part, ''));
    return copy;
  };
  // A kube-apiserver that was built from a commit has no version.
  const chart = await copyChart(CHART, 'new', 'Chart.yaml', /^kubeVersion:.*\n/m);

  const succeeds = (...args: readonly string[]): string => {
    const { status, stdout, stderr } = helm(...args);
    assert.equal(status, 0, stderr);
    return stdout;
  };

  const isHelm3 = succeeds('version', '--short').startsWith('v3');

  const list = async (resource: string): Promise<readonly string[]> => {
    const { code, stdout, stderr } = await kubectl(['get', resource, '-A', '-o=name', '-l', LABEL]);
    assert.equal(code, 0, stderr);
    return stdout.split('\n').filter((line) => line !== '');
  };

  test('leaves no webhook and no release if it is installed atomically and its replicas do not start', async () => {
    const { status, stderr } = helm('install', 'first', chart, ...SECURITY, '--atomic', '--timeout=3s');
    assert.equal(status, 1);
    assert.match(
      stderr,
      /release first failed, and has been uninstalled due to (atomic|rollback-on-failure) being set/,
    );
    // Helm 4 lists all releases by default.
    assert.equal(succeeds('list', ...(isHelm3 ? ['--all'] : []), '--namespace=security', '--short'), '');
    assert.deepEqual(await list(CONFIGURATIONS), []);
  });

  test('deletes the webhooks when it is uninstalled, even if no replica ever started', async () => {
    const notes = succeeds('install', 'first', chart, ...SECURITY, '--set=hostNetwork=true');
    assert.match(notes, /kubectl label namespace security pod-security\.kubernetes\.io\/enforce=privileged\n/);
    assert.match(notes, /These objects remain after helm uninstall:\n- the CustomResourceDefinitions with /);
    // The leader registers webhooks that the chart does not contain.
    for (const object of staticWebhookConfigurations(defaultSettings(VERSION))) {
      const { status, text } = await create(plane.admin, object);
      assert.ok(status === 201 || status === 409, text);
    }
    const output = succeeds('uninstall', 'first', '--namespace=security');
    assert.match(output, /These resources were kept due to the resource policy:/);
    assert.deepEqual(await list(CONFIGURATIONS), []);
    await eventually(async () => {
      const { status, text } = await create(plane.admin, POD);
      assert.equal(status, 201, text);
    });
  });

  test('leaves only the CRDs when it is uninstalled', async () => {
    const kinds = 'deployments,services,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts';
    assert.deepEqual(await list(`${kinds},jobs,configmaps,secrets,networkpolicies,resourcequotas`), []);
    assert.deepEqual(
      await list('customresourcedefinitions'),
      DEFINITIONS.split(' ')
        .toSorted()
        .map((name) => `customresourcedefinition.apiextensions.k8s.io/${name}`),
    );
  });

  test('can adopt the CRDs of a former release with the commands in the error message', async () => {
    const { status, stderr } = helm('install', 'second', chart, '--namespace=other', '--create-namespace');
    assert.equal(status, 1);
    const [, message = ''] = /(these CustomResourceDefinitions[^]*)$/.exec(stderr) ?? [];
    assert.equal(
      message.trimEnd(),
      `these CustomResourceDefinitions exist and do not belong to the release second: ${DEFINITIONS}

Adopt them, with all their objects, and repeat the command:

  kubectl label crd ${DEFINITIONS} app.kubernetes.io/managed-by=Helm --overwrite
  kubectl annotate crd ${DEFINITIONS} meta.helm.sh/release-name=second meta.helm.sh/release-namespace=other --overwrite

Or let the other tool update them: --set crds.install=false`,
    );
    for (const [, command = ''] of message.matchAll(/^ {2}kubectl (.*)$/gm)) {
      const result = await kubectl(command.split(' '));
      assert.equal(result.code, 0, result.stderr);
    }
    succeeds('install', 'second', chart, '--namespace=other', '--create-namespace');
  });

  test('restores the CRDs when it is upgraded, and requires no new values', async () => {
    const name = 'customresourcedefinition/psaenforcementconfigs.config.openshift.io';
    const columns = ['-o=jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}'];
    const before = await kubectl(['get', name, ...columns]);
    const patch = '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]';
    const patched = await kubectl(['patch', name, '--type=json', `--patch=${patch}`]);
    assert.equal(patched.code, 0, patched.stderr);
    const old = await copyChart(chart, 'old', 'values.yaml', /^startupProbe:\n(?: .*\n)+/m);
    // Helm 4 uses server-side apply, and overwrites fields of other clients only with this flag.
    const force = isHelm3 ? [] : ['--force-conflicts'];
    succeeds('upgrade', 'second', old, '--namespace=other', '--set=replicaCount=1,nodeSelector=null', ...force);
    succeeds('upgrade', 'second', chart, '--namespace=other', '--reuse-values', '--set=crds.keep=false');
    const deployment = ['get', 'deployment', 'portcullis', '--namespace=other'];
    const fields = '{.spec.replicas} {.spec.template.spec.nodeSelector} {..startupProbe.periodSeconds}';
    assert.equal((await kubectl([...deployment, `-o=jsonpath=${fields}`])).stdout, '1  2');
    assert.deepEqual(await kubectl(['get', name, ...columns]), before);
    succeeds('uninstall', 'second', '--namespace=other');
    assert.deepEqual(await list('customresourcedefinitions'), []);
  });

  const read = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
  const installed = (resource: string): Promise<JsonObject> =>
    read(`${resource.replace('%', 'namespaces/portcullis')}/portcullis`);

  test('changes its settings in an upgrade while replicas run behind the Service', { skip: withoutPort }, async (t) => {
    const values = ['--namespace=portcullis', '--create-namespace', '--set=image.registry=registry.example.com'];
    succeeds('install', 'third', chart, ...values);
    const { spec } = (await installed('/api/v1/%/services')) as Service;
    const deployment = await installed(DEPLOYMENTS);
    const system = await createSystem(plane, {
      host: spec?.clusterIP ?? '',
      port: 443,
      objectsFor: () => [deployment],
    });
    t.after(() => system.stop());
    await create(plane.admin, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'portcullis-1',
        namespace: 'portcullis',
        labels: { 'kubernetes.io/service-name': 'portcullis' },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.7'] }],
      ports: [],
    });
    await system.add(1);
    await eventually(async () => assert.equal((await list(CONFIGURATIONS)).length, 1), 30_000);
    const patch = '{"spec":{"podSecurity":{"defaults":{"warn":"restricted"}}}}';
    const patched = await kubectl(['patch', 'portcullisconfiguration', 'cluster', '--type=merge', '-p', patch]);
    assert.equal(patched.code, 0, patched.stderr);

    const levels = 'settings.podSecurity.defaults.enforce=baseline,settings.podSecurity.defaults.warn=privileged';
    succeeds('upgrade', 'third', chart, '--namespace=portcullis', '--reuse-values', `--set=${levels}`);
    const [old] = system.replicas;
    await system.add(1, { args: replicaArguments([await installed(DEPLOYMENTS)]) });
    if (old) await system.retire(old);
    await eventually(async () => {
      const settings = await read('/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster');
      assert.deepEqual(settings['spec'], { podSecurity: { defaults: { enforce: 'baseline', warn: 'restricted' } } });
      const { status, text } = await create(plane.admin, { ...POD, spec: { ...POD.spec, hostNetwork: true } });
      assert.equal(status, 403, text);
      assert.match(text, /admission webhook \\"validate\.pods\.portcullis\.dev\\" denied the request: /);
      const path = '{.webhooks[?(@.failurePolicy=="Fail")].name}';
      const { stdout } = await kubectl([
        'get',
        'validatingwebhookconfiguration',
        'portcullis.dev',
        `-o=jsonpath=${path}`,
      ]);
      assert.ok(stdout.split(' ').includes('validate.pods.portcullis.dev'), stdout);
    }, 30_000);
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { stdout } = await runProgram(['doctor', '-o', 'json', `--kubeconfig=${kubeconfig}`]);
    const { findings } = JSON.parse(stdout) as { readonly findings: readonly Record<string, string>[] };
    const problems = findings.filter(({ severity }) => severity === 'problem' || severity === 'warning');
    // The Deployment has no pods.
    assert.deepEqual([...new Set(problems.map(({ check }) => check))], ['replicas']);
  });
});

suite('a change to kustomize components', { skip: needed }, async () => {
  const plane = await useControlPlane();
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const run = createKubectl(kubeconfig, { KUBECTL_APPLYSET: 'true' });
  const kubectl = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(args);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  await kubectl('create', 'namespace', 'portcullis');

  const apply = async (components: readonly string[], ...flags: readonly string[]): Promise<string> => {
    const overlay = await writeOverlay(join(plane.folder, 'overlay'), components);
    return kubectl('apply', '--server-side', '--force-conflicts', '-k', overlay, ...flags);
  };

  const list = async (kinds: string): Promise<readonly string[]> => {
    const lines = (await kubectl('get', kinds, '-o=name', '-A', '-l', LABEL)).split('\n');
    return lines.filter((line) => line !== '').map((name) => name.replace(/^.*\//, ''));
  };

  const ROLES = names('ClusterRole', 'default').toSorted();
  const REGISTERED = [
    ...names('ValidatingWebhookConfiguration', 'default'),
    ...names('MutatingWebhookConfiguration', 'default'),
  ];

  test('leaves behind webhooks and roles, for which doctor prints the commands that delete them', async () => {
    await apply(['scc']);
    await apply([]);
    const remaining = async () => {
      const { stdout } = await runProgram(['doctor', '-o', 'json', `--kubeconfig=${kubeconfig}`]);
      const { findings } = JSON.parse(stdout) as { readonly findings: readonly Record<'message' | 'fix', string>[] };
      return findings.filter(({ message }) =>
        /remain from previous settings|is not defined in this version/.test(message),
      );
    };
    const findings = await remaining();
    assert.notEqual(findings.length, 0);
    for (const { fix } of findings) await kubectl(...fix.replace(/^kubectl /, '').split(' '));
    assert.deepEqual(await remaining(), []);
    assert.deepEqual(await list('clusterroles'), ROLES);
    assert.deepEqual(await list(CONFIGURATIONS), REGISTERED);
  });

  test('deletes the obsolete objects if an ApplySet is used as in docs/how-to/install.md', async () => {
    const set = ['--namespace=portcullis', '--prune', '--applyset=portcullis-objects'];
    await apply(['scc'], ...set);
    assert.ok((await list('clusterroles')).length > ROLES.length);
    await apply([], ...set);
    assert.deepEqual(await list('clusterroles'), ROLES);
    assert.deepEqual(await list(CONFIGURATIONS), REGISTERED);
    const definitions = names('CustomResourceDefinition', 'default').toSorted();
    assert.deepEqual(await list('customresourcedefinitions'), definitions);
  });
});
