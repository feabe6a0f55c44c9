/**
 * Tests that all commands name the version that they evaluate instead of a version that is newer than the newest known
 * version.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { newestVersion } from '../../src/policy/pss/index.ts';
import { runProgram } from '../support/memory-io.ts';

const NOTE = `evaluated as ${newestVersion}, the newest known version`;

function manifests(version: string, securityContext: object = {}): string {
  const labels = {
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/enforce-version': version,
  };
  const spec = { containers: [{ name: 'c', image: 'i', securityContext }] };
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'new', labels } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'new' },
      spec: { selector: { matchLabels: { a: 'b' } }, template: { metadata: { labels: { a: 'b' } }, spec } },
    },
  ]
    .map((object) => JSON.stringify(object))
    .join('\n');
}

const COMPLIANT = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

suite('an unknown newer version in a label is noted', () => {
  const run = async (args: string, securityContext?: object) => {
    const { stdout } = await runProgram([...args.split(' '), '-f', '-'], {
      stdin: manifests('v1.99', securityContext),
    });
    return stdout;
  };
  const lines: readonly (readonly [args: string, line: string])[] = [
    ['check', `Deployment new/web violates PodSecurity "restricted:v1.99" (${NOTE})`],
    ['check', `1 passed, 1 failed; v1.99 is ${NOTE}`],
    ['explain --offline', `Deployment new/web: denied, violates PodSecurity "restricted:v1.99" (${NOTE})`],
    ['explain --offline', `  Pod Security     restricted:v1.99 (label) (${NOTE})`],
    ['explain namespace/new --offline', `Namespace new: enforces restricted:v1.99 (${NOTE})`],
    ['rollout plan -n new', `  Deployment web: denied now, violates PodSecurity "restricted:v1.99" (${NOTE})`],
    ['rollout plan', `1 namespace: 1 denied now; 1 workload (0 running pods) denied now; v1.99 is ${NOTE}`],
    ['rollout status', `1 namespace: 1 denied now; 1 workload (0 running pods) denied now; v1.99 is ${NOTE}`],
  ];
  for (const [args, line] of lines) {
    test(`in the output of ${args}: ${line}`, async () => {
      const stdout = await run(args);
      assert.ok(stdout.split('\n').includes(line), stdout);
    });
  }

  test('in the summary of a check without violations', async () => {
    assert.equal(await run('check', COMPLIANT), `2 passed, 0 failed; v1.99 is ${NOTE}\n`);
  });

  for (const command of ['rollout plan', 'rollout status', 'report']) {
    test(`in the JSON output of ${command}`, async () => {
      const { assumptions } = JSON.parse(await run(`${command} -o json`)) as {
        readonly assumptions: readonly string[];
      };
      assert.ok(assumptions.includes(`v1.99 is ${NOTE}`), assumptions.join('; '));
    });
  }

  test('but a known version is not', async () => {
    for (const args of ['check', 'explain --offline', 'rollout plan -n new', 'report -o json']) {
      const { stdout } = await runProgram([...args.split(' '), '-f', '-'], { stdin: manifests(newestVersion) });
      assert.doesNotMatch(stdout, /newest known version/, args);
    }
  });
});

suite('a cluster version that is newer than all known versions is noted in the output of', () => {
  const configuration = JSON.stringify({
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec: { podSecurity: { emulationVersion: 'v1.98' } },
  });
  for (const args of [
    'explain --offline',
    'explain namespace/new --offline',
    'rollout plan',
    'rollout status',
    'report -o json',
  ]) {
    test(args, async () => {
      const stdin = `${configuration}\n${manifests('latest')}`;
      const { stdout } = await runProgram([...args.split(' '), '-f', '-'], { stdin });
      assert.ok(stdout.includes(`v1.98 is ${NOTE}`), stdout);
    });
  }
});
