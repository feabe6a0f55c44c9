/** Tests the patches of a report, and the controls of standards. `test/web` tests the page itself. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { applyPatch, type Operation } from 'rfc6902';
import { parse } from 'yaml';
import { listControls } from '../../../src/policy/pss/index.ts';
import type { ReportData } from '../../../src/web/report-data.ts';
import { runProgram } from '../../support/memory-io.ts';

const NAMESPACE = `
{ apiVersion: v1, kind: Namespace, metadata: { name: shop, labels: { pod-security.kubernetes.io/enforce: restricted } } }
`;
const TEMPLATE = `{ metadata: { labels: { app: web } }, spec: { hostNetwork: true, containers: [
  { name: a, image: i, ports: [{ containerPort: 80, hostPort: 80 }], securityContext: { privileged: true, readOnlyRootFilesystem: true } },
  { name: b, image: i, securityContext: { capabilities: { add: [NET_ADMIN, NET_BIND_SERVICE] } } }] } }`;
const SELECTOR = 'selector: { matchLabels: { app: web } }';
const JOB = TEMPLATE.replace('hostNetwork', 'restartPolicy: Never, hostNetwork');
const workload = (kind: string, spec: string, apiVersion = 'apps/v1') =>
  `{ apiVersion: ${apiVersion}, kind: ${kind}, metadata: { name: web, namespace: shop }, spec: ${spec} }\n`;

const CASES: readonly (readonly [name: string, object: string, target: string | undefined])[] = [
  ['a Deployment', workload('Deployment', `{ ${SELECTOR}, template: ${TEMPLATE} }`), 'deployment.apps/web'],
  [
    'a CronJob',
    workload('CronJob', `{ schedule: '@daily', jobTemplate: { spec: { template: ${JOB} } } }`, 'batch/v1'),
    'cronjob.batch/web',
  ],
  [
    'a custom resource',
    workload('Rollout', `{ template: ${TEMPLATE} }`, 'argoproj.io/v1alpha1'),
    'rollout.argoproj.io/web',
  ],
  ['a Job, whose template is immutable', workload('Job', `{ template: ${JOB} }`, 'batch/v1'), undefined],
  [
    'a pod, which is immutable',
    workload('Pod', TEMPLATE.slice(TEMPLATE.indexOf('{ hostNetwork'), -1), 'v1'),
    undefined,
  ],
  [
    'a violation that has no automatic fix',
    workload(
      'DaemonSet',
      `{ ${SELECTOR}, template: { metadata: { labels: { app: web } }, spec: { securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault } }, containers: [{ name: a, image: i, securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } } }], volumes: [{ name: h, hostPath: { path: / } }] } } }`,
    ),
    undefined,
  ],
];

const report = async (...objects: readonly object[]): Promise<ReportData['namespaces'][number]> => {
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [parse(NAMESPACE), ...objects] });
  const { stdout } = await runProgram(['report', '-f', '-', '-o', 'json'], { stdin });
  const [namespace] = (JSON.parse(stdout) as ReportData).namespaces;
  assert.ok(namespace);
  return namespace;
};

for (const [name, text, target] of CASES) {
  test(`the report ${target === undefined ? 'contains no' : 'contains a'} patch for ${name}`, async () => {
    const object = parse(text) as object;
    const { workloads, denied } = await report(object);
    assert.deepEqual([workloads.length, denied?.restricted.length], [1, 1]);
    const { command, notes } = workloads[0]?.patch ?? {};
    assert.equal(command?.split(' -n ')[0], target && `kubectl patch ${target}`);
    if (command === undefined) return;
    const [, patch = ''] = /^kubectl patch \S+ -n shop --type=json -p '(.*)'$/.exec(command) ?? [];
    assert.deepEqual(new Set(applyPatch(object, JSON.parse(patch) as Operation[])), new Set([null]));
    const fixed = await report(object);
    assert.deepEqual([fixed.workloads, fixed.denied], [[], { baseline: [], restricted: [] }]);
    assert.match(JSON.stringify(object), /"readOnlyRootFilesystem":true/);
    assert.ok(notes?.some((note) => note.includes('image')));
  });
}

test('the patches in the report follow the version to which a level is pinned', async () => {
  const spec = `{ ${SELECTOR}, template: { metadata: { labels: { app: web } }, spec: { securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault }, sysctls: [{ name: net.ipv4.tcp_rmem, value: '4096' }] }, containers: [{ name: a, image: i, securityContext: { allowPrivilegeEscalation: false } }] } } }`;
  const items = [
    parse(NAMESPACE.replace('restricted }', 'restricted, pod-security.kubernetes.io/enforce-version: v1.20 }')),
    parse(workload('Deployment', spec)),
  ] as object[];
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
  const { stdout } = await runProgram(['report', '-f', '-', '-o', 'json'], { stdin });
  const [one] = (JSON.parse(stdout) as ReportData).namespaces[0]?.workloads ?? [];
  // The newest version allows the sysctl, and requires that all capabilities are dropped.
  assert.equal(
    one?.patch?.command,
    `kubectl patch deployment.apps/web -n shop --type=json -p '[{"op":"remove","path":"/spec/template/spec/securityContext/sysctls"}]'`,
  );
});

const CLUSTER = `
{ apiVersion: v1, kind: Namespace, metadata: { name: open } }
---
{ apiVersion: v1, kind: Pod, metadata: { name: tools, namespace: open }, spec: { containers: [{ name: a, image: i }], volumes: [{ name: h, hostPath: { path: / } }] } }
---
{ apiVersion: v1, kind: Namespace, metadata: { name: base, labels: { pod-security.kubernetes.io/enforce: baseline } } }
---${NAMESPACE}---
${CASES[0]?.[1]}`;

test('report --standard prints the level of each control, the namespaces that enforce it, and the workloads that violate it', async () => {
  const run = async (...args: readonly string[]) =>
    await runProgram(['report', '-f', '-', '--standard', ...args], { stdin: CLUSTER });
  const { stdout } = await run('cis');
  const lines = stdout.split('\n').map((line) => line.replace(/ {3,}/g, '|'));
  assert.deepEqual(lines.slice(0, 5), [
    'CIS Kubernetes Benchmark v1.12 and v2.0',
    'CONTROL|STATUS|LEVEL|NAMESPACES|VIOLATING|TITLE',
    '5.2.1|partly|baseline|2 of 3|0|Ensure that the cluster has at least one active policy control mechanism in place',
    '5.2.2|partly|baseline|2 of 3|1|Minimize the admission of privileged containers',
    '5.2.3|partly|baseline|2 of 3|1|Minimize the admission of containers wishing to share the host process ID namespace',
  ]);
  // The restricted level checks hostPath volumes as a volume type.
  assert.ok(lines.includes('5.2.11|partly|baseline|2 of 3|1|Minimize the admission of HostPath volumes'));
  assert.ok(lines.includes('5.2.7|partly|restricted|1 of 3|2|Minimize the admission of root containers'));
  const page = readFileSync('docs/how-to/evidence.md', 'utf8');
  for (const { id, title, checks, level } of listControls('cis')) {
    const links = checks.map((check) => `[\`${check}\`](../reference/checks/${check}.md)`).join(', ') || 'any';
    assert.ok(page.includes(`| ${id} | ${title} | ${links} | \`${level}\` |`), id);
  }
  const json = JSON.parse((await run('nsa', '-o', 'json')).stdout) as {
    readonly controls: readonly { readonly id: string }[];
  };
  assert.deepEqual(
    json.controls.find(({ id }) => id === 'no host ports'),
    {
      id: 'no host ports',
      title: 'no host ports',
      checks: ['hostPorts'],
      level: 'baseline',
      status: 'partly',
      notEnforced: ['open'],
      violating: [{ namespace: 'shop', kind: 'Deployment', name: 'web' }],
    },
  );
  assert.match((await run('nsa', '-o', 'csv')).stdout, /\r\n"no host ports","partly","baseline","2 of 3","1",""\r\n/);
});
