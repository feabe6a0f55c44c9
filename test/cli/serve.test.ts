/** Runs the server as a separate process with real files and signals. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { cp, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { eventually } from '../support/eventually.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';
import { FREE_PORTS, MAIN, readLog, type RunningServer, serve, start } from '../support/serve-process.ts';

/** `script` from util-linux runs a program on a terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
});
after(() => rm(folder, { recursive: true }));

const CONFIGURATION = (enforce: string): string => `apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults:
  enforce: ${enforce}
`;

/** Reviews a privileged pod in a namespace without labels, where the defaults apply. */
async function ask(running: RunningServer, ca?: string): Promise<boolean> {
  const authority = ca ?? (await running.authority());
  const spec = { containers: [{ name: 'c', image: 'i', securityContext: { privileged: true } }] };
  const body = JSON.stringify(podReview({ namespace: 'legacy', spec }));
  const answer = await post({ port: running.port, ca: authority }, '/validate/pods', body, 'application/json');
  assert.equal(answer.status, 200, answer.body);
  return (JSON.parse(answer.body) as { response: { allowed: boolean } }).response.allowed;
}

suite('serve prints the reason why an address is not available:', () => {
  test('it cannot be resolved', async () => {
    const args = [...FREE_PORTS, `--cert-dir=${folder}/invalid`, '--bind-address=999.1.1.1'];
    const { code, stderr } = await start(args).finished;
    assert.equal(code, 2);
    assert.match(
      stderr,
      /error: cannot listen on 999\.1\.1\.1:\d+: the address cannot be resolved; set another with --bind-address\n$/,
    );
  });

  test('its port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    const result = await start([...FREE_PORTS.slice(1), `--cert-dir=${folder}/busy`, `--secure-port=${port}`]).finished;
    other.close();
    assert.equal(result.code, 2);
    assert.match(
      result.stderr,
      new RegExp(
        `error: cannot listen on 127\\.0\\.0\\.1:${port}: the port is in use; set another with --secure-port\n$`,
      ),
    );
  });
});

test('serve prints the reason why a directory cannot contain certificates', async () => {
  const { code, stdout, stderr } = await start([...FREE_PORTS, `--cert-dir=${MAIN}`]).finished;
  assert.deepEqual(
    [code, stdout, stderr],
    [2, '', `error: --cert-dir: cannot write to ${MAIN}: it is not a directory\n`],
  );
});

suite('a running server', () => {
  test(
    'continues to serve if its startup message cannot be written',
    { skip: !existsSync('/dev/full') && 'no /dev/full' },
    async () => {
      const full = openSync('/dev/full', 'w');
      const running = await serve([], {}, undefined, { stdout: full });
      closeSync(full);
      assert.equal(await ask(running), true);
      const { code, stderr } = await running.stop();
      assert.equal(code, 2);
      assert.match(stderr, /^error: cannot write the output: ENOSPC: no space left on device, write$/m);
    },
  );

  test('serves reviews, probes and metrics, protects its private keys, and exits immediately after Ctrl-C', async () => {
    const running = await serve(['--shutdown-delay-duration=1h']);
    assert.equal(await ask(running), true);
    assert.equal(await (await fetch(`${running.probes}/readyz`)).text(), 'ok');
    assert.match(
      await (await fetch(`${running.probes}/readyz?verbose`)).text(),
      /^\[\+\]ping ok\n\[\+\]informer-sync ok\n[^]*\n\[\+\]scc ok\n/,
    );
    assert.match(
      await (await fetch(`${running.probes}/metrics`)).text(),
      /^portcullis_serving_certificate_expiry_timestamp_seconds \d+$/m,
    );
    for (const file of ['ca.key', 'tls.key', 'kubeconfig']) {
      assert.equal((await stat(join(running.folder, file))).mode & 0o777, 0o600, file);
    }
    const { code, stdout, stderr } = await running.stop();
    assert.equal(code, 0);
    assert.doesNotMatch(stderr, /^[^{]/m, 'only log lines');
    assert.match(
      stdout,
      /^Portcullis serves reviews at https:\/\/127\.0\.0\.1:\d+ for a development cluster at https:\/\/127\.0\.0\.1:\d+\n\n {2}export KUBECONFIG=/,
    );
  });

  test(
    'prints its startup message on a terminal, preceded only by warnings in text format',
    { skip: !hasScript && 'no script' },
    async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'portcullis-terminal-'));
      t.after(() => rm(folder, { recursive: true }));
      // Without `exec`, some shells remain as the parent process and report Ctrl-C as exit code 130.
      const command = `exec ${[process.execPath, MAIN, 'serve', '--dev-cluster', ...FREE_PORTS, `--cert-dir=${folder}`].join(' ')}`;
      const child = spawn('script', ['-qefc', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] });
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      await eventually(() => assert.ok(output.includes('--show-labels')));
      const lines = output.replaceAll('\r', '').split('\n');
      const exited = once(child, 'exit');
      child.stdin.write('\u0003');
      assert.deepEqual(await exited, [0, null]);
      const start = lines.findIndex((line) => line.startsWith('Portcullis serves reviews at '));
      assert.ok(start >= 0 && lines.length <= 20, output);
      for (const line of lines.slice(0, start)) assert.match(line, /^\d{4}-\d\d-\d\dT\S+Z WARN /);
    },
  );

  test('serves requests but is not ready during the shutdown delay after SIGTERM', async () => {
    const running = await serve(['--shutdown-delay-duration=700ms']);
    const finished = running.stop('SIGTERM');
    await running.logged('stopping');
    const ready = await fetch(`${running.probes}/readyz`);
    assert.equal(ready.status, 500);
    assert.match(
      await ready.text(),
      /^\[\+\]ping ok\n\[\+\]informer-sync ok\n\[\+\]settings ok\n\[\+\]scc ok.*\n\[\+\]connections ok\n\[-\]shutdown failed: the server is draining\nreadyz check failed\n$/,
    );
    assert.equal(await ask(running), true);
    assert.equal((await finished).code, 0);
  });

  test('reloads its configuration, and keeps the last valid configuration', async () => {
    const file = join(folder, 'config.yaml');
    await writeFile(file, CONFIGURATION('restricted'));
    const running = await serve(['--config', file]);
    assert.equal(await ask(running), false);
    await writeFile(file, CONFIGURATION('sloppy'));
    const refused = await running.logged('failed to load the configuration, keeping the last valid configuration');
    assert.equal(
      refused.reason,
      `configuration error: enforce: must be one of privileged, baseline, restricted (${file}:4:3, defaults.enforce)`,
    );
    assert.equal(await ask(running), false);
    assert.match(
      await (await fetch(`${running.probes}/metrics`)).text(),
      /^portcullis_config_last_reload_successful 0$/m,
    );
    await writeFile(file, '');
    await eventually(() => assert.ok(readLog(running).some(({ reason }) => reason === `${file} is empty`)));
    assert.equal(await ask(running), false);
    await writeFile(file, CONFIGURATION('privileged'));
    await eventually(async () => assert.equal(await ask(running), true));
    assert.match(
      await (await fetch(`${running.probes}/metrics`)).text(),
      /^portcullis_config_last_reload_successful 1$/m,
    );
    await running.stop();
  });

  test('prefers arguments to environment variables', async () => {
    const file = join(folder, 'precedence.yaml');
    await writeFile(
      file,
      `apiVersion: config.portcullis.dev/v1alpha1
kind: PortcullisConfiguration
spec: {podSecurity: {defaults: {enforce: baseline}}}
`,
    );
    const running = await serve(['--logging-format=json', '--config', file], {
      PORTCULLIS_SHUTDOWN_DELAY_DURATION: '10ms',
      PORTCULLIS_LOGGING_FORMAT: 'text',
    });
    assert.equal(await ask(running), false);
    assert.equal((await running.stop('SIGTERM')).code, 0);
  });

  test('reloads its serving certificate', async () => {
    const validity = { now: new Date(), days: 2 };
    const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };
    const authority = createAuthority(validity);
    const files = { cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') };
    const put = async (pair: KeyPair): Promise<void> => {
      for (const part of ['cert', 'key'] as const) {
        await writeFile(`${files[part]}.new`, pair[part]);
        await rename(`${files[part]}.new`, files[part]);
      }
    };
    const chain = (issuer: KeyPair): KeyPair => {
      const { cert, key } = createServing(issuer, names, validity);
      return { cert: cert + issuer.cert, key };
    };
    await put(chain(authority));
    const running = await serve([`--tls-cert-file=${files.cert}`, `--tls-private-key-file=${files.key}`]);
    assert.equal(await ask(running, authority.cert), true);
    const other = createAuthority(validity);
    await put(chain(other));
    await running.logged('serving certificate loaded');
    assert.equal(await ask(running, other.cert), true);
    await writeFile(files.cert, 'nonsense');
    await running.logged('failed to load the serving certificate, keeping the previous certificate');
    assert.equal(await ask(running, other.cert), true);
    await running.stop();
  });

  test('reuses its certificates after a restart', async () => {
    const first = await serve([]);
    const kept = join(folder, 'kept');
    await cp(first.folder, kept, { recursive: true });
    const certificate = await readFile(join(kept, 'tls.crt'), 'utf8');
    await first.stop();
    const second = await serve([`--cert-dir=${kept}`]);
    assert.equal(await readFile(join(kept, 'tls.crt'), 'utf8'), certificate);
    await second.stop();
  });
});
