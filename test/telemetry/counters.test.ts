import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Registry } from 'prom-client';
import { createTally, createTimings } from '../../src/telemetry/counters.ts';

suite('tally', () => {
  test('cells become series when they are scraped, each time with what has come since', async () => {
    const registry = new Registry();
    const tally = createTally({ name: 'x_total', help: 'X.', labelNames: ['a', 'b'], registers: [registry] });
    const cell = tally.cell({ b: '2', a: '1' });
    assert.equal(tally.cell({ a: '1', b: '2' }), cell);
    cell.count += 2;
    tally.cell({ a: '"quoted"', b: '' });
    const series = async (): Promise<string[]> =>
      (await registry.metrics()).split('\n').filter((line) => line.startsWith('x_total'));
    assert.deepEqual(await series(), ['x_total{b="2",a="1"} 2', 'x_total{a="\\"quoted\\"",b=""} 0']);
    cell.count++;
    assert.deepEqual(await series(), ['x_total{b="2",a="1"} 3', 'x_total{a="\\"quoted\\"",b=""} 0']);
  });
});

suite('timings', () => {
  test('are exposed as a histogram', async () => {
    const registry = new Registry();
    const timings = createTimings(
      { name: 'y_seconds', help: 'Y.', labelNames: ['hook'], registers: [registry] },
      [0.1, 1],
    );
    const timing = timings('/a');
    for (const seconds of [0.05, 0.1, 0.5, 7]) timing.observe(seconds);
    assert.equal(
      await registry.metrics(),
      `# HELP y_seconds Y.
# TYPE y_seconds histogram
y_seconds_bucket{le="0.1",hook="/a"} 2
y_seconds_bucket{le="1",hook="/a"} 3
y_seconds_bucket{le="+Inf",hook="/a"} 4
y_seconds_sum{hook="/a"} 7.65
y_seconds_count{hook="/a"} 4
`,
    );
  });
});
