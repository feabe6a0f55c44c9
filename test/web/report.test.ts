/** Tests the report in a browser, from one file without a server. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bundlePage } from '../../src/cli/output/bundle.ts';
import { renderPage } from '../../src/cli/output/html.ts';
import type { ReportData, ReportNamespace } from '../../src/web/report-data.ts';
import {
  type Browser,
  findAccessibilityProblems,
  findForeignRequests,
  launchBrowser,
  noBrowser,
  saveScreenshot,
} from '../support/browser.ts';
import { runProgram } from '../support/memory-io.ts';

const NAME = `<img src=x onerror="document.title='run'">`;

describe('report', { skip: noBrowser }, () => {
  let browser: Browser;
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    browser = await launchBrowser();
  });
  after(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });

  const write = async (name: string, html: string): Promise<string> => {
    await writeFile(join(folder, name), html);
    return pathToFileURL(join(folder, name)).href;
  };
  const report = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runProgram(['report', ...args]);
    assert.deepEqual([code, stderr], [0, '']);
    return stdout;
  };
  const renderData = async (name: string, data: ReportData): Promise<string> =>
    await write(name, renderPage(await bundlePage('report'), { title: 'Portcullis report', data }));

  test('shows the state of manifests, without errors, requests to other hosts or accessibility violations', async () => {
    const url = await write('report.html', await report('-f', 'examples/cluster'));
    for (const view of [{}, { colors: 'dark', width: 400 }] as const) {
      const { page, errors, requests, texts } = await browser.open(url, view);
      await page.waitForSelector('.report');
      assert.deepEqual(await texts('.tile'), [
        'Namespaces\n8\n7 clean, 0 inconclusive',
        'Denied now\n0\n0 running pods',
        'Would be denied\n4\n4 running pods',
        'To restart\n0\n0 running pods',
        'Denied by SCCs\n0\n13 SCCs',
        'Exemptions\n19\n0 namespaces',
      ]);
      assert.deepEqual((await texts('.heat-map tbody tr')).slice(0, 2), [
        'legacy\t0\t3\t4\tviolating',
        'audited\t0\t0\t0\tno violations',
      ]);
      assert.deepEqual((await texts('.workload h3')).slice(0, 1), ['Pod backup would be denied']);
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), view.width ?? 1280);
      const hints = view.width === undefined ? [] : Array<string>(2).fill('Scroll sideways to see all columns →');
      // The page measures its regions after it has been rendered.
      await page.waitForFunction(`document.querySelectorAll('.scroll-hint').length >= ${hints.length}`);
      assert.deepEqual(await texts('.scroll-hint'), hints);
      assert.deepEqual(await texts('.scroll[tabindex="0"][role="region"][aria-label]'), await texts('.scroll.right'));
      assert.equal((await texts('.scroll.right')).length, hints.length);
      assert.deepEqual(await findAccessibilityProblems(page), []);
      assert.deepEqual([errors, findForeignRequests(requests)], [[], []]);
      if (view.width === undefined) await saveScreenshot(page, 'report', 1000);
    }
  });

  test('invalid input is reported', async () => {
    const outcomes = [
      await runProgram(['report', '-f', 'examples/cluster'], { terminals: ['stdout'] }),
      await runProgram(['report', '-f', 'missing']),
      await runProgram(['report'], { env: { KUBECONFIG: 'missing' } }),
    ];
    assert.deepEqual(outcomes, [
      {
        code: 2,
        stdout: '',
        stderr: 'error: the output is an HTML page: write it to a file with > report.html, or set -o json\n',
      },
      { code: 2, stdout: '', stderr: 'error: the path "missing" does not exist\n' },
      {
        code: 2,
        stdout: '',
        stderr: 'error: no cluster to read: there is no missing; set --kubeconfig\n',
      },
    ]);
  });

  test('the page shows the data of -o json', async () => {
    const [html, json] = [await report('-f', 'examples/cluster'), await report('-f', 'examples/cluster', '-o', 'json')];
    const embedded = /<script type="application\/json" id="data">(.*)<\/script>/.exec(html)?.[1] ?? '';
    const withoutTime = (text: string): unknown => ({ ...(JSON.parse(text) as ReportData), time: '' });
    assert.deepEqual(withoutTime(embedded), withoutTime(json));
  });

  test('malicious names in manifests are shown as text', async () => {
    const pod = { apiVersion: 'v1', kind: NAME, metadata: { name: `</script>${NAME}` } };
    const template = { spec: { hostNetwork: true, containers: [{ name: NAME, image: 'i' }] } };
    await writeFile(join(folder, 'pod.json'), JSON.stringify({ ...pod, spec: { template } }));
    const html = await report('-f', join(folder, 'pod.json'));
    const { page, texts, errors } = await browser.open(await write('hostile.html', html));
    await page.waitForSelector('.workload');
    assert.deepEqual(await texts('.workload h3'), [`${NAME} </script>${NAME} would be denied`]);
    assert.deepEqual([await texts('img'), await page.title(), errors], [[], 'Portcullis report', []]);
  });

  test('marks current denials and workloads to restart, and proposes granting privileged last', async () => {
    const label = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    const pod = (name: string, namespace: string, container: object): object => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace },
      spec: { containers: [{ name: 'c', image: 'i', ...container }] },
    });
    const items = [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'own', labels: label } },
      pod('agent', 'own', { securityContext: { privileged: true } }),
      pod('net', 'own', { securityContext: { capabilities: { add: ['NET_ADMIN'] } } }),
      pod('older', 'own', {}),
    ];
    const configuration = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
    const settings = { ...configuration, metadata: { name: 'cluster' }, spec: { scc: { mode: 'enforce' } } };
    await writeFile(
      join(folder, 'own.json'),
      JSON.stringify({ kind: 'List', apiVersion: 'v1', items: [...items, settings] }),
    );
    const html = await report('-f', join(folder, 'own.json'));
    const { page, texts, errors } = await browser.open(await write('own.html', html));
    await page.waitForSelector('.workload');
    assert.deepEqual((await texts('.tile')).slice(1, 4), [
      'Denied now\n2\n2 running pods',
      'Would be denied\n0\n0 running pods',
      'To restart\n1\n1 running pod',
    ]);
    assert.deepEqual(await texts('.heat-map tbody tr'), ['own\t0\t2\t2\tdenied now']);
    assert.deepEqual(await texts('.workload h3'), [
      'Pod agent denied now',
      'Pod net denied now',
      'Pod older to restart',
    ]);
    assert.deepEqual(await texts('.fixes li'), [
      'Remove or change spec.containers[0].securityContext.privileged of the pods.',
      'As a last resort, grant the SCC: portcullis scc grant privileged -z default -n own\nThis gives all pods of service account "default" full control of their nodes.',
      'Remove or change spec.containers[0].securityContext.capabilities.add of the pods.',
      'Create a custom SCC that allows what the pods need, and grant it: portcullis scc create net pod/net -n own',
    ]);
    assert.deepEqual([await findAccessibilityProblems(page), errors], [[], []]);
  });

  test('renders 5,000 namespaces in less than a second of script time', async () => {
    const empty = JSON.parse(await report('-f', 'examples/cluster', '-o', 'json')) as ReportData;
    const namespaces = Array.from({ length: 5000 }, (_, index) => manyNamespace(index));
    const url = await renderData('large.html', { ...empty, namespaces });
    const { page, texts } = await browser.open(url);
    await page.locator('button ::-p-text(Show all 5,000 namespaces)').click();
    await page.waitForFunction('document.querySelectorAll(".heat-map tbody tr").length === 5000');
    const { ScriptDuration: seconds = Infinity } = await page.metrics();
    // The reference is the time of a fixed amount of work under the current load. On an idle machine it is about 0.1 s.
    const reference = (await page.evaluate(`(() => {
      const start = performance.now();
      let sum = 0;
      for (let i = 0; i < 3e7; i++) sum = (sum * 31 + i) % 1000003;
      return sum < 0 ? 0 : (performance.now() - start) / 1000;
    })()`)) as number;
    assert.ok(seconds < Math.max(1, 10 * reference), `${seconds} s of script time, reference ${reference} s`);
    await page.type('.filter', '4999');
    await page.waitForFunction('document.querySelectorAll(".heat-map tbody tr").length === 1');
    assert.deepEqual(await texts('.heat-map tbody th'), ['team-4999']);
  });
});

/** Every tenth namespace is violating. */
function manyNamespace(index: number): ReportNamespace {
  const isViolating = index % 10 === 0;
  const violation = {
    check: 'hostNamespaces',
    reason: 'host namespaces',
    detail: 'hostNetwork=true',
    fields: [],
    fix: '',
  };
  const workload = {
    ...{ kind: 'Deployment', name: 'web', pods: 1, causes: [], violations: [violation] },
    ...({ verdict: 'wouldBeDenied', level: 'restricted' } as const),
  };
  return {
    name: `team-${index}`,
    current: 'privileged',
    currentSource: 'default',
    planned: 'restricted',
    verdict: isViolating ? 'violating' : 'clean',
    denied: { privileged: 0, baseline: isViolating ? 1 : 0, restricted: isViolating ? 1 : 0 },
    categories: [],
    workloads: isViolating ? [workload] : [],
    excepted: [],
    steps: [],
  };
}
