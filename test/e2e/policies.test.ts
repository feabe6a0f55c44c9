/** The generated policies and the plugin PodSecurity of a kube-apiserver, with the same pods. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { readDocuments } from '../../src/config/yaml.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { MAX_POLICY_ITEMS } from '../../src/policy/psa/admission-policies.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { readLines } from '../support/conformance/cases.ts';
import { ASSETS, startControlPlane, type ControlPlane } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';
import { compliantPod, hostNetworkPod } from '../support/pod-security.ts';

const skip = ASSETS === undefined && 'the development cluster has no ValidatingAdmissionPolicy';

/** The policies of the namespaces. */
const POLICIES = ['baseline', 'restricted'].flatMap((level) =>
  ['v1.0', 'v1.18', 'v1.24', 'v1.34', 'latest'].map((version) => ({ level, version })),
);
type Policy = (typeof POLICIES)[number];

type Evaluator = 'plugin' | 'policy';

function namespaceOf(evaluator: Evaluator, mode: 'enforce' | 'warn', { level, version }: Policy): string {
  return `${evaluator}-${mode}-${level}-${version.replace('.', '-')}`;
}

function listNamespaces(evaluator: Evaluator): string[] {
  return POLICIES.flatMap((policy) =>
    (['enforce', 'warn'] as const).map((mode) => namespaceOf(evaluator, mode, policy)),
  );
}

/** The pods of the fixtures, and a sample of the recorded ones, with the fields that API servers require. */
function readPods(): JsonObject[] {
  const folder = join(import.meta.dirname, '../fixtures');
  const fixtures = globSync('pss/**/*.yaml', { cwd: folder }).map(
    (file) => parse(readFileSync(join(folder, file), 'utf8')) as JsonObject,
  );
  const random = readLines<{ readonly pod: JsonObject }>('random/pss-random.ndjson.gz').filter(
    (_, index) => index % 30 === 0,
  );
  return [...fixtures, ...random.map(({ pod }) => pod)].map((pod) => {
    const spec = (pod['spec'] ?? {}) as Readonly<Record<string, JsonObject[]>>;
    const complete = (list: readonly JsonObject[] = []) =>
      list.map((container) => ({ image: 'registry.example.com/i:1', ...container }));
    const { annotations } = (pod['metadata'] ?? {}) as JsonObject;
    const containers = { containers: complete(spec['containers']), initContainers: complete(spec['initContainers']) };
    // Pods with ephemeral containers cannot be created.
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', annotations },
      spec: { ...spec, ...containers, ephemeralContainers: undefined },
    };
  });
}

/** The status, the message and the warnings, without what API servers add for a policy. */
async function send(
  plane: ControlPlane,
  path: string,
  { metadata, ...object }: object & { readonly metadata?: object },
) {
  const answer = await plane.admin.send('POST', `${path}?dryRun=All`, {
    ...object,
    metadata: { ...metadata, namespace: undefined },
  });
  const plain = (text: string): string =>
    text
      .replaceAll(/ValidatingAdmissionPolicy '[^']+' with binding '[^']+'(?: denied request)?: /g, '')
      .replace('Validation failed for ', '');
  const message = answer.status === 201 ? '' : plain(String(responseMessage(answer)));
  return { status: answer.status, message, warnings: answer.warnings.map(plain).sort() };
}

async function applyPolicies(plane: ControlPlane, stdout: string): Promise<void> {
  for (const { value } of readDocuments(stdout, 'policies').documents) {
    const answer = await create(plane.admin, value as JsonObject);
    assert.equal(answer.status, 201, answer.text);
  }
}

function configuration(exempt: readonly string[]): JsonObject {
  const apiVersion = 'pod-security.admission.config.k8s.io/v1';
  return { apiVersion, kind: 'PodSecurityConfiguration', exemptions: { namespaces: exempt } };
}

async function writeAdmissionConfig(folder: string, name: string, plugin: JsonObject): Promise<string> {
  const file = join(folder, 'admission.json');
  const config = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [{ name, configuration: plugin }],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

suite('policies and the plugin PodSecurity', { skip }, () => {
  let folder: string;
  let plane: ControlPlane;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-policies-'));
    const admissionConfig = await writeAdmissionConfig(folder, 'PodSecurity', configuration(listNamespaces('policy')));
    plane = await startControlPlane({ podSecurityPlugin: 'on', admissionConfig });
    const settings = join(folder, 'settings.json');
    await writeFile(settings, JSON.stringify(configuration(listNamespaces('plugin'))));
    const { minor = '' } = responseObject(await plane.admin.send('GET', '/version')) as Record<string, string>;
    const release = `1.${Number.parseInt(minor)}`;
    const { stdout } = await runProgram(['policies', 'generate', '--config', settings, '--for-kubernetes', release]);
    await applyPolicies(plane, stdout);
    for (const evaluator of ['plugin', 'policy'] as const) {
      for (const policy of POLICIES) {
        for (const mode of ['enforce', 'warn'] as const) {
          const key = `pod-security.kubernetes.io/${mode}`;
          const labels = { [key]: policy.level, [`${key}-version`]: policy.version };
          const metadata = { name: namespaceOf(evaluator, mode, policy), labels };
          assert.equal((await create(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata })).status, 201);
        }
      }
    }
    await eventually(async () => {
      for (const evaluator of ['plugin', 'policy'] as const) {
        for (const policy of POLICIES) {
          const path = `/api/v1/namespaces/${namespaceOf(evaluator, 'enforce', policy)}/pods`;
          assert.equal((await send(plane, path, hostNetworkPod())).status, 403);
        }
      }
    });
  });
  after(async () => {
    await plane.stop();
    await rm(folder, { recursive: true });
  });

  test('have the same verdicts and texts about pods', async () => {
    const counts = { allowed: 0, denied: 0 };
    for (const pod of readPods()) {
      await Promise.all(
        POLICIES.map(async (policy) => {
          const [plugin, own] = await Promise.all(
            (['plugin', 'policy'] as const).map((evaluator) =>
              send(plane, `/api/v1/namespaces/${namespaceOf(evaluator, 'enforce', policy)}/pods`, pod),
            ),
          );
          const name = (text: string): string => text.replaceAll(/(?:plugin|policy)-enforce/g, 'ns');
          assert.deepEqual(
            { ...own, message: name(own?.message ?? '') },
            { ...plugin, message: name(plugin?.message ?? '') },
          );
          if (own?.status === 201) counts.allowed++;
          if (own?.status === 403) counts.denied++;
        }),
      );
    }
    assert.ok(counts.allowed > 100 && counts.denied > 100, JSON.stringify(counts));
    console.log(`${counts.allowed} allowed and ${counts.denied} denied pods have equal answers`);
  });

  test('have the same warnings about workloads', async () => {
    let warned = 0;
    for (const pod of readPods()) {
      const { spec, metadata } = pod as { readonly spec: object; readonly metadata: object };
      const template = { metadata: { ...metadata, labels: { a: 'b' } }, spec };
      const deployment = { metadata: { name: 'd' }, spec: { selector: { matchLabels: { a: 'b' } }, template } };
      await Promise.all(
        POLICIES.slice(3).map(async (policy) => {
          const [plugin, own] = await Promise.all(
            (['plugin', 'policy'] as const).map((evaluator) =>
              send(plane, `/apis/apps/v1/namespaces/${namespaceOf(evaluator, 'warn', policy)}/deployments`, deployment),
            ),
          );
          assert.deepEqual([own?.status, own?.warnings], [plugin?.status, plugin?.warnings]);
          if (own?.warnings.some((text) => text.includes('would violate'))) warned++;
        }),
      );
    }
    assert.ok(warned > 100, String(warned));
  });

  test('differ about pods with more items than policies evaluate', async () => {
    const path = `/api/v1/namespaces/${namespaceOf('policy', 'enforce', { level: 'restricted', version: 'latest' })}/pods`;
    const [container] = compliantPod().spec?.containers ?? [];
    const repeat = <T>(count: number, item: (index: number) => T): T[] =>
      Array.from({ length: count }, (_, index) => item(index));
    const good = (count: number) =>
      compliantPod({ containers: repeat(count, (index) => ({ ...container, name: `c${index}` })) });
    const privileged = { privileged: true, capabilities: { add: [] } };
    const bad = compliantPod({
      containers: repeat(MAX_POLICY_ITEMS - 1, (index) => ({
        name: `c${index}`,
        image: 'i',
        securityContext: privileged,
      })),
    });
    const capabilities = { drop: ['ALL'], add: repeat(60_000, () => 'NET_BIND_SERVICE') };
    const large = compliantPod({}, { securityContext: { ...container?.securityContext, capabilities } });
    // The volume of the service account counts, too.
    assert.equal((await send(plane, path, good(MAX_POLICY_ITEMS - 1))).status, 201);
    // The text exceeds the 5 KiB of a message.
    assert.deepEqual(await send(plane, path, bad), {
      status: 403,
      message: 'pods "p" is forbidden: violates PodSecurity "restricted"',
      warnings: [],
    });
    for (const pod of [good(MAX_POLICY_ITEMS + 1), good(3000), large]) {
      assert.match(
        (await send(plane, path, pod)).message,
        /violates PodSecurity "restricted:latest": too many containers, volumes, ports/,
      );
    }
  });

  test('policies for old API servers are accepted', async () => {
    const { stdout } = await runProgram(['policies', 'generate', '--for-kubernetes', '1.30']);
    for (const { value } of readDocuments(stdout, 'policies').documents) {
      const { kind, metadata } = value as { readonly kind: string; readonly metadata: { readonly name: string } };
      const resource = kind.endsWith('Binding') ? 'validatingadmissionpolicybindings' : 'validatingadmissionpolicies';
      const path = `/apis/admissionregistration.k8s.io/v1/${resource}?dryRun=All`;
      const object = { ...(value as object), metadata: { ...metadata, name: `old-${metadata.name}` } };
      const answer = await plane.admin.send('POST', path, object);
      assert.equal(answer.status, 201, answer.text);
    }
  });
});

suite('static policies', { skip }, () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-static-'));
    await mkdir(join(folder, 'manifests'));
  });
  after(() => rm(folder, { recursive: true }));

  async function start(manifest: string): Promise<ControlPlane> {
    const staticManifestsDir = join(folder, 'manifests');
    await writeFile(join(staticManifestsDir, 'policies.yaml'), manifest);
    const kind = 'ValidatingAdmissionPolicyConfiguration';
    const plugin = { apiVersion: 'apiserver.config.k8s.io/v1', kind, staticManifestsDir };
    const admissionConfig = await writeAdmissionConfig(folder, 'ValidatingAdmissionPolicy', plugin);
    return await startControlPlane({ admissionConfig, featureGates: 'ManifestBasedAdmissionControlConfig=true' });
  }

  test('are enforced, and invisible in the API', async () => {
    const { stdout } = await runProgram([
      'policies',
      'generate',
      '--static',
      '--level',
      'baseline',
      '--for-kubernetes',
      '1.36',
    ]);
    const plane = await start(stdout);
    try {
      await eventually(async () => {
        const { status, message } = await send(plane, '/api/v1/namespaces/default/pods', hostNetworkPod());
        assert.deepEqual(
          [status, message],
          [403, 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'],
        );
      });
      const list = await plane.admin.send('GET', '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies');
      assert.deepEqual((list.body as { readonly items: readonly unknown[] }).items, []);
    } finally {
      await plane.stop();
    }
  });

  test('a broken file stops an API server that starts', async () => {
    await assert.rejects(
      start('apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nspec: {'),
    );
  });
});
