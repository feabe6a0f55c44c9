/** Tests reports of many clusters. `test/web` tests the page itself. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { FleetData } from '../../../src/web/fleet-data.ts';
import type { ReportData } from '../../../src/web/report-data.ts';
import { runProgram } from '../../support/memory-io.ts';

const namespace = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } },
});
const LABELS = { app: 'a' };
const deployment = (name: string, spec: object) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop' },
  spec: {
    selector: { matchLabels: LABELS },
    template: { metadata: { labels: LABELS }, spec: { containers: [{ name: 'c', image: 'i' }], ...spec } },
  },
});
const HOST_NETWORK = deployment('agent', { hostNetwork: true });
const HOST_PID_AND_NETWORK = deployment('debug', { hostPID: true, hostNetwork: true, volumes: [] });
const HOST_PATH = deployment('logs', { volumes: [{ name: 'h', hostPath: { path: '/' } }] });

const DEEP = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;

describe('report --fleet', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  });
  after(async () => await rm(folder, { recursive: true }));

  const computeReport = async (...objects: readonly object[]): Promise<ReportData> => {
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [namespace('shop'), ...objects] });
    const { stdout, stderr } = await runProgram(['report', '-f', '-', '-o', 'json'], { stdin });
    assert.equal(stderr, '');
    return JSON.parse(stdout) as ReportData;
  };
  const save = async (name: string, report: unknown): Promise<string> => {
    const file = join(folder, `${name}.json`);
    await writeFile(file, typeof report === 'string' ? report : JSON.stringify(report));
    return file;
  };
  const joinFiles = async (...files: readonly string[]): Promise<FleetData> => {
    const { code, stdout } = await runProgram(['report', '--fleet', ...files, '-o', 'json']);
    assert.equal(code, 0);
    return JSON.parse(stdout) as FleetData;
  };

  test('counts the denied workloads of each cluster, and lists the clusters with the most denied workloads first', async () => {
    const small = await save('small', await computeReport(HOST_NETWORK));
    const large = await save('large', await computeReport(HOST_PATH, HOST_PID_AND_NETWORK));
    const { clusters } = await joinFiles(small, large);
    assert.deepEqual(
      clusters.map(({ name, workloads, levels, checks, denied, omitted, notEvaluated }) => {
        return { name, workloads, levels, checks, denied: denied.map((one) => one.name), omitted, notEvaluated };
      }),
      [
        {
          name: 'large',
          workloads: { deniedNow: 2, wouldBeDenied: 0, restart: 0 },
          levels: { privileged: 0, baseline: 1, restricted: 0 },
          checks: { hostPathVolumes: 1, hostNamespaces: 1 },
          denied: ['debug', 'logs'],
          omitted: 0,
          notEvaluated: [],
        },
        {
          name: 'small',
          workloads: { deniedNow: 1, wouldBeDenied: 0, restart: 0 },
          levels: { privileged: 0, baseline: 1, restricted: 0 },
          checks: { hostNamespaces: 1 },
          denied: ['agent'],
          omitted: 0,
          notEvaluated: [],
        },
      ],
    );
  });

  test('sorts the checks by the number of workloads in all clusters that their fixes would admit', async () => {
    const both = await save('both', await computeReport(HOST_PATH, HOST_NETWORK));
    const one = await save('one', await computeReport(HOST_PID_AND_NETWORK));
    const { checks } = await joinFiles(both, one);
    assert.deepEqual(
      checks.map(({ check, workloads, admitted, clusters }) => ({ check, workloads, admitted, clusters })),
      [
        { check: 'hostNamespaces', workloads: 2, admitted: 2, clusters: ['both', 'one'] },
        { check: 'hostPathVolumes', workloads: 1, admitted: 3, clusters: ['both'] },
      ],
    );
    assert.ok(checks.every(({ fix }) => fix !== ''));
  });

  test('does not count a namespace as clean if it was not evaluated', async () => {
    const report = await computeReport(HOST_NETWORK);
    const namespaces = report.namespaces.map((one) => {
      return { ...one, verdict: 'inconclusive', error: 'the pods could not be read', workloads: [] };
    });
    const workloads = Object.fromEntries(
      ['deniedNow', 'wouldBeDenied', 'restart'].map((verdict) => [verdict, { workloads: 0, pods: 0 }]),
    );
    const unread = await save('unread', {
      ...report,
      namespaces,
      summary: { ...report.summary, inconclusive: 1, workloads },
    });
    const read = await save('read', report);
    const { clusters } = await joinFiles(unread, read);
    assert.deepEqual(
      clusters.map(({ name, notEvaluated, levels }) => ({ name, notEvaluated, levels })),
      [
        { name: 'read', notEvaluated: [], levels: { privileged: 0, baseline: 1, restricted: 0 } },
        { name: 'unread', notEvaluated: ['shop'], levels: { privileged: 0, baseline: 0, restricted: 0 } },
      ],
    );
    const { stdout } = await runProgram(['report', '--fleet', unread, read, '-o', 'csv']);
    const [header, ...rows] = stdout.trimEnd().split('\r\n');
    assert.match(header ?? '', /,notEvaluated,hostNamespaces$/);
    assert.deepEqual(
      rows.map((row) => row.split(',').slice(-2)),
      [
        ['"0"', '"1"'],
        ['"1"', '""'],
      ],
    );
  });

  test('uses the latest report of each cluster, and warns about older reports', async () => {
    const report = await computeReport(HOST_NETWORK);
    const cluster = { uid: 'c0ffee', context: 'prod' };
    const monday = await save('monday', { ...report, cluster, time: '2026-11-23T08:00:00Z' });
    const friday = await save('friday', { ...report, cluster, time: '2026-11-27T08:00:00Z' });
    for (const files of [
      [monday, friday],
      [friday, monday],
    ]) {
      const { code, stdout, stderr } = await runProgram(['report', '--fleet', ...files, '-o', 'json']);
      const { clusters } = JSON.parse(stdout) as FleetData;
      assert.deepEqual([code, clusters.map(({ name, time }) => [name, time])], [0, [['prod', '2026-11-27T08:00:00Z']]]);
      assert.equal(
        stderr,
        `warning: ${monday} is not part of the report, because ${friday} is the latest report of the same cluster.\n`,
      );
    }
  });

  test('uses the names in the settings to distinguish clusters that were cloned from one image', async () => {
    const report = await computeReport();
    const names = [undefined, 'paris', 'rome', 'rome'];
    const files = await Promise.all(
      names.map(async (name, index) => {
        const cluster = { uid: 'c0ffee', context: `admin@${index}`, name };
        return await save(`clone-${index}`, { ...report, cluster, time: `2026-11-2${index}T08:00:00Z` });
      }),
    );
    const { stdout, stderr } = await runProgram(['report', '--fleet', ...files, '-o', 'json']);
    const { clusters } = JSON.parse(stdout) as FleetData;
    assert.deepEqual(
      clusters.map(({ name, context }) => [name, context]),
      [
        ['admin@0', 'admin@0'],
        ['paris', 'admin@1'],
        ['rome', 'admin@3'],
      ],
    );
    const [first = '', second = '', third = '', fourth = ''] = files;
    assert.equal(
      stderr,
      `warning: ${third} is not part of the report, because ${fourth} is the latest report of the same cluster.\n` +
        `warning: ${first}, ${second}, ${fourth} have the same UID but are counted as different clusters, because their names in the settings differ. If a cluster was renamed, remove its older report.\n`,
    );
  });

  test('adds the file name to the names of clusters with the same context name', async () => {
    const report = await computeReport();
    const files = await Promise.all(
      ['a', 'b'].map(async (uid) => await save(uid, { ...report, cluster: { uid, context: 'admin' } })),
    );
    const { clusters } = await joinFiles(...files);
    assert.deepEqual(
      clusters.map(({ name }) => name),
      files.map((file) => `admin (${file})`),
    );
  });

  const configuration = (spec: object) => ({
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec,
  });
  const useOfScc = (name: string, scc: string) => [
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name },
      rules: [
        {
          apiGroups: ['security.openshift.io'],
          resources: ['securitycontextconstraints'],
          resourceNames: [scc],
          verbs: ['use'],
        },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name, namespace: 'shop' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: 'shop' }],
    },
  ];
  const exception = (name: string) => ({
    apiVersion: 'policy.portcullis.dev/v1alpha1',
    kind: 'PodSecurityException',
    metadata: { name, namespace: 'shop' },
    spec: {
      serviceAccountName: name,
      allow: [{ check: 'hostNamespaces', values: ['hostNetwork'] }],
      expiresAt: '2099-01-01T00:00:00Z',
      reason: 'SEC-1',
    },
  });

  test('lists the differences from the reference cluster, grouped by value', async () => {
    const [strict, loose] = [
      { clusterName: 'prod-1', rollout: { phase: 'Evaluate' }, scc: { mode: 'report' } },
      { rollout: { phase: 'Evaluate' }, scc: { mode: 'off' }, podSecurity: { exemptions: { usernames: ['ci'] } } },
    ];
    const one = await save('one', await computeReport(configuration(strict), namespace('web'), HOST_NETWORK));
    const others = await Promise.all(
      ['two', 'three'].map(async (name) => {
        const web = { ...namespace('web'), metadata: { name: 'web' } };
        const objects = [...useOfScc('build', 'privileged'), exception('agent'), web, HOST_PATH, HOST_NETWORK];
        return await save(name, await computeReport(configuration(loose), ...objects));
      }),
    );
    const unread = { ...(JSON.parse(await readFile(one, 'utf8')) as ReportData), cluster: {}, spec: undefined };
    const four = await save('four', { ...unread, unread: ['PodSecurityException', 'PortcullisConfiguration'] });
    const args = ['report', '--fleet', one, ...others, four, '--reference', 'prod-1'];
    const { stdout, stderr } = await runProgram([...args, '-o', 'json']);
    const { reference, differences = [] } = JSON.parse(stdout) as FleetData;
    assert.equal(reference, 'prod-1');
    assert.equal(
      stderr,
      'warning: The settings of four are not compared, because the report of this cluster does not contain them.\n' +
        'warning: The exceptions of four are not compared, because the report of this cluster does not contain them.\n',
    );
    assert.ok(differences.every(({ clusters }) => clusters.join() === 'two,three'));
    assert.deepEqual(
      differences.map(({ kind, name, reference: expected, value }) => [kind, name, expected, value]),
      [
        ['setting', 'spec.podSecurity.exemptions.usernames', 'not set', '["ci"]'],
        ['setting', 'spec.scc.mode', 'report', 'off'],
        ['level', 'namespace web', 'baseline', 'privileged'],
        ['exemption', 'default off from SCC', 'none', 'spec.scc.mode'],
        ['exemption', 'default report from SCC', 'spec.scc.mode', 'none'],
        ['exemption', 'user ci from Pod Security', 'none', 'spec.podSecurity.exemptions.usernames'],
        ['grant', 'SCC privileged to ServiceAccount shop/build in namespace shop', 'none', 'granted'],
        ['exception', 'shop/agent', 'none', 'Proposed until 2099-01-01T00:00:00Z, spec 0e6c4e26cdf5'],
        ['check', 'hostPathVolumes', 'passed', 'violated'],
      ],
    );
    const table = await runProgram([...args, '-o', 'table']);
    assert.match(
      table.stdout,
      /\n\n9 differences from prod-1\nKIND +NAME +PROD-1 +VALUE +CLUSTERS\n(?:.*\n){8}check +hostPathVolumes +passed +violated +two, three\n$/,
    );
  });

  test('finds the reference cluster by the context of an older report', async () => {
    const report = await computeReport();
    const contexts = ['dev@prod-1', 'admin@prod-1'].map((context, index) => {
      return save(`context-${index}`, {
        ...report,
        cluster: { uid: 'a', context },
        time: `2026-01-0${index + 1}T00:00:00Z`,
      });
    });
    const files = [...(await Promise.all(contexts)), await save('other', report)];
    for (const name of ['dev@prod-1', 'admin@prod-1', 'context-0']) {
      const { stdout } = await runProgram(['report', '--fleet', ...files, `--reference=${name}`, '-o', 'json']);
      const { clusters, reference } = JSON.parse(stdout) as FleetData;
      assert.deepEqual([reference, clusters.length], ['admin@prod-1', 2]);
    }
  });

  test('reports invalid input with the file and the field', async () => {
    const report = await computeReport();
    const valid = await save('valid', report);
    const cases: readonly (readonly [args: readonly string[], error: string])[] = [
      [[], '--fleet requires report files or directories'],
      [['missing.json'], 'the path "missing.json" does not exist'],
      [['test/cli'], 'the directory "test/cli" contains no .json file'],
      [
        [await save('text', 'x')],
        `${join(folder, 'text.json')} is not the output of portcullis report -o json: Unexpected token 'x', "x" is not valid JSON`,
      ],
      [
        [await save('list', [])],
        `${join(folder, 'list.json')} is not the output of portcullis report -o json: must be object`,
      ],
      [
        [await save('old', { ...report, apiVersion: 'report.portcullis.dev/v2' })],
        `${join(folder, 'old.json')} is not the output of portcullis report -o json: apiVersion: must be equal to constant`,
      ],
      [
        [await save('count', { ...report, namespaces: [{ ...report.namespaces[0], workloads: 3 }] })],
        `${join(folder, 'count.json')} is not the output of portcullis report -o json: namespaces.0.workloads: must be array`,
      ],
      [
        [await save('item', { apiVersion: report.apiVersion, kind: 'ReportList', items: [{ ...report, source: 3 }] })],
        `${join(folder, 'item.json')} is not the output of portcullis report -o json: items.0: source: must be string`,
      ],
      [
        [await save('items', { apiVersion: report.apiVersion, kind: 'ReportList', items: [{ error: 'x' }] })],
        `${join(folder, 'items.json')} is not the output of portcullis report -o json: items.0: must have required property 'cluster'`,
      ],
      [
        [await save('deep', JSON.stringify({ ...report, spec: [] }).replace('"spec":[]', `"spec":${DEEP}`))],
        `${join(folder, 'deep.json')} is not the output of portcullis report -o json: spec is nested more than 100 levels deep`,
      ],
      [[valid, '--reference=prod'], 'no report of the reference cluster "prod"; the clusters are valid'],
      [[valid, '--context=prod'], "option '--fleet' cannot be used with option '--context <name>'"],
    ];
    for (const [args, error] of cases) {
      const { code, stdout, stderr } = await runProgram(['report', '--fleet', ...args, '-o', 'json']);
      assert.deepEqual([code, stdout, stderr.split('\n')[0]], [2, '', `error: ${error}`]);
    }
    const csv = await runProgram(['report', '-f', 'examples/cluster', '-o', 'csv']);
    assert.equal(
      csv.stderr,
      'error: -o csv requires --fleet or several contexts; the page of one cluster exports CSV\n',
    );
  });
});
