/** Tests the runner of the recorded cases with Portcullis as the other implementation. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { RECORDED_VERSION } from '../support/conformance/cases.ts';

const RUNNER = join(import.meta.dirname, 'data/run.ts');
const EVALUATOR = join(import.meta.dirname, '../../src/policy/pss/index.ts');

/** Returns the source of an implementation that responds with an expression. */
const implementation = (response: string): readonly string[] => [
  process.execPath,
  '--input-type=module',
  '-e',
  `import { createInterface } from 'node:readline';
  const { evaluatePod } = await import(${JSON.stringify(EVALUATOR)});
  const evaluate = ({ pod, level, version }) => {
    const { allowed, reason, detail } = evaluatePod(pod, { level, version, emulationVersion: '${RECORDED_VERSION}' });
    return { allowed, reason, detail };
  };
  for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(${response}));`,
];
const run = (args: readonly string[], response: string) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUNNER, ...args, '--', ...implementation(response)], {
    encoding: 'utf8',
  });
  return { status, stderr, lines: stdout.trimEnd().split('\n') };
};
const EXACT = 'evaluate(JSON.parse(line))';

suite('the runner of recorded cases', () => {
  test('accepts an implementation with the same verdicts and messages', () => {
    assert.deepEqual(run(['pod-security'], EXACT), {
      status: 0,
      stderr: '',
      lines: ['pod-security: 66000 cases, 0 differ'],
    });
  });

  test('compares only the verdicts if requested, and prints the first differences', () => {
    const other = `{ ...${EXACT}, reason: 'x' }`;
    assert.equal(run(['pod-security', '--verdicts'], other).status, 0);
    const { status, lines } = run(['scc'], '{ allowed: true }');
    assert.deepEqual([status, lines.at(-1)], [1, 'scc: 1500 cases, 1500 differ']);
    assert.equal(lines.length, 61);
  });

  test('prints an explanation for invalid arguments and responses', () => {
    const message = (args: readonly string[], response = EXACT) => run(args, response).stderr;
    assert.equal(message(['pods']), 'error: unknown suite "pods": use pod-security or scc\n');
    assert.match(message(['scc'], 'process.exit()'), /^error: \S+ ended before it responded to \S+\n$/);
  });
});
