import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const manifests = (labels: string): string => `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {${labels}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {spec: {hostNetwork: true, containers: [{name: web, image: nginx}]}}}
`;

describe('namespaces where the PodSecurity plugin ignores exceptions', () => {
  const create = (labels: string) =>
    runProgram(
      ['exception', 'create', 'deployment/web', '-f', '-', '--offline', '-n', 'shop', '--for=1h', '--reason=SEC-1'],
      { stdin: manifests(labels) },
    );

  test('exception create warns about the upstream label', async () => {
    const { code, stdout, stderr } = await create('pod-security.kubernetes.io/enforce: baseline');
    assert.equal(code, 0);
    assert.match(stdout, /\n {4}- check: hostNamespaces\n {6}values:\n {8}- hostNetwork\n/);
    assert.equal(
      stderr,
      'warning: the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the baseline level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace shop portcullis.dev/enforce=baseline pod-security.kubernetes.io/enforce=privileged --overwrite\n',
    );
    assert.equal((await create('portcullis.dev/enforce: baseline')).stderr, '');
  });

  test('the next step of rollout plan changes both labels', async () => {
    const stdin = manifests('pod-security.kubernetes.io/enforce: privileged, portcullis.dev/enforce: baseline');
    const { stdout } = await runProgram(['rollout', 'plan', '-f', '-', '-n', 'shop'], { stdin });
    assert.match(
      stdout,
      /\n {2}Next: Change the workloads, or set a weaker level: kubectl label namespace\/shop portcullis\.dev\/enforce=privileged pod-security\.kubernetes\.io\/enforce=privileged --overwrite\.\n/,
    );
  });
});
