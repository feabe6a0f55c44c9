/** Tests that decisions on `exec` and `attach` use the current pod, even if the watches of the replica are frozen. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import { REPLICA_USER, useSystem } from '../support/control-plane/index.ts';
import { allow, apply, create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { type Fault, startFaultProxy } from '../support/fault-proxy.ts';

const NAMESPACE = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'shop', labels: { 'portcullis.dev/scc': 'enforce' } },
};
const PODS = '/api/v1/namespaces/shop/pods';
const ALICE = { 'Impersonate-User': 'alice' };
const STRATEGIC = { 'content-type': 'application/strategic-merge-patch+json' };
const DEBUGGER = { name: 'debug', image: 'registry.example.com/debug:1', securityContext: { privileged: true } };
/** Number of requests for each fault. */
const COUNT = 25;

const pod = (name: string): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'shop' },
  spec: { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] },
});

suite('exec into a pod', async () => {
  const { plane, system } = await useSystem();
  await system.install();
  const proxy = await startFaultProxy(await plane.kubeconfigFor(REPLICA_USER, ['system:serviceaccounts']));
  after(() => proxy.stop());
  await system.add(1, { kubeconfig: proxy.kubeconfig });
  const rules = [{ apiGroups: [''], resources: ['pods/exec', 'pods/attach'], verbs: ['get', 'create'] }];
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: 'shop' } };
  await allow(plane.admin, 'executor', ['alice'], rules);
  await apply(plane.admin, [NAMESPACE, account]);
  await eventually(async () => {
    const answer = await plane.admin.send('POST', `${PODS}?dryRun=All`, pod('web'));
    assert.match(answer.text, /"openshift.io\/scc":/);
    // Pods are already defaulted before SCCs are enforced, so a denial must also be observed.
    const denied = { ...pod('web'), metadata: { name: 'web', annotations: { 'openshift.io/required-scc': 'none' } } };
    assert.equal((await plane.admin.send('POST', `${PODS}?dryRun=All`, denied)).status, 403);
  }, 30_000);

  /**
   * Matches the error of a request that admission allows, because pods in a control plane without nodes have no host.
   */
  const ADMITTED = /does not have a host assigned/;
  const stream = async (name: string, subresource: string): Promise<string> => {
    const answer = await plane.admin.send(
      'POST',
      `${PODS}/${name}/${subresource}?container=c&command=sh`,
      undefined,
      ALICE,
    );
    return `${answer.status} ${String(responseMessage(answer))}`;
  };
  const debug = async (name: string): Promise<void> => {
    const patch = { spec: { ephemeralContainers: [DEBUGGER] } };
    const answer = await plane.admin.send('PATCH', `${PODS}/${name}/ephemeralcontainers`, patch, STRATEGIC);
    assert.equal(answer.status, 200, answer.text);
  };

  const faults: readonly (readonly [state: string, fault: Fault])[] = [
    ['current', 'none'],
    ['frozen', 'silent watches'],
  ];
  for (const [state, fault] of faults) {
    test(`is denied after another user adds a privileged ephemeral container, even if the watches of the replica are ${state}`, async (t) => {
      const names = Array.from({ length: COUNT }, (_, index) => `${state}-${index}`);
      for (const name of names) {
        const answer = await create(plane.admin, pod(name));
        assert.equal(answer.status, 201, answer.text);
      }
      await eventually(async () => assert.match(await stream(names.at(-1) ?? '', 'exec'), ADMITTED));
      await proxy.set(fault);
      const admitted: string[] = [];
      for (const name of names) {
        await debug(name);
        for (const subresource of ['exec', 'attach']) {
          const answer = await stream(name, subresource);
          const denial = `denied the request: ${subresource} operation is not allowed because the pod's security context exceeds your permissions: pods "${name}" is forbidden: unable to validate against any security context constraint: `;
          if (!answer.includes(denial)) admitted.push(`${subresource} ${name}: ${answer}`);
        }
      }
      t.diagnostic(`${2 * COUNT - admitted.length} of ${2 * COUNT} denied`);
      assert.deepEqual(admitted, []);
    });
  }
});
