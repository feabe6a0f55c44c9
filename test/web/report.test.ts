/** Tests the report in a browser, which loads it from a single file without a server. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inflateRawSync } from 'node:zlib';
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

describe('the report', { skip: noBrowser }, () => {
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

  /** Two namespaces. `shop` has two denied workloads, and `shop-test` has one. */
  const SHOPS = ['shop', 'shop-test'].flatMap((name) => [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { team: name.replace('-', '') } } },
    ...['web', ...(name === 'shop' ? ['api'] : [])].map((workload) => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: workload, namespace: name },
      spec: {
        selector: { matchLabels: { app: workload } },
        template: {
          metadata: { labels: { app: workload } },
          spec: {
            ...(workload === 'api' ? { hostNetwork: true } : {}),
            securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
            containers: [
              { name: 'c', image: 'i', securityContext: { capabilities: { drop: ['ALL'] }, runAsUser: 1000 } },
            ],
          },
        },
      },
    })),
  ]);
  const writeObjects = async (name: string, items: readonly object[]): Promise<string> => {
    await writeFile(join(folder, name), JSON.stringify({ kind: 'List', apiVersion: 'v1', items }));
    return join(folder, name);
  };

  test('shows the state of manifests, without errors, requests to other hosts, or accessibility violations', async () => {
    const url = await write('report.html', await report('-f', 'examples/report'));
    for (const view of [{}, { colors: 'dark', width: 400 }] as const) {
      const { page, errors, requests, texts } = await browser.open(url, view);
      await page.waitForSelector('.report');
      assert.deepEqual(await texts('.tile'), [
        'Namespaces\n7\n2 clean, 0 inconclusive',
        'Denied now\n2\n0 running pods',
        'Would be denied\n5\n0 running pods',
        'To restart\n1\n1 running pod',
        'Exemptions\n3\n0 namespaces',
      ]);
      assert.deepEqual((await texts('.heat-map tbody tr')).slice(0, 2), [
        'monitoring\t0\t1\t2\tviolating',
        'payments\t0\t0\t2\tviolating',
      ]);
      assert.deepEqual((await texts('.cause h3')).slice(0, 1), ['1 workload denied now']);
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), view.width ?? 1280);
      const hints = view.width === undefined ? [] : Array<string>(3).fill('Scroll sideways to see all columns →');
      // The page measures its regions after it has been rendered.
      await page.waitForFunction(`document.querySelectorAll('.scroll-hint').length >= ${hints.length}`);
      assert.deepEqual(await texts('.scroll-hint'), hints);
      assert.deepEqual(await texts('.scroll[tabindex="0"][role="region"][aria-label]'), await texts('.scroll.right'));
      assert.equal((await texts('.scroll.right')).length, hints.length);
      assert.deepEqual(await findAccessibilityProblems(page), []);
      assert.deepEqual([errors, findForeignRequests(requests)], [[], []]);
      if (view.width === undefined) await saveScreenshot(page, 'report', 1300);
    }
  });

  test('cannot be created from invalid input, whose errors are printed', async () => {
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

  test('shows exceptions with their expiry times, and the workloads that they allow', async () => {
    const exception = {
      ...{ apiVersion: 'policy.portcullis.dev/v1alpha1', kind: 'PodSecurityException' },
      metadata: { name: 'host', namespace: 'shop-test' },
      spec: {
        serviceAccountName: 'default',
        allow: [{ check: 'allowPrivilegeEscalation', container: 'c', image: 'docker.io/library/i' }],
        expiresAt: '2099-01-31T00:00:00Z',
        reason: 'Moves to another image',
      },
    };
    const html = await report('-f', await writeObjects('exceptions.json', [...SHOPS.slice(3), exception]));
    const { page, texts } = await browser.open(await write('exceptions.html', html));
    await page.waitForSelector('.report');
    assert.deepEqual(await texts('[aria-label=Exceptions] tbody tr'), [
      'shop-test/host\tdefault\tProposed\nit is not approved: portcullis exception approve host -n shop-test\n\t2099-01-31T00:00:00Z\t–\t0\tMoves to another image',
      'Deployment shop-test/web\tallowPrivilegeEscalation: container "c" must set securityContext.allowPrivilegeEscalation=false\thost until 2099-01-31T00:00:00Z',
    ]);
    assert.deepEqual(await findAccessibilityProblems(page), []);
  });

  test('is created despite an earlier report that cannot be read, which is reported', async () => {
    await writeFile(join(folder, 'list.json'), '{ "apiVersion": "report.portcullis.dev/v1" }');
    await writeFile(join(folder, 'pod.yaml'), 'kind: Pod');
    await writeFile(join(folder, 'object.json'), '{ "kind": "Pod" }');
    const other = (file: string): string => `${join(folder, file)} is not the output of portcullis report -o json`;
    const cases: readonly (readonly [file: string, message: string])[] = [
      ['missing.json', `cannot read ${join(folder, 'missing.json')}: there is no such file`],
      ['object.json', `${other('object.json')}: must have required property 'apiVersion'`],
      ['list.json', `${other('list.json')}: must have required property 'kind'`],
      ['pod.yaml', `${other('pod.yaml')}: Unexpected token 'k', "kind: Pod" is not valid JSON`],
    ];
    for (const [file, message] of cases) {
      const outcome = await runProgram(['report', '-f', 'examples/cluster', '--compare', join(folder, file)]);
      assert.deepEqual(outcome, { code: 2, stdout: '', stderr: `error: ${message}\n` });
    }
  });

  test('shows the data that -o json prints', async () => {
    const [html, json] = [await report('-f', 'examples/cluster'), await report('-f', 'examples/cluster', '-o', 'json')];
    const packed = /<script type="application\/octet-stream" id="data">(.*)<\/script>/.exec(html)?.[1] ?? '';
    const embedded = inflateRawSync(Buffer.from(packed, 'base64')).toString();
    const withoutTime = (text: string): unknown => ({ ...(JSON.parse(text) as ReportData), time: '' });
    assert.deepEqual(withoutTime(embedded), withoutTime(json));
  });

  test('shows malicious names in manifests as text', async () => {
    const pod = { apiVersion: 'v1', kind: NAME, metadata: { name: `</script>${NAME}` } };
    const template = { spec: { hostNetwork: true, containers: [{ name: NAME, image: 'i' }] } };
    await writeFile(join(folder, 'pod.json'), JSON.stringify({ ...pod, spec: { template } }));
    const html = await report('-f', join(folder, 'pod.json'));
    const { page, texts, errors } = await browser.open(await write('hostile.html', html));
    await page.waitForSelector('.workload');
    assert.deepEqual(await texts('.workload summary'), [`${NAME} </script>${NAME}`]);
    assert.deepEqual([await texts('img'), await page.title(), errors], [[], 'Portcullis report', []]);
  });

  test('marks current denials and workloads to restart, and proposes grants of the privileged SCC last', async () => {
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
    const file = join(folder, 'own.json');
    await writeFile(file, JSON.stringify({ kind: 'List', apiVersion: 'v1', items: [...items, settings] }));
    const html = await report('-f', file);
    const { page, texts, errors } = await browser.open(await write('own.html', html));
    await page.waitForSelector('.workload');
    assert.deepEqual((await texts('.tile')).slice(1, 4), [
      'Denied now\n2\n2 running pods',
      'Would be denied\n0\n0 running pods',
      'To restart\n1\n1 running pod',
    ]);
    assert.deepEqual(await texts('.heat-map tbody tr'), ['own\t0\t2\t2\tdenied now']);
    assert.deepEqual(await texts('.cause h3'), [
      '1 workload denied now',
      '1 workload denied now',
      '1 workload to restart',
    ]);
    assert.deepEqual(await texts('.workload summary'), ['Pod agent', 'Pod net', 'Pod older']);
    const LAST_RESORT =
      'As a last resort, grant SCC "privileged": portcullis scc grant privileged -z default -n own Copy\nThis gives all pods of service account "default" these permissions: full control of their nodes.';
    assert.deepEqual(await texts('.fixes li'), [
      'Remove or change spec.containers[0].securityContext.privileged in the pods.',
      LAST_RESORT,
      'Remove or change spec.containers[0].securityContext.capabilities.add in the pods.',
      `Copy SCC "restricted-v2", add NET_ADMIN to allowedCapabilities, and grant the copy: portcullis scc create net pod/net -n own -f ${file} Copy`,
      LAST_RESORT,
    ]);
    assert.deepEqual([await findAccessibilityProblems(page), errors], [[], []]);
  });

  test('can be filtered in all sections with a filter in the URL', async () => {
    const url = await write('shops.html', await report('-f', await writeObjects('shops.json', SHOPS)));
    const { page, texts, errors } = await browser.open(url);
    await page.waitForSelector('.report');
    /** Returns the names in the table of namespaces, the workloads by cause, and the order of checks. */
    const sections = async (): Promise<unknown> => [
      await texts('.heat-map tbody th'),
      await texts('.cause h3'),
      await texts('[aria-label="By check"] tbody tr'),
      await texts('.filters [role=status]'),
    ];
    const ESCALATION =
      'allowPrivilegeEscalation\t\nN\n\tA\tSet securityContext.allowPrivilegeEscalation to false in each container.';
    const escalation = (workloads: string, admitted: number): string =>
      ESCALATION.replace('N', workloads).replace('A', String(admitted));
    const hosts =
      'hostNamespaces\t\n1 workload\n\t3\tRemove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.';
    const shop = [['1 workload would be denied', '1 workload would be denied']].flat();
    const cases: readonly (readonly [fragment: string, ...expected: readonly string[][]])[] = [
      ['', ['shop', 'shop-test'], [...shop, '1 workload would be denied'], [escalation('3 workloads', 2), hosts], ['']],
      [
        '#namespace=shop',
        ['shop'],
        shop,
        [escalation('2 workloads', 1), hosts.replace('3', '2')],
        ['1 of 2 namespaces'],
      ],
      ['#namespace=shop-', ['shop-test'], [shop[0] ?? ''], [escalation('1 workload', 1)], ['1 of 2 namespaces']],
      ['#label=team%3Dshoptest', ['shop-test'], [shop[0] ?? ''], [escalation('1 workload', 1)], ['1 of 2 namespaces']],
      ['#label=team%3D%3D%3D', [], [], [], ['0 of 2 namespaces']],
      ['#verdict=deniedNow', [], [], [], ['0 of 2 namespaces']],
      [
        '#check=hostNamespaces',
        ['shop'],
        [shop[0] ?? ''],
        [hosts.replace('3', '0'), escalation('1 workload', 1)],
        ['1 of 2 namespaces'],
      ],
      ['#level=baseline&namespace=shop', ['shop'], [shop[0] ?? ''], [hosts.replace('3', '1')], ['1 of 2 namespaces']],
    ];
    for (const [fragment, ...expected] of cases) {
      await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
      await page.waitForFunction(
        `document.querySelector('.filters [role=status]').innerText === ${JSON.stringify(expected[3]?.[0])}`,
      );
      assert.deepEqual([fragment, await sections()], [fragment, expected]);
    }
    await page.locator('.filters button ::-p-text(Show all)').click();
    await page.select('.filters [name=verdict]', 'violating');
    await page.type('.filters [name=label]', 'team=shop');
    assert.equal(new URL(page.url()).hash, '#label=team%3Dshop&verdict=violating');
    assert.deepEqual(errors, []);
  });

  test('has links from a cell to its workloads and back that work with the keyboard', async () => {
    const url = await write('shops.html', await report('-f', await writeObjects('shops.json', SHOPS)));
    const { page, texts } = await browser.open(url);
    const focused = async (): Promise<unknown> => await page.evaluate('document.activeElement.innerText');
    const cell = '[aria-label="2 in namespace shop denied by restricted"]';
    await page.waitForSelector(cell);
    await page.focus(cell);
    await page.keyboard.press('Enter');
    await page.waitForFunction('document.activeElement.tagName === "H2"');
    assert.deepEqual(
      [await focused(), await texts('.card > summary strong')],
      ['Workloads denied by Pod Security', ['shop']],
    );
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Back to the row of shop');
    await page.keyboard.press('Enter');
    await page.waitForFunction('document.activeElement.id === "namespace/shop"');
    assert.deepEqual(await texts('.heat-map tbody th'), ['shop', 'shop-test']);
    assert.deepEqual(await findAccessibilityProblems(page), []);
  });

  test('has tables that can be sorted by their headers', async () => {
    const url = await write('shops.html', await report('-f', await writeObjects('shops.json', SHOPS)));
    const { page, texts } = await browser.open(url);
    await page.waitForSelector('.heat-map');
    const sorted = async (): Promise<unknown> => [
      await texts('.heat-map tbody th'),
      await page.evaluate(`Array.from(document.querySelectorAll('.heat-map [aria-sort]'), (one) => one.ariaSort)`),
    ];
    for (const expected of [
      [['shop-test', 'shop'], ['ascending']],
      [['shop', 'shop-test'], ['descending']],
    ]) {
      await page.locator('.heat-map button ::-p-text(restricted)').click();
      await page.waitForFunction(`document.querySelector('.heat-map [aria-sort="${expected[1]?.[0]}"]')`);
      assert.deepEqual(await sorted(), expected);
    }
  });

  test('can copy commands, and save data as CSV and JSON', async () => {
    const objects = [
      ...SHOPS,
      {
        apiVersion: 'example.com/v1',
        kind: '=cmd()',
        metadata: { name: 'x', namespace: 'shop' },
        spec: { template: { spec: { hostIPC: true, containers: [{ name: 'c', image: 'i' }] } } },
      },
    ];
    const html = await report('-f', await writeObjects('files.json', objects));
    const { page } = await browser.open(await write('files.html', html));
    await page.waitForSelector('.command');
    await page.evaluate(`{
      window.saved = [];
      navigator.clipboard.writeText = async (text) => void saved.push(text);
      URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return 'data:,'; };
    }`);
    const saved = async (number: number): Promise<string> => {
      await page.waitForFunction(`saved.length === ${number}`);
      return (await page.evaluate('saved.at(-1)')) as string;
    };
    await page.type('.filters [name=namespace]', 'shop-test');
    await page.click('.workload .copy');
    assert.equal(
      await saved(1),
      `kubectl patch deployment.apps/web -n shop-test --type=json -p '[{"op":"add","path":"/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation","value":false}]'`,
    );
    await page.waitForSelector('.copy ::-p-text(Copied)');
    await page.locator('.filters button ::-p-text(CSV)').click();
    const header = 'namespace,kind,name,verdict,level,pods,check,reason,detail,fix\r\n';
    assert.equal(
      await saved(2),
      `${header}"shop-test","Deployment","web","wouldBeDenied","restricted","0","allowPrivilegeEscalation","allowPrivilegeEscalation != false","container ""c"" must set securityContext.allowPrivilegeEscalation=false","Set securityContext.allowPrivilegeEscalation to false in each container."\r\n`,
    );
    await page.locator('.filters button ::-p-text(Show all)').click();
    await page.locator('.filters button ::-p-text(CSV)').click();
    assert.match(await saved(3), /\r\n"shop","'=cmd\(\)","x",/);
    await page.locator('.filters button ::-p-text(JSON)').click();
    const { namespaces } = JSON.parse(await saved(4)) as ReportData;
    assert.deepEqual(
      namespaces.map(({ name, workloads }) => [name, ...workloads.map((one) => one.name)]),
      [
        ['shop', 'x', 'api', 'web'],
        ['shop-test', 'web'],
      ],
    );
  });

  test('lists new and fixed violations with --compare', async () => {
    const before = await report('-f', await writeObjects('shops.json', SHOPS), '-o', 'json');
    // The file has the encoding that Windows PowerShell writes.
    await writeFile(join(folder, 'before.json'), `\ufeff${before}`, 'utf16le');
    const text = JSON.stringify(SHOPS.slice(0, 3))
      .replace('"hostNetwork":true', '"hostPID":false')
      .replace('"drop":["ALL"]', '"drop":[]');
    const changed = await writeObjects('changed.json', JSON.parse(text) as object[]);
    const html = await report('-f', changed, '--compare', join(folder, 'before.json'));
    const { page, texts } = await browser.open(await write('changed.html', html));
    await page.waitForSelector('[aria-label=Changes]');
    assert.deepEqual(await texts('[aria-label=Changes] tbody tr'), [
      'Deployment shop/web\tnew\tcapabilities_restricted',
      'Deployment shop/api\tfixed\thostNamespaces',
      'Deployment shop-test/web\tfixed\tallowPrivilegeEscalation',
    ]);
    const [note = ''] = await texts('[aria-label=Changes] .note');
    assert.match(note, /^Changes since the report from .*shops\.json at 20\S+Z\. 2 violations did not change\.$/);
  });

  test('shows 5,000 namespaces from less than 1 MB with less than a second of script time', async () => {
    const empty = JSON.parse(await report('-f', 'examples/cluster', '-o', 'json')) as ReportData;
    const namespaces = Array.from({ length: 5000 }, (_, index) => manyNamespace(index));
    const url = await renderData('large.html', { ...empty, namespaces });
    const { size } = await stat(join(folder, 'large.html'));
    assert.ok(size < 1e6, `${size} bytes`);
    const { page, texts } = await browser.open(url);
    await page.locator('button ::-p-text(Show all 5,000 namespaces)').click();
    await page.waitForFunction('document.querySelectorAll(".heat-map tbody tr").length === 5000');
    const { ScriptDuration: seconds = Infinity } = await page.metrics();
    // The reference is the time that a fixed amount of work takes under the current load. It is about 0.1 s on an idle
    // machine.
    const reference = (await page.evaluate(`(() => {
      const start = performance.now();
      let sum = 0;
      for (let i = 0; i < 3e7; i++) sum = (sum * 31 + i) % 1000003;
      return sum < 0 ? 0 : (performance.now() - start) / 1000;
    })()`)) as number;
    assert.ok(seconds < Math.max(1, 10 * reference), `${seconds} s of script time, reference ${reference} s`);
    await page.type('.filters [name=namespace]', '4999');
    await page.waitForFunction('document.querySelectorAll(".heat-map tbody tr").length === 1');
    assert.deepEqual(await texts('.heat-map tbody th'), ['team-4999']);
  });
});

/** Returns a namespace of the report. Every tenth namespace has violations. */
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
    ...({ verdict: 'wouldBeDenied', level: 'restricted', version: 'latest' } as const),
  };
  const denied = isViolating ? [{ kind: 'Deployment', name: 'web', checks: ['hostNamespaces'] }] : [];
  return {
    name: `team-${index}`,
    current: 'privileged',
    currentSource: 'default',
    currentVersion: 'latest',
    planned: 'restricted',
    plannedVersion: 'latest',
    verdict: isViolating ? 'violating' : 'clean',
    labels: { team: `t${index % 7}` },
    denied: { baseline: denied, restricted: denied },
    categories: [],
    workloads: isViolating ? [workload] : [],
    excepted: [],
    steps: [],
  };
}
