/**
 * What people do first, from end to end: the server as a process, its development cluster, the example manifests. Each
 * scenario is sent as the request that kubectl sends; where kubectl is on the PATH, it is done with kubectl as well.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ApiClient } from '../support/api-client.ts';
import { connect } from '../support/kubeconfig.ts';
import { createKubectl, hasKubectl, type KubectlResult } from '../support/kubectl.ts';
import { argumentsOf, kubectlText, POD_SECURITY_SCENARIOS, checkScenario } from '../support/scenarios/pod-security.ts';
import { serve, type Running } from '../support/serve-process.ts';

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
