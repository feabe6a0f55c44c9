import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments, stringify } from 'yaml';
import { createAll } from '../../../src/cli/serve/dev-cluster.ts';
import { OLM_DEFINITIONS } from '../../../src/dev-cluster/index.ts';
import { applyJsonPatch } from '../../../src/dev-cluster/json-patch.ts';
import type { Kind } from '../../../src/kube/kinds.ts';
import { objectPath } from '../../../src/kube/resources.ts';
import type { JsonObject, KubeObject } from '../../../src/kube/types.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const FILES = ['00-namespaces', 'catalogs', 'operators', 'controllers', 'unpack-job'].map(
  (name) => `examples/olm/${name}.yaml`,
);

const readObjects = (): readonly KubeObject[] =>
  FILES.flatMap((file) => parseAllDocuments(readFileSync(file, 'utf8')).map((one) => one.toJS() as KubeObject));

const CATALOG = { apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource' };

interface Report {
  readonly platform: string;
  readonly objects: readonly {
    readonly kind: string;
    readonly namespace: string;
    readonly name: string;
    readonly changes: readonly unknown[];
    readonly notes: readonly string[];
    readonly patch?: readonly JsonObject[];
  }[];
}

async function harden(args: readonly string[], stdin = ''): Promise<Report & { readonly code: number }> {
  const { code, stdout, stderr } = await runProgram(['olm', 'harden', ...args, '-o', 'json'], { stdin });
  assert.equal(stderr, '');
  return { code, ...(JSON.parse(stdout) as Report) };
}

const RESTORED =
  'OLM restores this Deployment: change spec.install.spec.deployments[0] of the ClusterServiceVersion olm/packageserver';

describe('olm harden prints', () => {
  test('the mode of each catalog, and the supported field that replaces disableSecurity', async () => {
    const stdout = `\
CatalogSource openshift-marketplace/community: restricted (spec.grpcPodConfig.securityContextConfig)
  complies

CatalogSource openshift-marketplace/sqlite: legacy (spec.disableSecurity)
  spec.disableSecurity removed (was true)
  spec.grpcPodConfig.securityContextConfig="legacy"
  the OLM CRD drops spec.disableSecurity, and no release reads it. Use spec.grpcPodConfig.securityContextConfig instead
  kubectl -n openshift-marketplace patch catalogsource sqlite --type=json -p '[{"op":"remove","path":"/spec/disableSecurity"},{"op":"add","path":"/spec/grpcPodConfig","value":{"securityContextConfig":"legacy"}}]'

2 objects of OLM, 1 to change
`;
    const args = [
      'olm',
      'harden',
      ...['00-namespaces', 'catalogs'].flatMap((name) => ['-f', `examples/olm/${name}.yaml`]),
    ];
    assert.deepEqual(await runProgram(args), { code: 1, stdout, stderr: '' });
  });

  test('the changes to a workload, and for a Deployment that OLM restores, the object to change instead', async () => {
    const args = ['olm', 'harden', '-f', 'examples/olm/00-namespaces.yaml', '-f', 'examples/olm/controllers.yaml'];
    const { stdout } = await runProgram(args);
    const lines = stdout.split('\n').filter((line) => !line.includes('kubectl'));
    const changes = (path: string): readonly string[] => [
      `  ${path}.containers[0].securityContext: privileged=false readOnlyRootFilesystem=true allowPrivilegeEscalation=false capabilities.drop=["ALL"]`,
      `  ${path}.containers[0].volumeMounts=[{"name":"tmpfs","mountPath":"/tmp"}]`,
      `  ${path}.volumes=[{"name":"tmpfs","emptyDir":{}}]`,
      `  ${path}.securityContext: seccompProfile.type="RuntimeDefault" runAsNonRoot=true`,
    ];
    assert.deepEqual(lines, [
      'ClusterServiceVersion olm/packageserver (spec.install.spec.deployments[0]): olm-controller',
      ...changes('spec.install.spec.deployments[0].spec.template.spec'),
      '',
      'Deployment olm/catalog-operator: olm-controller',
      ...changes('spec.template.spec'),
      '',
      'Deployment olm/packageserver: olm-controller',
      ...changes('spec.template.spec'),
      `  ${RESTORED}`,
      '',
      '3 objects of OLM, 3 to change',
      '',
    ]);
  });

  test('patches for manifests, after which only a Deployment that OLM restores still needs changes', async () => {
    const { code, objects } = await harden(FILES.flatMap((file) => ['-f', file]));
    assert.equal(code, 1);
    const patched = readObjects().map((object) => {
      const { kind, metadata } = object;
      const isSame = (one: Report['objects'][number]): boolean =>
        one.kind === kind && one.name === metadata?.name && one.namespace === metadata.namespace;
      return applyJsonPatch(
        object,
        objects.filter(isSame).flatMap(({ patch = [] }) => patch),
      );
    });
    const again = await harden(['-f', '-'], patched.map((one) => stringify(one)).join('---\n'));
    const differing = again.objects.filter(({ changes }) => changes.length > 0);
    assert.deepEqual(
      differing.map(({ kind, name, notes, patch }) => ({ kind, name, notes, patch })),
      [{ kind: 'Deployment', name: 'packageserver', notes: [RESTORED], patch: undefined }],
    );
  });

  test('the less strict values that are kept without --force', async () => {
    const deployment = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'olm-operator', namespace: 'olm' },
      spec: {
        selector: { matchLabels: { app: 'olm-operator' } },
        template: {
          metadata: { labels: { app: 'olm-operator' } },
          spec: { containers: [{ name: 'a', image: 'a', securityContext: { allowPrivilegeEscalation: true } }] },
        },
      },
    };
    const stdin = stringify(deployment);
    const path = 'spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation';
    const [kept] = (await harden(['-f', '-'], stdin)).objects;
    assert.deepEqual(kept?.notes, [`${path}: true is kept because it is set explicitly`]);
    const [forced] = (await harden(['-f', '-', '--force'], stdin)).objects;
    assert.deepEqual(forced?.notes, []);
  });

  test('labels for the namespaces', async () => {
    const args = ['-f', 'examples/olm/00-namespaces.yaml', '-f', 'examples/olm/catalogs.yaml'];
    const { code, stdout } = await runProgram(['olm', 'harden', 'namespaces', ...args]);
    assert.equal(code, 1);
    const label = 'kubectl label namespace';
    const options = '--overwrite --field-manager=portcullis-olm-harden';
    const pss = 'pod-security.kubernetes.io';
    assert.equal(
      stdout,
      `\
olm
  ${label} olm ${options} ${pss}/enforce=restricted ${pss}/enforce-version=latest

openshift-marketplace
  restricted requires securityContextConfig "restricted" in CatalogSources sqlite
  ${label} openshift-marketplace ${options} ${pss}/enforce=baseline ${pss}/enforce-version=latest ${pss}/audit=baseline ${pss}/audit-version=latest ${pss}/warn=baseline ${pss}/warn-version=latest
`,
    );
  });

  test('errors for fields with the wrong type', async () => {
    const labels = { app: 'olm-operator' };
    const template = { metadata: { labels }, spec: { containers: [null] } };
    const deployments = [1, { name: 5, label: { app: 3 }, spec: { template: 7 } }, { spec: { template } }];
    const junk = [
      { ...CATALOG, metadata: { name: 'c', namespace: 'olm' }, spec: 'text' },
      {
        ...CATALOG,
        kind: 'ClusterServiceVersion',
        metadata: { name: 'd', namespace: 'olm' },
        spec: { install: { spec: { deployments } } },
      },
    ];
    const { stdout, code } = await runProgram(['olm', 'harden', '-f', '-'], {
      stdin: junk.map((one) => stringify(one)).join('---\n'),
    });
    assert.equal(code, 0);
    const path = 'spec.template.spec.containers[0]';
    assert.equal(
      stdout,
      `\
CatalogSource olm/c: no pods
  complies

ClusterServiceVersion olm/d (spec.install.spec.deployments[2]): olm-controller
  spec.install.spec.deployments[2].${path} must be an object

Assumed: namespaces: olm.

2 objects of OLM, 0 to change
`,
    );
  });
});

describe('olm harden with a cluster', () => {
  let started: TestCluster;
  before(async () => void (started = await startCluster()));
  after(() => started.stop());

  test('works without OLM, and prints patches that the API server accepts', async () => {
    const args = ['--kubeconfig', await started.kubeconfig()];
    const without = await runProgram(['olm', 'harden', ...args]);
    assert.equal(without.code, 0);
    assert.match(without.stdout, /no catalogsources\.operators\.coreos\.com: the cluster does not serve them/);
    const { cluster } = started;
    await createAll(
      cluster,
      [...OLM_DEFINITIONS, ...readObjects()].map((value) => ({ value, origin: 'test' })) as never,
    );
    const { objects, platform } = await harden(args);
    assert.equal(platform, 'kubernetes');
    const table = await runProgram(['olm', 'harden', ...args]);
    const commands = table.stdout.split('\n').filter((line) => line.startsWith('  kubectl '));
    assert.ok(commands.length > 0);
    for (const command of commands) assert.ok(command.endsWith(` --kubeconfig=${args[1]}`), command);
    const job = objects.find(({ kind }) => kind === 'Job');
    assert.deepEqual(job?.notes, [
      'the pods of an existing Job cannot be changed: set spec.olm.hardening.mode, which hardens new pods',
    ]);
    assert.equal(job.patch, undefined);
    for (const { kind, namespace, name, patch = [] } of objects) {
      if (patch.length === 0) continue;
      const path = objectPath(kind as Kind, name, namespace);
      const type = { 'content-type': 'application/json-patch+json' };
      const { status, text } = await started.admin.send('PATCH', path, patch, type);
      assert.equal(status, 200, text);
    }
    const again = await harden(args);
    const left = again.objects.filter(({ changes }) => changes.length > 0).map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(left, ['Deployment packageserver', 'Job 3c1f2a9e']);
  });
});
