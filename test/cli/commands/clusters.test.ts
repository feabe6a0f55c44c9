/**
 * Tests commands that read several clusters. One cluster can be read, one is stopped, and one grants no permissions.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { CRDS } from '../../../src/install/index.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import type { FleetData } from '../../../src/web/fleet-data.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { createInstaller } from '../../support/installer.ts';
import { type Environment, type Outcome, runProgram } from '../../support/memory-io.ts';

interface Kubeconfig {
  readonly clusters: readonly { readonly name: string; readonly cluster: object }[];
  readonly users: readonly { readonly name: string; readonly user: object }[];
}

/** Merges kubeconfigs of one cluster each. The keys are the names of the contexts. */
async function mergeKubeconfigs(files: Readonly<Record<string, string>>): Promise<string> {
  const entries = await Promise.all(
    Object.entries(files).map(async ([name, file]) => {
      const { clusters, users } = parse(await readFile(file, 'utf8')) as Kubeconfig;
      return { name, cluster: clusters[0]?.cluster, user: users[0]?.user };
    }),
  );
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: entries.map(({ name, cluster }) => ({ name, cluster })),
    users: entries.map(({ name, user }) => ({ name, user })),
    contexts: entries.map(({ name }) => ({ name, context: { cluster: name, user: name } })),
    'current-context': 'prod-1',
  });
}

const OBJECTS: readonly KubeObject[] = [
  ...CRDS,
  {
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec: { clusterName: 'Frankfurt', podSecurity: { exemptions: { usernames: ['ci'] } } },
  } as KubeObject,
  {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'shop', labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } },
  },
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'agent', namespace: 'shop' },
    spec: {
      selector: { matchLabels: { app: 'agent' } },
      template: {
        metadata: { labels: { app: 'agent' } },
        spec: { hostNetwork: true, containers: [{ name: 'agent', image: 'agent' }] },
      },
    },
  } as KubeObject,
];

describe('commands for several contexts', () => {
  let folder = '';
  let kubeconfig = '';
  const started: TestCluster[] = [];
  let hung: Server | undefined;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    kubeconfig = join(folder, 'kubeconfig');
    const [readable, forbidden, stopped] = await Promise.all([startCluster(), startCluster(), startCluster()]);
    started.push(readable, forbidden);
    await createInstaller(readable.admin).create(...OBJECTS);
    const config = await mergeKubeconfigs({
      'prod-1': await readable.kubeconfig(),
      'prod-2': await forbidden.kubeconfig('eve'),
      'prod-3': await stopped.kubeconfig(),
      hung: await stopped.kubeconfig(),
    });
    await stopped.stop();
    // Accepts connections, but never responds.
    const server = createServer().listen(0, '127.0.0.1');
    hung = server;
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    const document = parse(config) as { clusters: { name: string; cluster: { server: string } }[] };
    for (const { name, cluster } of document.clusters) if (name === 'hung') cluster.server = `http://127.0.0.1:${port}`;
    await writeFile(kubeconfig, stringify(document));
  });
  after(async () => {
    hung?.close();
    await Promise.all(started.map(async (cluster) => await cluster.stop()));
    await rm(folder, { recursive: true });
  });

  const run = async (args: string, environment: Environment = {}): Promise<Outcome> =>
    await runProgram([...args.split(' '), `--kubeconfig=${kubeconfig}`], environment);

  const UNKNOWN = ' +\\?';
  const HEADER = 'NAMESPACES +DENIED NOW +WOULD BE DENIED +TO RESTART +NOT EVALUATED +MESSAGE';
  /** Each command, the header of the table without its first column, and the row of the cluster that can be read. */
  const COMMANDS: readonly (readonly [args: string, header: string, row: string])[] = [
    ['rollout status', `STATE +DEFAULT +${HEADER}`, 'Off +privileged +5 +1 +0 +0 +0 +Set spec.rollout.phase '],
    ['rollout plan', HEADER, '5 +1 +0 +0 +0'],
    ['doctor', 'PROBLEMS +WARNINGS +UNKNOWN +BREAK-GLASS +MESSAGE', '1 +0 +0 +off +Portcullis is not installed'],
    [
      'audit exemptions',
      'DEFAULT +NAMESPACE +USER +RUNTIMECLASS +SCC +GRANT +EXCEPTION +MESSAGE',
      '2 +1 +1 +0 +0 +0 +0',
    ],
    ['exception list', 'EXCEPTIONS +USES +MESSAGE', '0 +0'],
    ['report -o table', `STATE +DEFAULT +${HEADER}`, 'Off +privileged +5 +1 +0 +0 +0 +Set spec.rollout.phase '],
  ];
  for (const [args, header, row] of COMMANDS) {
    test(`print one row for each cluster, and exit with the highest exit code of the clusters: ${args}`, async () => {
      const { code, stdout, stderr } = await run(`${args} --context=prod-*`);
      assert.deepEqual([code, stderr], [2, '']);
      const [first, ...rows] = stdout.trimEnd().split('\n');
      assert.match(first ?? '', new RegExp(`^CLUSTER +${header}$`));
      const cells = UNKNOWN.repeat(header.split(/ \+(?=[A-Z])/).length - 1);
      const expected = [
        new RegExp(`^Frankfurt${args.startsWith('report') ? '' : ' \\(prod-1\\)'} +${row}`),
        new RegExp(`^prod-2${cells} +.* is forbidden: User "eve" cannot list resource`),
        new RegExp(
          `^prod-3${cells} +Unable to connect to the server: dial tcp 127\\.0\\.0\\.1:\\d+: connect: connection refused$`,
        ),
      ];
      assert.equal(rows.length, expected.length);
      for (const [index, pattern] of expected.entries()) assert.match(rows[index] ?? '', pattern);
    });
  }

  test('print one JSON item for each cluster, with its identity and its result or error', async () => {
    const { stdout } = await run('rollout plan -o json --context=prod-*');
    const { items } = JSON.parse(stdout) as {
      readonly items: readonly {
        readonly cluster: Readonly<Record<string, string>>;
        readonly error?: string;
        readonly summary?: { readonly namespaces: number };
      }[];
    };
    assert.match(items[0]?.cluster['uid'] ?? '', /^[0-9a-f-]{36}$/);
    assert.deepEqual(
      items.map(({ cluster: { uid: _uid, ...cluster }, summary, error }) => [
        cluster,
        summary?.namespaces,
        error?.replace(/^.*?(?=namespaces is)/, '').replace(/:\d+/, ''),
      ]),
      [
        [{ context: 'prod-1', name: 'Frankfurt' }, 5, undefined],
        [
          { context: 'prod-2' },
          undefined,
          'namespaces is forbidden: User "eve" cannot list resource "namespaces" in API group "" at the cluster scope',
        ],
        [
          { context: 'prod-3' },
          undefined,
          'Unable to connect to the server: dial tcp 127.0.0.1: connect: connection refused',
        ],
      ],
    );
  });

  test('print the output for each cluster below the rows with -o wide', async () => {
    const one = await run('rollout plan -o wide --context=prod-1');
    const many = await run('rollout plan -o wide --context=prod-1 --context=prod-3');
    assert.deepEqual([one.code, many.code], [1, 2]);
    const steps = one.stdout.split('\n').filter((line) => line.includes('Next:'));
    assert.ok(steps.length > 0);
    for (const step of steps) assert.ok(step.endsWith(` --kubeconfig=${kubeconfig} --context=prod-1.`), step);
    assert.ok(many.stdout.endsWith(`\n\nCluster Frankfurt (prod-1)\n\n${one.stdout}`), many.stdout);
  });

  test('report a cluster that does not respond after five seconds', async () => {
    const { code, stdout } = await run('exception list --context=hung --context=prod-3 --no-headers');
    assert.equal(code, 2);
    assert.match(
      stdout,
      /^hung +\? +\? +Unable to connect to the server: no response from \S+ within 5 s\nprod-3 .*\n$/,
    );
  });

  test('limit the time for each cluster to the value of --cluster-timeout', async () => {
    const { code, stdout } = await run('exception list --context=hung --context=prod-3 --cluster-timeout=1s');
    assert.equal(code, 2);
    assert.match(stdout, /\nhung +\? +\? +no result within 1 s \(--cluster-timeout\)\n/);
  });

  test('accept a --cluster-timeout that is longer than the longest timer', async () => {
    const args = 'exception list --context=prod-1*';
    assert.deepEqual(await run(`${args} --cluster-timeout=1000h`), await run(args));
  });

  test('print the same output for one selected context as for the current context', async () => {
    for (const [args] of COMMANDS.slice(0, -1)) {
      const [current, named] = [await run(args), await run(`${args} --context=prod-1`)];
      assert.deepEqual(named, current);
    }
  });

  test('exit with the highest exit code of all clusters', async () => {
    const codes = [];
    for (const args of ['rollout plan --context=prod-1*', 'exception list --context=prod-1*'])
      codes.push((await run(args)).code);
    assert.deepEqual(codes, [1, 0]);
  });

  test('show progress only on a terminal', async () => {
    const { stderr } = await run('exception list --context=prod-*', { terminals: ['stderr'] });
    const [first, ...lines] = stderr.split('\r\u001B[K').slice(1);
    assert.deepEqual(
      [first, lines.at(-2), lines.at(-1)],
      ['Read 0 of 3 clusters, reading prod-1', 'Read 3 of 3 clusters', ''],
    );
  });

  test('print a report for each context as JSON, from which report --fleet creates a fleet report', async () => {
    const saved = await run('report -o json --context=prod-*');
    const file = join(folder, 'prod.json');
    await writeFile(file, saved.stdout);
    const { code, stdout, stderr } = await runProgram(['report', '--fleet', file, '-o', 'json']);
    const { clusters, unread } = JSON.parse(stdout) as FleetData;
    assert.deepEqual(
      [saved.code, code, clusters.map(({ name, context, workloads }) => [name, context, workloads.deniedNow])],
      [2, 0, [['Frankfurt', 'prod-1', 1]]],
    );
    assert.deepEqual(
      unread.map(({ name }) => name),
      ['prod-2', 'prod-3'],
    );
    assert.match(stderr, /^error: cluster prod-2: .*\nerror: cluster prod-3: Unable to connect .*\n$/);
    const page = await run('report --context=prod-*');
    assert.deepEqual([page.code, page.stderr], [2, saved.stderr]);
    assert.match(page.stdout, /<title>Portcullis fleet report<\/title>/);
  });

  test('reject selections that match no context, and options that need one cluster', async () => {
    const choices = 'the contexts are prod-1, prod-2, prod-3, hung';
    const cases: readonly (readonly [args: string, error: string])[] = [
      ['doctor --context=stage-*', `no context matches "stage-*"; ${choices}`],
      ['doctor --context=prod-1 --context=prod', `no context matches "prod"; ${choices}`],
      ['doctor --context=p*1*1', `no context matches "p*1*1"; ${choices}`],
      ['doctor --context=prod', `${kubeconfig}: context "prod" does not exist; ${choices}`],
      ['doctor --all-contexts --context=hung', "option '--all-contexts' cannot be used with option '--context <name>'"],
      [
        'rollout plan --all-contexts -f deploy',
        '--filename reads manifests instead of clusters: remove --context and --all-contexts',
      ],
      ['rollout plan --all-contexts -o name', '-o name does not support several clusters: set -o json'],
      [
        'report --all-contexts --compare=monday.json',
        '--compare compares the reports of one cluster: select one context',
      ],
      ['report --reference=prod-1 -o json', '--reference requires --fleet or several contexts'],
      ['report -o table', '-o table requires --fleet or several contexts'],
      ['report -n shop -o json', '-n applies only to manifests: a report contains the complete cluster'],
      [
        'report --all-contexts --reference=prod-1 -o json',
        '-o json saves the reports without a comparison: join them with --fleet and --reference',
      ],
    ];
    for (const [args, error] of cases) {
      const { code, stdout, stderr } = await run(args);
      assert.deepEqual([code, stdout, stderr.split('\n')[0]], [2, '', `error: ${error}`]);
    }
  });
});
