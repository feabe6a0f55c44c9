/** Tests access to the dashboard, and its updates after changes in the cluster. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { run } from '../../src/cli/program.ts';
import { type Dashboard, startDashboard } from '../../src/cli/report/dashboard-server.ts';
import { connect, type Connection } from '../../src/cluster/connection.ts';
import {
  type Browser,
  findAccessibilityProblems,
  launchBrowser,
  noBrowser,
  saveScreenshot,
} from '../support/browser.ts';
import { runProgram } from '../support/memory-io.ts';
import { FREE_PORTS, type RunningServer, serve } from '../support/serve-process.ts';

describe('the dashboard', () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await startDashboard({
      port: 0,
      page: () => Promise.resolve('<!doctype html>'),
      subscribe(listener) {
        listener({ event: 'report', data: '{}' });
        return () => undefined;
      },
    });
  });
  after(() => dashboard.close());

  interface Answer {
    readonly status: number | undefined;
    readonly text: string;
    readonly headers: IncomingHttpHeaders;
  }
  /** Sends a request. An event stream is read up to its first event. */
  const send = async (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> => {
    const { port } = new URL(dashboard.url);
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response) {
      text += String(chunk);
      if (response.headers['content-type'] === 'text/event-stream') break;
    }
    return { status: response.statusCode, text, headers: response.headers };
  };

  const NO_TOKEN =
    'Open the dashboard with the URL that the program printed at startup. Its token is valid only once. For a new URL, run portcullis dashboard with the kubeconfig of the cluster. The kubeconfig of the development cluster is certs/kubeconfig by default.\n';
  const denials: readonly (readonly [name: string, Parameters<typeof send>, status: number, text: string])[] = [
    ['a request without a token', ['/'], 403, NO_TOKEN],
    ['a request with a wrong token', ['/?token=x'], 403, NO_TOKEN],
    ['a request with two tokens', ['/?token=x&token=y'], 403, NO_TOKEN],
    ['a request with a wrong cookie', ['/', { cookie: 'portcullis-1=x' }], 403, NO_TOKEN],
    ['a request for events without a cookie', ['/events'], 403, NO_TOKEN],
    ['a request for another path', ['/../etc/passwd'], 404, 'The dashboard has one page: /\n'],
    ['a request with a long URL', [`/?token=${'x'.repeat(300)}`], 414, 'the URL is longer than 256 characters\n'],
    ['a request with another method', ['/', {}, 'POST'], 404, 'The dashboard has one page: /\n'],
    [
      'a request from another site',
      ['/', { origin: 'https://example.com' }],
      403,
      'Requests from other sites are rejected.\n',
    ],
    ['a request from a page in a file', ['/', { origin: 'null' }], 403, 'Requests from other sites are rejected.\n'],
  ];
  for (const [name, args, status, text] of denials) {
    test(`rejects ${name}`, async () => {
      const answer = await send(...args);
      assert.deepEqual([answer.status, answer.text], [status, text]);
    });
  }

  test('accepts a token only once, and returns a cookie that other sites cannot send', async () => {
    const { pathname, search, host, port } = new URL(dashboard.url);
    // A request with the host name of another site does not use up the token.
    const rebound = await send(pathname + search, { host: 'example.com' });
    assert.deepEqual([rebound.status, rebound.text], [421, `The dashboard is at http://${host}/\n`]);
    const first = await send(pathname + search);
    const [cookie = ''] = first.headers['set-cookie'] ?? [];
    assert.deepEqual([first.status, first.text, first.headers['cache-control']], [200, '<!doctype html>', 'no-store']);
    assert.match(cookie, new RegExp(`^portcullis-${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`));
    assert.equal((await send(pathname + search)).status, 403);
    const session = { cookie: `other=1; ${cookie.split(';')[0] ?? ''}` };
    assert.equal((await send('/', session)).status, 200);
    assert.equal((await send('/events', { ...session, origin: 'http://127.0.0.1:1' })).status, 403);
    assert.equal((await send('/events', { ...session, origin: `http://${host}` })).text, 'event: report\ndata: {}\n\n');
  });
});

describe('the dashboard in a browser', { skip: noBrowser }, () => {
  let browser: Browser;
  let server: RunningServer;
  let connection: Connection;
  before(async () => {
    [browser, server] = await Promise.all([launchBrowser(), serve(FREE_PORTS)]);
    connection = await connect({ kubeconfig: server.kubeconfig, env: {}, userAgent: 'test' });
  });
  after(async () => {
    connection.close();
    await Promise.all([browser.close(), server.stop()]);
  });

  const createPod = async (namespace: string, name: string, spec: object): Promise<unknown> =>
    await connection
      .request({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/pods`,
        body: {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name },
          spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
        },
      })
      .catch((error: unknown) => error);

  test('reports invalid input', async () => {
    const busy = createServer().listen(0, '127.0.0.1');
    await once(busy, 'listening');
    const { port } = busy.address() as AddressInfo;
    const outcomes = [
      await runProgram(['dashboard'], { env: { KUBECONFIG: 'missing' } }),
      await runProgram(['dashboard', '--kubeconfig', server.kubeconfig, `--port=${port}`]),
    ];
    busy.close();
    assert.deepEqual(
      outcomes.map(({ code, stdout, stderr }) => [code, stdout, stderr]),
      [
        [2, '', 'error: no cluster to read: there is no missing; set --kubeconfig\n'],
        [2, '', `error: cannot listen on 127.0.0.1:${port}: the port is in use; set another with --port\n`],
      ],
    );
  });

  test('shows a cluster, and updates while it changes', async () => {
    await connection.request({
      method: 'PATCH',
      path: '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster',
      contentType: 'application/merge-patch+json',
      body: { spec: { rollout: { phase: 'Evaluate' } } },
    });
    const stopping = new AbortController();
    const opened = Promise.withResolvers<string>();
    const io = {
      stdin: (async function* (): AsyncGenerator<string> {})(),
      stdout: { write: (text: string) => opened.resolve(/http:\S+/.exec(text)?.[0] ?? '') },
      stderr: { write: (text: string) => opened.reject(new Error(text)) },
      env: {},
      signal: stopping.signal,
    };
    const ended = run(['dashboard', '--kubeconfig', server.kubeconfig], io);
    const { page, errors, texts } = await browser.open(await opened.promise);
    await page.waitForSelector('.report');
    await page.waitForFunction(String.raw`/^Evaluated\n\d/m.test(document.body.innerText)`);
    const denied = 'document.querySelector(".tile:nth-child(3) strong").innerText';
    assert.equal(await page.evaluate(denied), '4');
    assert.deepEqual(await texts('.decisions'), []);
    assert.deepEqual(await findAccessibilityProblems(page), []);
    await saveScreenshot(page, 'dashboard');
    await createPod('legacy', 'agent', { hostNetwork: true });
    await page.waitForFunction(`${denied} === '5'`);
    stopping.abort('SIGINT');
    assert.equal(await ended, 0);
    await page.waitForFunction('document.querySelector("[role=status]").innerText === "reconnecting"');
    assert.deepEqual(
      errors.filter((error) => !error.includes('net::')),
      [],
    );
  });
});
