/** The patches of a report. The page itself is tested in `test/web`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyPatch, type Operation } from 'rfc6902';
import { parse } from 'yaml';
import type { ReportData } from '../../../src/web/report-data.ts';
import { runProgram } from '../../support/memory-io.ts';

const NAMESPACE = `
{ apiVersion: v1, kind: Namespace, metadata: { name: shop, labels: { pod-security.kubernetes.io/enforce: restricted } } }
`;
const TEMPLATE = `{ spec: { hostNetwork: true, containers: [
  { name: a, image: i, ports: [{ containerPort: 80, hostPort: 80 }], securityContext: { privileged: true, readOnlyRootFilesystem: true } },
  { name: b, image: i, securityContext: { capabilities: { add: [NET_ADMIN, NET_BIND_SERVICE] } } }] } }`;
const workload = (kind: string, spec: string, apiVersion = 'apps/v1') =>
  `{ apiVersion: ${apiVersion}, kind: ${kind}, metadata: { name: web, namespace: shop }, spec: ${spec} }\n`;

const CASES: readonly (readonly [name: string, object: string, target: string | undefined])[] = [
  ['a Deployment', workload('Deployment', `{ template: ${TEMPLATE} }`), 'deployment.apps/web'],
  [
    'a CronJob',
    workload('CronJob', `{ jobTemplate: { spec: { template: ${TEMPLATE} } } }`, 'batch/v1'),
    'cronjob.batch/web',
  ],
  [
    'a custom resource',
    workload('Rollout', `{ template: ${TEMPLATE} }`, 'argoproj.io/v1alpha1'),
    'rollout.argoproj.io/web',
  ],
  ['a Job, whose template is immutable', workload('Job', `{ template: ${TEMPLATE} }`, 'batch/v1'), undefined],
  ['a pod, which is immutable', workload('Pod', TEMPLATE.slice('{ spec: '.length, -1), 'v1'), undefined],
  [
    'a violation that has no automatic fix',
    workload(
      'DaemonSet',
      `{ template: { spec: { securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault } }, containers: [], volumes: [{ name: h, hostPath: { path: / } }] } } }`,
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
  test(`patch: ${name}`, async () => {
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

test('patches apply the version of a pinned level', async () => {
  const spec = `{ template: { spec: { securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault }, sysctls: [{ name: net.ipv4.tcp_rmem, value: '4096' }] }, containers: [{ name: a, image: i, securityContext: { allowPrivilegeEscalation: false } }] } } }`;
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
