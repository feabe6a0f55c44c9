/** Tests the report on many clusters in a browser, which loads it from a single file without a server. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { ReportData } from '../../src/web/report-data.ts';
import {
  type Browser,
  findAccessibilityProblems,
  findForeignRequests,
  launchBrowser,
  noBrowser,
} from '../support/browser.ts';
import { runProgram } from '../support/memory-io.ts';

describe('the fleet report', { skip: noBrowser }, () => {
  let browser: Browser;
  let folder = '';
  let url = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    browser = await launchBrowser();
    const { stdout } = await runProgram(['report', '-f', 'examples/cluster', '-o', 'json']);
    const report = JSON.parse(stdout) as ReportData;
    const clean = report.namespaces.map((one) => ({ ...one, workloads: [], verdict: 'clean' }));
    const unread = report.namespaces.map((one) => ({ ...one, workloads: [], verdict: 'inconclusive' }));
    const none = { workloads: 0, pods: 0 };
    const workloads = { deniedNow: none, wouldBeDenied: none, restart: none };
    const summary = { ...report.summary, workloads };
    const rollout = { ...report.rollout, state: 'Enforcing', next: undefined };
    const reports = {
      'prod-1': report,
      'prod-2': { ...report, namespaces: clean, summary, rollout },
      'test-<b>': { ...report, namespaces: unread, summary, rollout: { ...rollout, state: 'Blocked' } },
    };
    for (const [name, data] of Object.entries(reports)) {
      const saved = { ...data, cluster: { uid: name, name } };
      await writeFile(join(folder, `${name.replace(/\W/g, '-')}.json`), JSON.stringify(saved));
    }
    const failed = { cluster: { context: 'lab' }, error: 'connection refused' };
    const list = { apiVersion: report.apiVersion, kind: 'ReportList', items: [failed] };
    await writeFile(join(folder, 'list.json'), JSON.stringify(list));
    await writeFile(join(folder, 'prod-1.html'), '');
    const page = await runProgram(['report', '--fleet', folder, '--reference=prod-2']);
    const stderr =
      'warning: The checks of test-<b> are not compared, because the report of this cluster does not contain them.\nerror: cluster lab: connection refused\n';
    assert.deepEqual([page.code, page.stderr], [0, stderr]);
    await writeFile(join(folder, 'fleet.html'), page.stdout);
    url = pathToFileURL(join(folder, 'fleet.html')).href;
  });
  after(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });

  test('shows the clusters, without errors, requests to other hosts, or accessibility violations', async () => {
    for (const view of [{}, { colors: 'dark', width: 390 }] as const) {
      const { page, errors, requests, texts } = await browser.open(url, view);
      await page.waitForSelector('.report');
      assert.deepEqual(await texts('.tile'), [
        'Clusters\n3\n1 enforcing, 1 more not read',
        'Namespaces\n24\nin 3 clusters',
        'Denied now\n0\nin 0 clusters',
        'Would be denied\n4\nin 1 cluster',
        'To restart\n0\nin 0 clusters',
        'Namespaces not evaluated\n8\nin 1 cluster',
      ]);
      assert.deepEqual(await texts('[aria-label="Checks by cluster"] tbody tr'), [
        'prod-1\t4\t4\t4\t4\t1\t2\t2\t0',
        'test-<b>\t?\t?\t?\t?\t?\t?\t?\t8',
        'prod-2\t0\t0\t0\t0\t0\t0\t0\t0',
      ]);
      const [unread] = await texts('[aria-label="Clusters"] tbody tr');
      assert.equal(unread, 'lab\tNot read\t?\t?\t?\t?\t?\t?\tconnection refused\t');
      const [difference] = await texts('[aria-label="Differences"] tbody tr');
      assert.equal(difference, 'allowPrivilegeEscalation\tcheck\tpassed\tviolated\t\n1 cluster');
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), view.width ?? 1280);
      assert.deepEqual(await findAccessibilityProblems(page), []);
      assert.deepEqual([errors, findForeignRequests(requests)], [[], []]);
    }
  });

  test('links from a cell to the denied workloads, and from a workload to the report of its cluster', async () => {
    const { page, texts } = await browser.open(url);
    await page.waitForSelector('.heat-map td a');
    await page.click('[aria-label="2 in cluster prod-1 violate hostPorts"]');
    await page.waitForFunction(`document.activeElement.id === 'workloads'`);
    assert.equal((await texts('[aria-label="Denied workloads"] tbody tr')).length, 2);
    const href: unknown = await page.evaluate(
      `document.querySelector('[aria-label="Denied workloads"] tbody a').getAttribute('href')`,
    );
    assert.equal(href, `${join(folder, 'prod-1.html')}#namespace=legacy&at=workloads`);
  });

  test('can be filtered by a part of the cluster name and by state', async () => {
    for (const [fragment, names] of [
      ['#cluster=prod', ['prod-1', 'prod-2']],
      ['#cluster=prod-2', ['prod-2']],
      ['#cluster=lab', ['lab']],
      ['#state=Blocked', ['test-<b>']],
      ['#cluster=none', []],
    ] as const) {
      const { page, texts } = await browser.open(`${url}${fragment}`);
      await page.waitForSelector('.report');
      assert.deepEqual(await texts('[aria-label="Clusters"] tbody th'), names);
    }
  });
});
