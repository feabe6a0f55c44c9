/** Upgrades from the manifests of earlier versions while pods are created. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type ControlPlane, createSystem, startControlPlane, type System } from '../support/control-plane/index.ts';
import { apply, create, localObjects, releaseObjects, VERSIONS } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';

const NAMESPACE = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: {
    name: 'busy',
    labels: { 'pod-security.kubernetes.io/enforce': 'baseline', 'portcullis.dev/scc': 'enforce' },
  },
};

function pod(spec: JsonObject = {}): JsonObject {
  const containers = [{ name: 'c', image: 'registry.example.com/c:1' }];
  const annotations = { 'openshift.io/required-scc': 'restricted-v2' };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'busy', annotations }, spec: { containers, ...spec } };
}

for (const version of VERSIONS) {
  suite(`an upgrade from ${version}`, () => {
    let plane: ControlPlane;
    let system: System;
    before(async () => {
      plane = await startControlPlane();
      system = await createSystem(plane, { objectsFor: (port) => releaseObjects(version, port) });
    });
    after(async () => {
      await system.stop().finally(() => plane.stop());
    });

    test('starts with Pod Security before the SCC CRD exists', async (t) => {
      t.diagnostic(`ran against: ${plane.title}`);
      const isDefinition = ({ kind }: JsonObject): boolean => kind === 'CustomResourceDefinition';
      await apply(
        plane.admin,
        system.objects.filter((object) => !isDefinition(object)),
      );
      await system.add(2);
      const created = await eventually(async () => {
        const answer = await create(plane.admin, NAMESPACE);
        assert.equal(answer.status, 201, answer.text);
        return answer;
      });
      assert.deepEqual(created.warnings, []);
    });

    test('starts SCC admission without a restart when the SCC CRD is created', async () => {
      await system.install();
      await eventually(() => work(plane.admin), 30_000);
    });

    test('gives correct decisions while the replicas are replaced', async () => {
      const failures: unknown[] = [];
      const stopping = new AbortController();
      let rounds = 0;
      const working = (async () => {
        for (; !stopping.signal.aborted; rounds++) {
          await work(plane.admin).catch((error: unknown) => failures.push(error));
          await pause(20);
        }
      })();
      await apply(plane.admin, localObjects(system.port));
      for (const old of system.replicas) {
        await system.add(1);
        await system.retire(old);
      }
      await system.settled(2);
      stopping.abort();
      await working;
      assert.deepEqual(failures, []);
      assert.ok(rounds > 20, String(rounds));
    });

    test('leads to the objects of a new installation of this version', async () => {
      assert.deepEqual(await apply(plane.admin, localObjects(system.port)), []);
    });
  });
}

/** Creates a pod that must be admitted and a pod that must be denied in dry runs. */
async function work(admin: ApiClient): Promise<void> {
  const path = '/api/v1/namespaces/busy/pods?dryRun=All';
  const good = await admin.send('POST', path, pod());
  assert.equal(good.status, 201, good.text);
  const bad = await admin.send('POST', path, pod({ hostNetwork: true }));
  assert.equal(bad.status, 403, bad.text);
  assert.match(
    String(responseMessage(bad)),
    /^admission webhook "mutate\.pods\.portcullis\.dev" denied the request: unable to validate against any security context constraint: /,
  );
}
