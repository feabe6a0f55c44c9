import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const NODES = 'test/fixtures/kubelets/nodes.yaml';

describe('the kubelet commands print the expected output for', () => {
  const cases: readonly (readonly [args: string, code: number, expected: string])[] = [
    [`kubelet status -f ${NODES}`, 1, 'status.txt'],
    [`kubelet status -f ${NODES} -o yaml`, 1, 'status.yaml.txt'],
    [`kubelet plan --minimum 1.33.0 -f ${NODES}`, 1, 'plan.txt'],
    [`kubelet plan --minimum 1.30.0 -f ${NODES} --no-headers`, 1, 'plan-lower.txt'],
  ];
  for (const [args, code, expected] of cases) {
    test(args, async () => {
      const stdout = await readFile(`test/fixtures/kubelets/${expected}`, 'utf8');
      assert.deepEqual(await runProgram(args.split(' ')), { code, stdout, stderr: '' });
    });
  }
});

test('kubelet status names the setting to set if there is no minimum version', async () => {
  const stdout = 'No minimum kubelet version is set in spec.kubelet.\n';
  const stdin = 'apiVersion: v1\nkind: Namespace\nmetadata: { name: shop }\n';
  assert.deepEqual(await runProgram(['kubelet', 'status', '-f', '-'], { stdin }), { code: 0, stdout, stderr: '' });
});
