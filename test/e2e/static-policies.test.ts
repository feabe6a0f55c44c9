/** Tests the policies that kube-apiserver reads from files, which `install --without-server --static` writes. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { JsonObject, Pod } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseMessage, responseObject } from '../support/answers.ts';
import { type ControlPlane, findVersionProblem, startControlPlane } from '../support/control-plane/index.ts';
import { allow, create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';
import { compliantPod, hostNetworkPod, plainPod } from '../support/pod-security.ts';

const POLICIES = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';

suite('policies in files of the API server', { skip: findVersionProblem(37) }, () => {
  let folder: string;
  let plane: ControlPlane;

  /** Writes the files of the command, and replaces the directory of control plane nodes. */
  const install = async (...args: readonly string[]): Promise<void> => {
    const { code, stderr } = await runProgram([
      ...['install', '--without-server', '--static', '--for-kubernetes=1.37', `--output-dir=${folder}`],
      ...['--set=podSecurity.exemptions.namespaces=[kube-system]', ...args],
    ]);
    assert.equal(code, 0, stderr);
    const file = join(folder, 'admission/admission.yaml');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replaceAll('/etc/kubernetes', folder));
  };
  const send = async (namespace: string, { metadata, ...pod }: Pod) =>
    await plane.admin.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, {
      ...pod,
      metadata: { ...metadata, namespace },
    });
  const denial = async (namespace: string, pod: Pod): Promise<string> => {
    const answer = await send(namespace, pod);
    return answer.status === 201 ? '' : `${answer.status} ${String(responseMessage(answer))}`;
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    await install(
      '--set=podSecurity.defaults.enforce=baseline',
      '--set=guard.labels=enforce',
      '--set=defaults={mode: apply, namespaceSelector: {matchLabels: {defaults: apply}}}',
    );
    plane = await startControlPlane({ admissionConfig: join(folder, 'admission/admission.yaml') });
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    for (const [name, metadata] of Object.entries({
      plain: {},
      strict: { labels },
      defaulted: { labels: { ...labels, defaults: 'apply' } },
    })) {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, ...metadata } };
      assert.equal((await create(plane.admin, namespace)).status, 201);
    }
  });
  after(async () => {
    await plane?.stop();
    await rm(folder, { recursive: true });
  });

  const prefix = (name: string, binding = name): string =>
    `403 pods "p" is forbidden: ValidatingAdmissionPolicy '${name}.psa.portcullis.dev.static.k8s.io' with binding '${binding}.psa.portcullis.dev.static.k8s.io' denied request: `;

  test('protect the labels of namespaces from users without the lower verb', async () => {
    const rule = { apiGroups: [''], resources: ['namespaces'], verbs: ['patch'] };
    await allow(plane.admin, 'writers', ['alice'], [rule]);
    const patch = { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } } };
    const lower = async (headers: Readonly<Record<string, string>>) =>
      await plane.admin.send('PATCH', '/api/v1/namespaces/strict?dryRun=All', patch, {
        'content-type': 'application/merge-patch+json',
        ...headers,
      });
    assert.match(
      String(responseMessage(await lower({ 'impersonate-user': 'alice' }))),
      /guard\.psa\.portcullis\.dev\.static\.k8s\.io' denied request: lowers the enforced level from restricted to privileged/,
    );
    assert.equal((await lower({})).status, 200);
  });

  test('deny pods that violate the default level or the level of the namespace', async () => {
    assert.equal(
      await denial('plain', hostNetworkPod()),
      `${prefix('enforce-baseline', 'enforce-baseline-unlabeled')}violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`,
    );
    assert.equal(await denial('plain', plainPod()), '');
    assert.ok((await denial('strict', plainPod())).startsWith(prefix('enforce-restricted')));
    assert.equal(await denial('strict', compliantPod()), '');
  });

  test('set the defaults of pods', async () => {
    const answer = await send('defaulted', plainPod());
    const spec = responseObject(answer)['spec'] as JsonObject;
    assert.deepEqual(spec['securityContext'], { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  });

  test('are not API objects, so no request can change them', async () => {
    const listed = responseItems(await plane.admin.send('GET', POLICIES));
    assert.deepEqual(
      listed.map((item) => objectMetadata(item)['name']),
      [],
    );
    const name = 'enforce-baseline.psa.portcullis.dev.static.k8s.io';
    assert.equal((await plane.admin.send('DELETE', `${POLICIES}/${name}`)).status, 404);
  });

  test('change within a minute after their files change, without a restart', async () => {
    await install(
      '--set=podSecurity.defaults.enforce=privileged',
      '--set=defaults={mode: apply, namespaceSelector: {matchLabels: {defaults: apply}}}',
    );
    await eventually(async () => assert.equal(await denial('plain', hostNetworkPod()), ''), 90_000);
  });
});
