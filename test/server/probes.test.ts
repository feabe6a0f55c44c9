import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { buildProbes } from '../../src/server/probes.ts';

interface Case {
  readonly path: string;
  readonly draining?: true;
  readonly status: number;
  readonly body: string;
}

const CASES: readonly Case[] = [
  { path: '/livez', status: 200, body: 'ok' },
  { path: '/healthz', status: 200, body: 'ok' },
  { path: '/livez?verbose', status: 200, body: '[+]ping ok\nlivez check passed\n' },
  { path: '/readyz', status: 200, body: 'ok' },
  { path: '/readyz?verbose', status: 200, body: '[+]ping ok\n[+]shutdown ok\nreadyz check passed\n' },
  { path: '/readyz/shutdown', status: 200, body: 'ok' },
  {
    path: '/readyz',
    draining: true,
    status: 500,
    body: '[+]ping ok\n[-]shutdown failed: the server drains\nreadyz check failed\n',
  },
  { path: '/readyz/shutdown', draining: true, status: 500, body: 'shutdown failed: the server drains\n' },
  { path: '/readyz/ping', draining: true, status: 200, body: 'ok' },
  { path: '/readyz?exclude=shutdown', draining: true, status: 200, body: 'ok' },
  {
    path: '/readyz?verbose&exclude=shutdown&exclude=bogus',
    draining: true,
    status: 200,
    body: '[+]ping ok\n[+]shutdown excluded: ok\nwarn: some health checks cannot be excluded: no matches for "bogus"\nreadyz check passed\n',
  },
  { path: '/livez', draining: true, status: 200, body: 'ok' },
  { path: '/readyz/bogus', status: 404, body: '404 page not found\n' },
  { path: '/', status: 200, body: '/livez\n/readyz\n/healthz\n/metrics\n' },
];

suite('probes', () => {
  for (const { path, draining, status, body } of CASES) {
    test(`${path}${draining ? ' while draining' : ''}`, async () => {
      const ping = { name: 'ping', check: () => undefined };
      const shutdown = { name: 'shutdown', check: () => (draining ? 'the server drains' : undefined) };
      const app = buildProbes({
        livez: [ping],
        readyz: [ping, shutdown],
        metrics: createMetrics({ version: '1.2.3' }),
      });
      const answer = await app.inject(path);
      assert.deepEqual([answer.statusCode, answer.body], [status, body]);
      assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    });
  }

  test('/metrics is the Prometheus text format, process and build included', async () => {
    const app = buildProbes({ livez: [], readyz: [], metrics: createMetrics({ version: '1.2.3' }) });
    const answer = await app.inject('/metrics');
    assert.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    assert.match(answer.body, /^portcullis_build_info\{version="1\.2\.3",node_version="v24\.[\d.]+"\} 1$/m);
    assert.match(answer.body, /^process_cpu_seconds_total [\d.e-]+$/m);
    assert.match(answer.body, /^# HELP pod_security_evaluations_total \[ALPHA\] /m);
  });
});
