/**
 * Runs the scenarios against a server process with its development cluster and the example manifests, both with the
 * requests that kubectl sends and with kubectl itself if it is on the PATH. Also tests Pod Security together with the
 * PodSecurity plugin of kube-apiserver.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readSeed } from '../../src/cli/serve/dev-cluster.ts';
import { objectMetadata } from '../support/answers.ts';
import type { ApiClient } from '../support/api-client.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { create, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { connect } from '../support/kubeconfig.ts';
import { createKubectl, hasKubectl, type KubectlResult } from '../support/kubectl.ts';
import {
  checkScenario,
  expectedDenial,
  kubectlArguments,
  POD_SECURITY,
  readAssignedScc,
  SCC,
  type Scenario,
} from '../support/scenarios.ts';
import { formatSettings, type RunningServer, serve } from '../support/serve-process.ts';

const SCENARIOS = [...POD_SECURITY, ...SCC];

suite('requests to the development cluster have the results of the scenarios:', () => {
  let running: RunningServer;
  let client: ApiClient;
  before(async () => {
    running = await serve([]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  for (const scenario of SCENARIOS) test(scenario.name, () => checkScenario(client, scenario));

  test('a pod can be created immediately after its namespace', async () => {
    const namespace = {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'sudden', labels: { 'portcullis.dev/scc': 'enforce' } },
    };
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'quick', namespace: 'sudden', annotations: { 'openshift.io/required-scc': 'restricted-v2' } },
      spec: { containers: [{ name: 'c', image: 'registry.example.com/quick:1' }] },
    };
    assert.equal((await client.send('POST', '/api/v1/namespaces', namespace)).status, 201);
    const answer = await client.send('POST', '/api/v1/namespaces/sudden/pods', pod);
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await readAssignedScc(client, answer), {
      scc: 'restricted-v2',
      subject: 'serviceaccount',
      runAsUser: 'from the namespace',
    });
  });
});

const ROLLOUTS = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'rollouts.argoproj.io' },
  spec: {
    group: 'argoproj.io',
    scope: 'Namespaced',
    names: { plural: 'rollouts', singular: 'rollout', kind: 'Rollout', listKind: 'RolloutList' },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

test('a custom resource listed in the settings causes warnings about its pods', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-workloads-'));
  context.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'settings.yaml');
  const workloadResources = [{ group: 'argoproj.io', resource: 'rollouts' }];
  await writeFile(file, formatSettings({ podSecurity: { workloadResources } }));
  const running = await serve([`--config=${file}`]);
  const client = await connect(running);
  context.after(async () => {
    client.close();
    await running.stop();
  });
  await create(client, ROLLOUTS);
  const rollout = {
    apiVersion: 'argoproj.io/v1alpha1',
    kind: 'Rollout',
    metadata: { name: 'web', namespace: 'warned' },
    spec: {
      template: { spec: { hostNetwork: true, containers: [{ name: 'web', image: 'registry.example.com/a:1' }] } },
    },
  };
  await eventually(async () => {
    const { status, warnings, text } = await create(client, rollout);
    assert.equal(status, 201, text);
    assert.match(
      warnings.join(),
      /^299 - "spec\.template: would violate PodSecurity \\"restricted:latest\\": host namespaces \(hostNetwork=true\), /,
    );
  });
});

suite(
  'kubectl on the development cluster has the results of the scenarios:',
  { skip: hasKubectl ? false : 'kubectl is not on the PATH' },
  () => {
    let running: RunningServer;
    let client: ApiClient;
    let kubectl: (args: readonly string[], stdin?: string) => Promise<KubectlResult>;
    before(async () => {
      running = await serve([]);
      client = await connect(running);
      kubectl = createKubectl(running.kubeconfig);
    });
    after(async () => {
      client.close();
      await running.stop();
    });

    for (const scenario of SCENARIOS) {
      test(scenario.name, async () => {
        const { code, stderr } = await kubectl(kubectlArguments(scenario));
        const lines = stderr.split('\n').filter((line) => line !== '');
        const isWarning = (line: string): boolean => line.startsWith('Warning: ');
        // kubectl does not print warnings for a connection that was not upgraded.
        const warnings = scenario.exec === undefined ? (scenario.warnings ?? []) : [];
        assert.deepEqual(
          lines.filter(isWarning),
          warnings.map((text) => `Warning: ${text}`),
        );
        const rest = lines.filter((line) => !isWarning(line)).join('\n');
        const denied = await expectedDenial(client, scenario);
        if (denied === undefined) assert.deepEqual({ code, rest }, { code: 0, rest: '' });
        else assert.ok(code === 1 && rest.endsWith(kubectlMessage(scenario, denied)), rest);
      });
    }
  },
);

/** kubectl formats errors about invalid objects itself. It prints the kind and name, followed by the causes. */
function kubectlMessage({ code }: Scenario, denied: string): string {
  return code === 422 ? denied.slice(denied.indexOf('is invalid: ')) : denied;
}

const EXAMPLES = fileURLToPath(new URL('../../examples/cluster', import.meta.url));
const BY_WEBHOOK = /^admission webhook ".*?" denied the request: /;
const skip = ASSETS === undefined ? 'the development cluster has no plugin PodSecurity' : false;

suite('the PodSecurity plugin has the results of the Pod Security scenarios:', { skip }, async () => {
  const { plane, system } = await useSystem({ objectsFor: localObjects }, { podSecurityPlugin: 'on' });
  await system.install();
  await system.add(1);
  for (const { value } of await readSeed(EXAMPLES)) {
    const object = { ...value, metadata: { namespace: 'default', ...objectMetadata(value) } };
    await eventually(async () => {
      const answer = await create(plane.admin, object);
      assert.equal(answer.status, 201, answer.text);
    });
  }

  for (const scenario of POD_SECURITY) {
    // The plugin evaluates each request first, so it denies the request. kube-apiserver returns identical warnings only once.
    const { denied } = scenario;
    const byPlugin = denied === undefined ? {} : { denied: denied.replace(BY_WEBHOOK, '') };
    test(scenario.name, () => checkScenario(plane.admin, { ...scenario, ...byPlugin }));
  }

  test('a pod with 1.4 MB of <, which kube-apiserver escapes as six bytes each, can be created and updated', async () => {
    const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    await createNamespace(plane.admin, 'large', labels);
    const container = { name: 'c', image: 'registry.example.com/a:1', args: ['<'.repeat(1_400_000)] };
    const metadata = { name: 'large', namespace: 'large' };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: [container] } };
    await eventually(async () => {
      const created = await create(plane.admin, pod);
      assert.equal(created.status, 201, created.text.slice(0, 500));
    });
    const image = { spec: { containers: [{ name: 'c', image: 'registry.example.com/a:2' }] } };
    const type = { 'content-type': 'application/strategic-merge-patch+json' };
    await eventually(async () => {
      const updated = await plane.admin.send('PATCH', '/api/v1/namespaces/large/pods/large', image, type);
      assert.equal(updated.status, 200, updated.text.slice(0, 500));
    });
  });
});
