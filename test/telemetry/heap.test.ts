/** Tests the warning about a nearly full heap in a process with a small heap. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

const MODULES = ['logger', 'heap'].map((name) => new URL(`../../src/telemetry/${name}.ts`, import.meta.url).href);
const [LOGGER = '', HEAP = ''] = MODULES;

/** Keeps an amount of memory in use, collects garbage twice, and logs to stdout. */
function buildProgram(mib: number): string {
  return `
    import { createLogger } from '${LOGGER}';
    import { observeHeap } from '${HEAP}';
    import { setTimeout as pause } from 'node:timers/promises';
    const { logger, close } = createLogger({ level: 'info', format: 'json' }, 1);
    const heap = observeHeap(logger);
    const kept = Array.from({ length: ${mib} * 1024 }, (_, index) => new Array(127).fill(index));
    for (let count = 0; count < 2; count++) {
      gc();
      await pause(50);
    }
    heap.stop();
    logger.info({ kept: kept.length, isNearlyFull: heap.isNearlyFull() }, 'end');
    await close();
  `;
}

interface Case {
  readonly name: string;
  readonly mib: number;
  readonly expected: readonly string[];
}

const WARNING = 'warn the heap is nearly full: raise the memory limit of the container';
const CASES: readonly Case[] = [
  { name: 'logs one warning if most of the heap is in use', mib: 80, expected: [WARNING, 'info end'] },
  { name: 'logs nothing if most of the heap is free', mib: 20, expected: ['info end'] },
];

suite('observeHeap', () => {
  for (const { name, mib, expected } of CASES) {
    test(name, async () => {
      const { stdout } = await promisify(execFile)(process.execPath, [
        '--max-old-space-size=100',
        '--max-semi-space-size=1',
        '--expose-gc',
        '--input-type=module',
        '--eval',
        buildProgram(mib),
      ]);
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      assert.deepEqual(
        lines.map(({ level, msg }) => `${String(level)} ${String(msg)}`),
        expected,
      );
      assert.equal(lines.at(-1)?.['isNearlyFull'], expected.length > 1);
      for (const { usedMiB, limitMiB } of lines.slice(0, -1)) {
        assert.ok(Number(usedMiB) >= mib && Number(usedMiB) < Number(limitMiB), JSON.stringify(lines));
      }
    });
  }
});
