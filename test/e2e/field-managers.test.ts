/** Tests that a second field manager can apply the same manifests server-side without conflicts. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { VERSION } from '../../src/cli/command.ts';
import { buildPolicies } from '../../src/cli/installation/policies.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { ALL_FEATURES, buildManifests, defaultSettings, type ManifestSettings } from '../../src/install/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { useControlPlane } from '../support/control-plane/index.ts';
import { resolvePaths } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { CHART, runHelm, withoutHelm } from '../support/helm.ts';
import { hasKubectl, writeOverlay } from '../support/kubectl.ts';

const APPLY = { 'content-type': 'application/apply-patch+yaml' };

function parse(text: string): readonly JsonObject[] {
  const { documents, errors } = readDocuments(text, 'manifests');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value as JsonObject);
}

function install(change: Partial<ManifestSettings>): readonly JsonObject[] {
  return JSON.parse(JSON.stringify(buildManifests({ ...defaultSettings(VERSION), ...change }))) as JsonObject[];
}

suite('the manifests have no conflicts between field managers', async () => {
  const plane = await useControlPlane();

  /** Applies the objects as two field managers. Returns the conflicts of the second field manager. */
  const conflicts = async (objects: readonly JsonObject[]): Promise<readonly string[]> => {
    const apply = async (object: JsonObject, manager: string) => {
      // The API server serves new CRDs after a short delay.
      const { path } = await eventually(() => resolvePaths(plane.admin, object));
      return plane.admin.send('PATCH', `${path}?fieldManager=${manager}`, object, APPLY);
    };
    const found: string[] = [];
    for (const object of objects) {
      const first = await apply(object, 'kubectl');
      assert.ok(first.status < 300, first.text);
      const second = await apply(object, 'argocd-controller');
      if (second.status >= 300) found.push(second.text);
      // The other manifests contain the same objects with other content.
      if (object['kind'] !== 'Namespace')
        await plane.admin.send('DELETE', (await resolvePaths(plane.admin, object)).path);
    }
    return found;
  };

  test('with the default settings of install', async () => assert.deepEqual(await conflicts(install({})), []));

  test('with all features and static webhooks', async () => {
    const policy = {
      webhooks: { management: 'static' },
      kubelet: { taint: true },
      defaults: { mode: 'apply' },
      podSecurity: { exceptions: { mode: 'approved' } },
      olm: { hardening: { mode: 'force' } },
    };
    const manifests = install({ features: ALL_FEATURES, policy, spread: 'required', minAvailable: 2 });
    assert.deepEqual(await conflicts(manifests), []);
  });

  test('with install --without-server', async () => {
    const spec = {
      podSecurity: { defaults: { enforce: 'restricted' }, exemptions: { namespaces: ['kube-system'] } },
      defaults: { mode: 'apply' },
    };
    const policies = buildPolicies(spec, 'v1.37');
    assert.deepEqual(await conflicts(JSON.parse(JSON.stringify(policies)) as JsonObject[]), []);
  });

  test('with kustomize', { skip: hasKubectl ? false : 'kubectl is not installed' }, async () => {
    const components = ['kubelet', 'olm', 'high-availability', 'local'];
    const overlay = await writeOverlay(join(plane.folder, 'overlay'), components);
    const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', overlay], { encoding: 'utf8' });
    assert.deepEqual([status, stderr], [0, '']);
    assert.deepEqual(await conflicts(parse(stdout)), []);
  });

  test('with the chart', { skip: withoutHelm }, async () => {
    const features = '--set-json=features={"scc":true,"rollout":true,"kubelet":true,"olm":true}';
    const { status, stdout, stderr } = runHelm([
      'template',
      'any',
      CHART,
      '--namespace=portcullis',
      '--kube-version=1.37.0',
      features,
    ]);
    assert.equal(status, 0, stderr);
    assert.deepEqual(await conflicts(parse(stdout)), []);
  });
});
