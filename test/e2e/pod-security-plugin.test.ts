/** Beside the plugin PodSecurity, which real API servers have built in and switched on, Portcullis says nothing again. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
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
import { checkScenario, POD_SECURITY_SCENARIOS } from '../support/scenarios/pod-security.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/cluster', import.meta.url));
const OF_THE_WEBHOOK = 'admission webhook "psa.portcullis.dev" denied the request: ';
const skip = ASSETS === undefined ? 'the development cluster has no plugin PodSecurity' : false;

suite('beside the plugin', { skip }, () => {
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

  test('where', (t) => t.diagnostic(`ran against: ${plane.title}, plugin PodSecurity on`));

  for (const scenario of POD_SECURITY_SCENARIOS) {
    // The plugin comes first: it refuses, and the same warning is told once.
    const { denied } = scenario;
    const own = denied === undefined ? {} : { denied: denied.replace(OF_THE_WEBHOOK, '') };
    test(scenario.name, async () => {
      // The plugin sees pods a moment later than they are created.
      if (scenario.label) await pause(1_000);
      await checkScenario(plane.admin, { ...scenario, ...own });
    });
  }
});
