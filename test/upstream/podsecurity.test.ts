/**
 * Runs the Kubernetes test suite for Pod Security against a default installation whose webhooks the leader registers.
 * It requires Go, and the binaries in KUBEBUILDER_ASSETS.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { ASSETS, createSystem, kubernetesMinor, startControlPlane } from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';

/** Minor version of the suite in go.mod. */
const SUITE_MINOR = 37;
/** Number of subtests of the suite that apply to each minor version of Kubernetes. */
const SUBTESTS: Readonly<Record<number, number>> = { 32: 560, 36: 686, 37: 750 };
/** Before Kubernetes 1.33, API servers drop `procMount` from pods by default. */
const PROC_MOUNT_MINOR = 33;

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
async function runGoTests(
  name: string,
  variables: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<Outcome> {
  const child = spawn('go', ['test', '-json', '-count=1', `-run=^${name}$`, ...args, './...'], {
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

suite('the upstream test suite for Pod Security', { skip }, () => {
  test('passes against a default installation', async (t) => {
    const minor = kubernetesMinor();
    const featureGates = 'ProcMountType=true,UserNamespacesSupport=true';
    const plane = await startControlPlane(minor < PROC_MOUNT_MINOR ? { featureGates } : {});
    t.after(() => plane.stop());
    const system = await createSystem(plane);
    t.after(() => system.stop());
    await system.install();
    const [replica] = await system.add(1);
    const invalid = { metadata: { name: 'invalid', labels: { 'pod-security.kubernetes.io/enforce': 'invalid' } } };
    await eventually(async () => {
      const { status, text } = await plane.admin.send('POST', '/api/v1/namespaces?dryRun=All', invalid);
      assert.equal(status, 422, text);
    });

    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    // API servers evaluate later versions of a level as their own version, so the tests of later versions do not apply.
    const later = Array.from({ length: Math.max(SUITE_MINOR - minor, 0) }, (_, index) => minor + 1 + index);
    const args = later.length === 0 ? [] : [`-skip=^TestPodSecurity$/-1-(${later.join('|')})_`];
    const suiteOutcome = await runGoTests('TestPodSecurity', { KUBECONFIG: kubeconfig }, args);
    assert.equal(suiteOutcome.failures, '');
    assert.deepEqual(suiteOutcome.counts, { pass: SUBTESTS[minor], fail: 0, skip: 0 });
    t.diagnostic(`${SUBTESTS[minor]} subtests passed with ${plane.title}`);

    const metrics = await runGoTests('TestMetrics', { METRICS_URL: `${String(replica?.probes)}/metrics` });
    assert.equal(metrics.failures, '');
  });
});
