import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { startCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const NODES = 'test/fixtures/kubelets/nodes.yaml';
const GATES = 'test/fixtures/kubelets/feature-gates.yaml';

describe('the kubelet commands print', () => {
  const cases: readonly (readonly [args: string, code: number, expected: string])[] = [
    [`kubelet status -f ${NODES}`, 1, 'status.txt'],
    [`kubelet status -f ${NODES} -o yaml`, 1, 'status.yaml.txt'],
    [`kubelet plan --minimum 1.33.0 -f ${NODES}`, 1, 'plan.txt'],
    [`kubelet plan --minimum 1.30.0 -f ${NODES} --no-headers`, 1, 'plan-lower.txt'],
    [`kubelet gates --minimum 1.30.0 -f ${GATES}`, 1, 'gates.txt'],
    [`kubelet gates --minimum 1.33.0 -f ${GATES} -o json`, 0, 'gates.json.txt'],
  ];
  for (const [args, code, expected] of cases) {
    test(args, async () => {
      const stdout = await readFile(`test/fixtures/kubelets/${expected}`, 'utf8');
      assert.deepEqual(await runProgram(args.split(' ')), { code, stdout, stderr: '' });
    });
  }
});

test('gates of standard input, with the minimum in it', async () => {
  const args = ['kubelet', 'gates', '-f'];
  const stdin = await readFile(GATES, 'utf8');
  assert.deepEqual(await runProgram([...args, '-'], { stdin }), await runProgram([...args, GATES]));
});

describe('the kubelet commands without objects', () => {
  test('status without a minimum', async () => {
    const stdout = 'No minimum kubelet version is set in spec.kubelet.\n';
    assert.deepEqual(await runProgram(['kubelet', 'status', '-f', GATES]), { code: 0, stdout, stderr: '' });
  });

  for (const args of [[], ['--minimum=1.30.0']]) {
    test(`gates ${args.join()} of a cluster without the kind`, async () => {
      const started = await startCluster();
      try {
        assert.deepEqual(await runProgram(['kubelet', 'gates', ...args, '--kubeconfig', await started.kubeconfig()]), {
          code: 2,
          stdout: '',
          stderr: 'error: no FeatureGate of config.openshift.io/v1: the cluster has none; specify a manifest with -f\n',
        });
      } finally {
        await started.stop();
      }
    });
  }
});
