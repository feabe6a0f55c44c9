/** Pod Security with the server as a process, its development cluster and the example manifests; and with the PodSecurity plugin of a real API server. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ApiClient } from '../support/api-client.ts';
import { connect } from '../support/kubeconfig.ts';
import { createKubectl, hasKubectl, type KubectlResult } from '../support/kubectl.ts';
import { argumentsOf, kubectlText, POD_SECURITY_SCENARIOS, checkScenario } from '../support/scenarios/pod-security.ts';
import { serve, type Running } from '../support/serve-process.ts';
import { readSeed } from '../../src/cli/serve/dev-cluster.ts';
import { metadataOf } from '../support/answers.ts';
import {
  ASSETS,
  createSystem,
  startControlPlane,
  type ControlPlane,
  type System,
} from '../support/control-plane/index.ts';
import { create, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';

// * What people do first, from end to end: the server as a process, its development cluster, the example manifests. Each
// Each scenario is sent as the request that kubectl sends, and with kubectl itself if kubectl is on the PATH.

suite('Pod Security, by requests', () => {
  let running: Running;
  let client: ApiClient;
  before(async () => {
    running = await serve([]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  for (const scenario of POD_SECURITY_SCENARIOS) {
    test(scenario.name, () => checkScenario(client, scenario));
  }
});

suite('Pod Security, by kubectl', { skip: hasKubectl ? false : 'kubectl is not on the PATH' }, () => {
  let running: Running;
  let kubectl: (args: readonly string[]) => Promise<KubectlResult>;
  before(async () => {
    running = await serve([]);
    kubectl = createKubectl(running.kubeconfig);
  });
  after(() => running.stop());

  for (const scenario of POD_SECURITY_SCENARIOS) {
    test(scenario.name, async () => {
      const { code, stderr } = await kubectl(argumentsOf(scenario));
      const lines = stderr.split('\n').filter((line) => line !== '');
      const warnings = lines.filter((line) => line.startsWith('Warning: '));
      assert.deepEqual(
        warnings,
        (scenario.warnings ?? []).map((text) => `Warning: ${text}`),
      );
      const rest = lines.filter((line) => !line.startsWith('Warning: '));
      assert.equal(code, scenario.denied === undefined ? 0 : 1);
      if (scenario.denied === undefined) assert.deepEqual(rest, []);
      else assert.ok(rest.join('\n').endsWith(kubectlText(scenario)), rest.join('\n'));
    });
  }
});

const EXAMPLES = fileURLToPath(new URL('../../examples/cluster', import.meta.url));
const OF_THE_WEBHOOK = 'admission webhook "psa.portcullis.dev" denied the request: ';
const skip = ASSETS === undefined ? 'the development cluster has no plugin PodSecurity' : false;

suite('Pod Security, with the PodSecurity plugin', { skip }, () => {
  let plane: ControlPlane;
  let system: System;
  before(async () => {
    plane = await startControlPlane({ podSecurityPlugin: 'on' });
    system = await createSystem(plane, { objectsFor: (port) => localObjects(port, { rollout: 'Disabled' }) });
    await system.install();
    await system.scale(1);
    for (const { value } of await readSeed(EXAMPLES)) {
      const object = { ...value, metadata: { namespace: 'default', ...metadataOf(value) } };
      await eventually(async () => {
        const answer = await create(plane.admin, object);
        assert.equal(answer.status, 201, answer.text);
      });
    }
  });
  after(async () => {
    await system.stop().finally(() => plane.stop());
  });

  test('environment', (t) => t.diagnostic(`ran against: ${plane.title}, plugin PodSecurity on`));

  for (const scenario of POD_SECURITY_SCENARIOS) {
    // The plugin evaluates first: it denies the pod, and kube-apiserver returns identical warnings once.
    const { denied } = scenario;
    const own = denied === undefined ? {} : { denied: denied.replace(OF_THE_WEBHOOK, '') };
    test(scenario.name, async () => {
      // The plugin observes new pods after a short delay.
      if (scenario.label) await pause(1_000);
      await checkScenario(plane.admin, { ...scenario, ...own });
    });
  }
});
