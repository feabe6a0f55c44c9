/** Tests the playground in a browser, which loads it from a single file without a server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bundlePage } from '../../src/cli/output/bundle.ts';
import { renderPage } from '../../src/cli/output/html.ts';
import { decodeState, encodeState } from '../../src/web/share.ts';
import {
  type Browser,
  findAccessibilityProblems,
  findForeignRequests,
  launchBrowser,
  noBrowser,
  saveScreenshot,
} from '../support/browser.ts';

const NAME = `<img src=x onerror="document.title='run'">`;
const HOSTILE = `apiVersion: v1
kind: Pod
metadata: { name: ${JSON.stringify(NAME)}, namespace: ${JSON.stringify(`</script>${NAME}`)} }
spec:
  hostNetwork: true
  containers: [{ name: ${JSON.stringify(NAME)}, image: i }]
---
apiVersion: v1
kind: ${JSON.stringify(NAME)}
`;

const HOST_PATH = `apiVersion: v1
kind: Pod
metadata: { name: a }
spec:
  containers: [{ name: c, image: i }]
  volumes: [{ name: v, hostPath: { path: /var } }]
`;

describe('the playground', { skip: noBrowser }, () => {
  let browser: Browser;
  let folder = '';
  let url = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    const html = renderPage(await bundlePage('playground'), { title: 'Portcullis playground', opensFiles: true });
    await writeFile(join(folder, 'index.html'), html);
    url = pathToFileURL(join(folder, 'index.html')).href;
    browser = await launchBrowser();
  });
  after(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });

  test('shows the decisions, without errors, requests to other hosts, or accessibility violations', async () => {
    const { page, errors, requests, texts } = await browser.open(url);
    await page.waitForSelector('.card');
    assert.deepEqual(await texts('.levels label'), [
      'Privileged\n✓ admitted',
      'Baseline\n✓ admitted',
      'Restricted\n✗ 1 of 1 denied',
    ]);
    assert.deepEqual(await texts('.findings strong'), [
      'allowPrivilegeEscalation',
      'capabilities_restricted',
      'runAsNonRoot',
      'seccompProfile_restricted',
    ]);
    assert.deepEqual(await texts('.scc p'), [
      'The closest SCC is "restricted-v2", which does not allow spec.containers[0].securityContext.runAsUser=1001',
      'nonroot-v2 would admit it if service account "default" were allowed to use it',
    ]);
    await saveScreenshot(page, 'playground');
    await page.click('.scc summary');
    assert.deepEqual(await findAccessibilityProblems(page), []);
    assert.deepEqual([errors, findForeignRequests(requests)], [[], []]);
  });

  test('applies all possible fixes with one click, and lists the choices for other violations', async () => {
    const text = `# A comment.\n${HOST_PATH}`;
    const { page, texts } = await browser.open(
      `${url}${await encodeState({ text, level: 'restricted', version: 'latest' })}`,
    );
    await page.locator('button ::-p-text(Fix for restricted)').click();
    await page.waitForSelector('.fixed');
    await page.waitForFunction('document.querySelectorAll(".findings strong").length === 1');
    assert.deepEqual((await texts('.fixed'))[0]?.split('\n'), [
      '4 fields changed',
      'Verify: the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image.',
      'Pod a: restrictedVolumes is not fixed (volume "v" uses restricted volume type "hostPath"). Choices: use a persistentVolumeClaim for data that must outlive the pod; use an emptyDir for the data of a single pod; use a configMap, secret, downwardAPI or projected volume for files from the cluster; keep the volume, and move the pod to a separate namespace that enforces a less strict level.',
    ]);
  });

  test('evaluates again while the user types, and has levels that are keyboard-accessible radio buttons', async () => {
    const { page, texts } = await browser.open(url);
    await page.waitForSelector('.card');
    const content = await page.waitForSelector('.editor >>> .cm-content');
    await content?.focus();
    await page.keyboard.down('Control');
    await page.keyboard.press('a');
    await page.keyboard.up('Control');
    await page.keyboard.type('kind: Pod');
    await page.waitForSelector('.error');
    assert.deepEqual(await texts('.error'), ["line 1 Object 'apiVersion' is missing"]);
    await page.waitForSelector('.editor >>> .cm-lint-marker-error');
    await page.focus('.levels input:checked');
    await page.keyboard.press('ArrowLeft');
    assert.deepEqual(await texts('.levels label:has(:checked)'), ['Baseline\nno pods']);
  });

  test('replaces the manifests with dropped files, and its link contains the new manifests', async () => {
    const { page } = await browser.open(url);
    await page.waitForSelector('.card');
    await page.evaluate(`{
      const dataTransfer = new DataTransfer();
      for (const name of ['a', 'b']) dataTransfer.items.add(new File(['{apiVersion: v1, kind: Pod, metadata: {name: ' + name + '}}'], name));
      document.querySelector('.playground').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true }));
    }`);
    await page.waitForFunction('document.querySelectorAll(".card").length === 2');
    await page.locator('button ::-p-text(Share)').click();
    await page.waitForSelector('.message');
    const state = await decodeState(new URL(page.url()).hash);
    assert.deepEqual(state, {
      text: '{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b}}',
      level: 'restricted',
      version: 'latest',
    });
  });

  test('shows the content of a malicious link as text', async () => {
    const fragment = await encodeState({ text: HOSTILE, level: 'baseline', version: 'v1.20' });
    const { page, errors, texts } = await browser.open(`${url}${fragment}`);
    await page.waitForSelector('.findings');
    assert.deepEqual(await texts('.card h2'), [`Pod </script>${NAME}/${NAME} denied`]);
    assert.deepEqual([await texts('img'), await page.title(), errors], [[], 'Portcullis playground', []]);
  });

  test('reports a damaged link', async () => {
    const { page, texts } = await browser.open(`${url}#v1.<img src=x>`);
    await page.waitForSelector('.message');
    assert.deepEqual(await texts('.message'), ['The link cannot be read: it is damaged or incomplete.']);
  });

  test('opens a file from a link, or reports why it cannot', async () => {
    const html = await readFile(join(folder, 'index.html'), 'utf8');
    const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
      '/': ['text/html', html],
      '/pod.yaml': ['text/plain', HOST_PATH],
      '/large.yaml': ['text/plain', `#${'x'.repeat(3 * 256 * 1024)}`],
    };
    const origins = await Promise.all(
      [{}, { 'access-control-allow-origin': '*' }].map(async (headers) => {
        const server = createServer(({ url: path = '' }, response) => {
          const [type, text] = files[path.replace(/\?.*/, '')] ?? ['', ''];
          response.writeHead(type === '' ? 404 : 200, { 'content-type': type, ...headers }).end(text);
        }).listen(0, '127.0.0.1');
        await once(server, 'listening');
        return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
      }),
    );
    const [site = assert.fail(), other = assert.fail()] = origins.map(({ origin }) => origin);
    const unreadable = (file: string, reason: string): string => `The file cannot be opened: ${file}: ${reason}.`;
    const scheme = 'manifest must be an http, https or data URL, or a path on the same site';
    const closed = 'its server cannot be reached, or does not permit other sites to read the file';
    const cases: readonly (readonly [file: string, problem?: string])[] = [
      ['pod.yaml'],
      [`${other}/pod.yaml`],
      [`data:,${encodeURIComponent(HOST_PATH)}`],
      ['absent.yaml', unreadable(`${site}/absent.yaml`, 'the server returned status 404')],
      [
        '',
        unreadable(`${site}/?manifest=`, 'it is a web page: use the URL of the file itself, such as its "raw" view'),
      ],
      [
        `${other}/large.yaml`,
        unreadable(`${other}/large.yaml`, 'it has more than 262144 characters: use portcullis check'),
      ],
      ['javascript:alert(1)', unreadable('javascript:alert(1)', scheme)],
      ['file:///etc/passwd', unreadable('file:///etc/passwd', scheme)],
      ['http://[', unreadable('http://[', scheme)],
      ['http://127.0.0.1:1/pod.yaml', unreadable('http://127.0.0.1:1/pod.yaml', closed)],
    ];
    for (const [file, problem] of cases) {
      const { page, texts } = await browser.open(`${site}/?manifest=${encodeURIComponent(file)}`);
      await page.waitForSelector('.card');
      assert.deepEqual([file, await texts('.message')], [file, problem === undefined ? [] : [problem]]);
      assert.deepEqual(await texts('.card h2'), [
        problem === undefined ? 'Pod default/a denied' : 'Deployment shop/web denied',
      ]);
    }
    const { page, texts } = await browser.open(`${other}/?manifest=${site}/pod.yaml`);
    await page.waitForSelector('.message');
    assert.deepEqual(await texts('.message'), [unreadable(`${site}/pod.yaml`, closed)]);
    for (const { server } of origins) server.close();
  });

  test('has no horizontal scrolling and no accessibility violations on a narrow, dark page', async () => {
    const { page } = await browser.open(url, { colors: 'dark', width: 400 });
    await page.waitForSelector('.card');
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 400);
    assert.deepEqual(await findAccessibilityProblems(page), []);
  });
});
