/**
 * Runs the Kubernetes test suite for Pod Security against a default installation whose webhooks the leader registers.
 * It requires Go, and the binaries in KUBEBUILDER_ASSETS.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { ASSETS, createSystem, startControlPlane } from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';

/** The number of subtests in the version in go.mod. */
const SUBTESTS = 750;

const hasGo = spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0;
const skip = (!hasGo && 'Go is not installed') || (ASSETS === undefined && 'KUBEBUILDER_ASSETS is not set');

/** An event of `go test -json`. */
interface TestEvent {
  readonly Action: string;
  readonly Test?: string;
  readonly Output?: string;
}

interface Outcome {
  /** Number of subtests by result: `pass`, `fail` and `skip`. */
  readonly counts: Readonly<Record<string, number>>;
  /** The output of the failed tests and of the compiler. */
  readonly failures: string;
}

/** Runs tests of the Go module in this folder. */
async function runGoTests(name: string, variables: Readonly<Record<string, string>>): Promise<Outcome> {
  const child = spawn('go', ['test', '-json', '-count=1', `-run=^${name}$`, './...'], {
    cwd: import.meta.dirname,
    env: { ...process.env, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let failures = '';
  child.stderr.on('data', (chunk: Buffer) => (failures += chunk.toString()));
  const closed = once(child, 'close');
  const counts: Record<string, number> = { pass: 0, fail: 0, skip: 0 };
  const outputs = new Map<string, string>();
  for await (const line of createInterface(child.stdout)) {
    const { Action, Test = '', Output = '' } = JSON.parse(line) as TestEvent;
    outputs.set(Test, (outputs.get(Test) ?? '') + Output);
    if (Action === 'fail') failures += outputs.get(Test) ?? '';
    if (Test.includes('/') && Action in counts) counts[Action] = (counts[Action] ?? 0) + 1;
  }
  await closed;
  return { counts, failures };
}

suite('the Kubernetes test suite for Pod Security', { skip }, () => {
  test('passes against a default installation', async (t) => {
    const plane = await startControlPlane();
    t.after(() => plane.stop());
    const system = await createSystem(plane);
    t.after(() => system.stop());
    await system.install();
    const [replica] = await system.scale(1);
    const invalid = { metadata: { name: 'invalid', labels: { 'pod-security.kubernetes.io/enforce': 'invalid' } } };
    await eventually(async () => {
      const { status, text } = await plane.admin.send('POST', '/api/v1/namespaces?dryRun=All', invalid);
      assert.equal(status, 422, text);
    });

    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const suiteOutcome = await runGoTests('TestPodSecurity', { KUBECONFIG: kubeconfig });
    assert.equal(suiteOutcome.failures, '');
    assert.deepEqual(suiteOutcome.counts, { pass: SUBTESTS, fail: 0, skip: 0 });
    t.diagnostic(`${SUBTESTS} subtests passed with ${plane.title}`);

    const metrics = await runGoTests('TestMetrics', { METRICS_URL: `${String(replica?.probes)}/metrics` });
    assert.equal(metrics.failures, '');
  });
});
