import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { printStep } from '../../../src/cli/report/next-steps.ts';
import { rolloutStatus } from '../../../src/cli/report/rollout-status.ts';
import {
  type NamespaceCounts,
  type PlannedNamespace,
  type RolloutState,
  type RolloutStatus,
} from '../../../src/policy/rollout/index.ts';
import type { ReportData } from '../../../src/web/report-data.ts';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { type Outcome, runProgram } from '../../support/memory-io.ts';
import { formatSettings } from '../../support/serve-process.ts';

const CLUSTER = 'test/fixtures/rollout/cluster.yaml';
const cluster = await readFile(CLUSTER, 'utf8');

const runWith = (change: (text: string) => string, command: string, ...args: readonly string[]): Promise<Outcome> =>
  runProgram(['rollout', command, '-f', '-', ...args], { stdin: change(cluster) });

test('an invalid configuration in the cluster is rejected', async () => {
  const outcome = await runWith((text) => text.replace('phase: Evaluate', 'phase: evaluate'), 'status');
  assert.deepEqual(outcome, {
    code: 2,
    stdout: '',
    stderr:
      'error: PortcullisConfiguration "cluster" is invalid: spec.rollout.phase: Unsupported value: "evaluate": supported values: "Disabled", "Evaluate", "Enforce"\n',
  });
});

/** Returns the spec of a Deployment. */
function workloadSpec(spec: object): object {
  const labels = { app: 'web' };
  return { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } };
}

describe('for manifests, the expected output is printed by rollout', () => {
  const OUTPUTS: readonly (readonly [args: string, code: number, file: string])[] = [
    ['plan', 1, 'plan.table.txt'],
    ['plan -o wide', 1, 'plan.wide.txt'],
    ['plan -n agents -o json', 0, 'plan-agents.json.txt'],
    ['status', 0, 'status.table.txt'],
    ['status -n apart', 0, 'status-apart.table.txt'],
    ['status -l a=b -o wide', 0, 'status.wide.txt'],
    ['status -o json', 0, 'status.json.txt'],
  ];
  for (const [args, code, file] of OUTPUTS) {
    test(args, async () => {
      const stdout = await readFile(`test/fixtures/rollout/expected/${file}`, 'utf8');
      assert.deepEqual(await runProgram(['rollout', ...args.split(' '), '-f', CLUSTER]), { code, stdout, stderr: '' });
    });
  }
});

/** Returns the cluster in which Portcullis manages a label on the namespace `agents`. */
function withManagedLabel(text: string, level: string): string {
  const labels = { 'pod-security.kubernetes.io/enforce': level };
  const fieldsV1 = { 'f:metadata': { 'f:labels': { 'f:pod-security.kubernetes.io/enforce': {} } } };
  const manager = 'pod-security-admission-label-synchronization-controller';
  const metadata = { name: 'agents', labels, managedFields: [{ manager, operation: 'Apply', fieldsV1 }] };
  return text.replace('metadata: {name: agents}', `metadata: ${JSON.stringify(metadata)}`);
}

describe('rollout plan', () => {
  test('plans a new label instead of the label that the label syncer manages', async () => {
    const { stdout } = await runWith((text) => withManagedLabel(text, 'restricted'), 'plan');
    assert.match(stdout, /\nagents +restricted \(label\) +privileged +denied now +1\n/);
  });

  test('evaluates pod templates of other API groups', async () => {
    const custom = await readFile('test/fixtures/check/custom.yaml', 'utf8');
    const stdin = custom.replace('enforce: baseline', 'warn: baseline');
    const { stdout } = await runProgram(['rollout', 'plan', '-f', '-', '-n', 'shop', '-o', 'json'], { stdin });
    const { namespaces, assumptions } = JSON.parse(stdout) as {
      readonly namespaces: readonly Pick<PlannedNamespace, 'workloads'>[];
      readonly assumptions: readonly string[];
    };
    const hostNamespaces = namespaces.flatMap(({ workloads }) =>
      workloads.map(({ kind, name, violations }) => {
        const fields = violations.find(({ check }) => check === 'hostNamespaces')?.fields ?? [];
        return [kind, name, ...fields].join(' ');
      }),
    );
    assert.deepEqual(hostNamespaces, [
      'AdvancedCronJob report spec.template.broadcastJobTemplate.spec.template.spec.hostPID',
      'Pod p spec.hostIPC',
      'Rollout web spec.template.spec.hostNetwork',
      'Service hello',
    ]);
    const unknown = 'no pods for containers outside pod templates: Runner shop/hello-* (spec.templates[0].container)';
    assert.ok(assumptions.includes(unknown));
  });

  describe('lists a workload that an exception allows', () => {
    const EXCEPTION = 'allowed by the PodSecurityException gateway-net-admin until 2099-01-15T00:00:00Z';
    const FINDING = 'container "proxy" must not include "NET_ADMIN" in securityContext.capabilities.add';
    const CASES: readonly (readonly [at: string, code: number, summary: string, block: string])[] = [
      [
        '2099-01-14',
        0,
        'no violations                      1 workload allowed by exceptions',
        `  Deployment gateway: ${EXCEPTION}\n    capabilities_restricted: ${FINDING}\n`,
      ],
      [
        '2099-01-15',
        1,
        'denied now   1',
        '  Deployment gateway: denied now, violates PodSecurity "restricted:latest"\n    capabilities_restricted: ',
      ],
    ];
    for (const [at, code, summary, block] of CASES) {
      test(`at ${at}`, async () => {
        const args = ['rollout', 'plan', '-f', 'test/fixtures/rollout/exception.yaml', '-o', 'wide', '--at', at];
        const { stdout, ...result } = await runProgram(args);
        assert.deepEqual(result, { code, stderr: '' });
        assert.match(stdout, /; approvals of the exceptions in the manifests; /);
        assert.ok(stdout.includes(`\nshop        restricted (default)   restricted   ${summary}\n`), stdout);
        assert.ok(stdout.includes(`\nshop (restricted)\n${block}`), stdout);
      });
    }
    test('and contains the exception in the JSON report', async () => {
      const { stdout } = await runProgram(['report', '-f', 'test/fixtures/rollout/exception.yaml', '-o', 'json']);
      const { namespaces, exceptions, summary } = JSON.parse(stdout) as ReportData;
      assert.deepEqual(summary.workloads.deniedNow, { workloads: 0, pods: 0 });
      const [excepted] = namespaces.flatMap((one) => one.excepted);
      assert.deepEqual(excepted?.exceptions, [{ name: 'gateway-net-admin', expiresAt: '2099-01-15T00:00:00Z' }]);
      assert.deepEqual(excepted?.violations[0]?.detail, FINDING);
      assert.deepEqual(exceptions, [
        {
          ...{ namespace: 'shop', name: 'gateway-net-admin', serviceAccount: 'gateway', state: 'Proposed' },
          problem: 'it is not approved: portcullis exception approve gateway-net-admin -n shop',
          ...{ expiresAt: '2099-01-15T00:00:00Z', authors: [], uses: 0, reason: 'SEC-123' },
          specHash: '1b00bc3dc31bedc5fd78757300bdfa575b7f082ce4019827ba1e9ce44e57e9ed',
        },
      ]);
    });
  });

  describe('keeps the label of a namespace, or plans a stricter label, with', () => {
    const stdin = `
apiVersion: v1
kind: Namespace
metadata:
  name: store
  labels: {pod-security.kubernetes.io/enforce: privileged, pod-security.kubernetes.io/enforce-version: v1.18}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: store}
spec: {containers: [{name: web, image: i, securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: store}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: api, image: i, securityContext: {runAsNonRoot: true}}]}}
`;
    const CASES: readonly (readonly [args: string, code: number, stdout: string])[] = [
      [
        '-n store',
        0,
        `NAMESPACE   CURRENT              PLANNED      VERDICT         DENIED   RESTART   REASON
store       privileged (label)   privileged   no violations

1 namespace: 1 no violations; no workload would be denied
`,
      ],
      [
        '--level restricted -n store',
        1,
        `NAMESPACE   CURRENT              PLANNED            VERDICT     DENIED   RESTART   REASON
store       privileged (label)   restricted:v1.18   violating   1

store (restricted:v1.18)
  Deployment api: would be denied, violates PodSecurity "restricted:v1.18"
    allowPrivilegeEscalation: allowPrivilegeEscalation != false (container "api" must set securityContext.allowPrivilegeEscalation=false)
      spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation
      Fix: Set securityContext.allowPrivilegeEscalation to false in each container.
  Next: Change the workloads, then set the label: kubectl label namespace/store pod-security.kubernetes.io/enforce=restricted --overwrite.

1 namespace: 1 violating; 1 workload (0 running pods) would be denied
`,
      ],
      [
        '--level baseline -n store',
        0,
        `NAMESPACE   CURRENT              PLANNED          VERDICT         DENIED   RESTART   REASON
store       privileged (label)   baseline:v1.18   no violations

store (baseline:v1.18)
  Next: Set the label: kubectl label namespace/store pod-security.kubernetes.io/enforce=baseline --overwrite.

1 namespace: 1 no violations; no workload would be denied
`,
      ],
    ];
    for (const [args, code, expected] of CASES) {
      test(args, async () => {
        const outcome = await runProgram(['rollout', 'plan', '-f', '-', ...args.split(' ')], { stdin });
        const stdout = outcome.stdout.slice(outcome.stdout.indexOf('NAMESPACE'));
        assert.deepEqual({ ...outcome, stdout }, { code, stdout: expected, stderr: '' });
      });
    }
  });

  describe('compares the planned levels with the levels in force:', () => {
    const label = (level: string) => ({ 'pod-security.kubernetes.io/enforce': level });
    const deployment = (namespace: string, spec: object): object => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace },
      spec: workloadSpec({ containers: [{ name: 'c', image: 'i' }], ...spec }),
    });
    const namespace = (name: string, labels: object): object => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels },
    });
    const ofPod = (name: string, owner?: object): object => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'older', ...(owner && { ownerReferences: [owner] }) },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    });
    const replicaSet = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-1', uid: 'u', controller: true };
    const run = (items: readonly object[], ...args: readonly string[]): Promise<Outcome> =>
      runProgram(['rollout', 'plan', '-f', '-', ...args], {
        stdin: JSON.stringify({ apiVersion: 'v1', kind: 'List', items }),
      });
    const own = [
      namespace('a', label('baseline')),
      deployment('a', { hostNetwork: true }),
      namespace('b', label('baseline')),
      deployment('b', {}),
      namespace('c', label('restricted')),
    ];

    test('reports workloads that the label of their namespace already denies', async () => {
      const { code, stdout } = await run(own, '-o', 'wide');
      assert.equal(
        stdout.slice(stdout.indexOf('NAMESPACE')),
        `NAMESPACE   CURRENT              PLANNED      VERDICT         DENIED   RESTART   REASON
a           baseline (label)     baseline     denied now      1
b           baseline (label)     baseline     no violations
c           restricted (label)   restricted   no violations

a (baseline)
  Deployment web: denied now, violates PodSecurity "baseline:latest"
    hostNamespaces: host namespaces (hostNetwork=true)
      spec.template.spec.hostNetwork
      Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.
  Next: Change the workloads, or set a weaker level: kubectl label namespace/a pod-security.kubernetes.io/enforce=privileged --overwrite.

3 namespaces: 1 denied now, 2 no violations; 1 workload (0 running pods) denied now
`,
      );
      assert.equal(code, 1);
    });

    test('counts 134 of the 323 denied workloads in namespaces with a label', async () => {
      const items = Array.from({ length: 323 }, (_, index) => [
        namespace(`n${index}`, index < 134 ? label('restricted') : {}),
        deployment(`n${index}`, { hostNetwork: true }),
      ]).flat();
      const { code, stdout } = await run(items, '-o', 'json');
      const { summary } = JSON.parse(stdout) as { readonly summary: NamespaceCounts };
      const { deniedNow, wouldBeDenied } = summary.workloads;
      assert.deepEqual([code, deniedNow.workloads, wouldBeDenied.workloads], [1, 134, 189]);
    });

    test('--level plans new labels for all namespaces with a weaker label', async () => {
      const { code, stdout } = await run(own, '--level=restricted', '-o', 'json');
      const { namespaces } = JSON.parse(stdout) as { readonly namespaces: readonly PlannedNamespace[] };
      const printed = namespaces.map(({ name, planned, verdict, workloads, steps }) =>
        [
          name,
          planned,
          verdict,
          ...workloads.map((one) => one.verdict),
          ...steps.map((step) => printStep(step, [])),
        ].join(' '),
      );
      const set = (name: string) => `kubectl label namespace/${name} pod-security.kubernetes.io/enforce=restricted`;
      assert.deepEqual(printed, [
        `a restricted deniedNow deniedNow Change the workloads, then set the label: ${set('a')} --overwrite.`,
        `b restricted violating wouldBeDenied Change the workloads, then set the label: ${set('b')} --overwrite.`,
        'c restricted clean',
      ]);
      assert.equal(code, 1);
    });

    test('plans a weaker level only for a namespace in the arguments', async () => {
      const weaker = [namespace('c', label('restricted')), deployment('c', {})];
      const planned = async (...args: readonly string[]): Promise<unknown> => {
        const { stdout } = await run(weaker, '--level=baseline', '-o', 'json', ...args);
        const { namespaces } = JSON.parse(stdout) as { readonly namespaces: readonly PlannedNamespace[] };
        return namespaces.map((one) => [one.planned, one.steps.length]);
      };
      assert.deepEqual([await planned(), await planned('-n', 'c')], [[['restricted', 1]], [['baseline', 1]]]);
    });

    test('reports that pods older than SCC enforcement need a restart', async () => {
      const items = [
        namespace('older', {}),
        deployment('older', {}),
        ofPod('web-1-a', replicaSet),
        ofPod('web-1-b', replicaSet),
        ofPod('lone', { ...replicaSet, name: 'lone' }),
        ofPod('tool'),
      ];
      const { code, stdout } = await run(items, '--scc-mode=enforce', '-o', 'wide');
      assert.equal(
        stdout.slice(stdout.indexOf('NAMESPACE')),
        `NAMESPACE   CURRENT                PLANNED      VERDICT      DENIED   RESTART   REASON
older       privileged (default)   restricted   to restart            3

older (restricted)
  Deployment web (2 running pods): to restart, new pods comply
  Pod tool: to restart, new pods comply
  ReplicaSet lone (1 running pod): to restart, new pods comply
  Next: Restart the workloads, unless their rolling update is in progress: kubectl rollout restart -n older deployment/web.
  Next: Delete the running pods so their controllers recreate them: replicaset/lone.
  Next: Delete the pods and recreate them from their manifests: pod/tool.

1 namespace: 1 to restart; no workload would be denied, 3 workloads (4 running pods) to restart
`,
      );
      assert.equal(code, 0);
    });
  });

  test('escapes control characters in names', async () => {
    const { stdout } = await runWith(
      (text) => `${text}---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: "to\\e[2Jol", namespace: apart}
spec: {template: {spec: {hostNetwork: true, containers: [{name: c, image: i}]}}}
`,
      'plan',
      '-o',
      'wide',
    );
    assert.match(stdout, /\n {2}Rollout to\\u001b\[2Jol: would be denied, /);
    assert.ok(!stdout.includes('\u001b'));
  });
});

describe('rollout plan --kubernetes-version', () => {
  const workload = (name: string, namespace: string, spec: object): object => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace },
    spec: workloadSpec({ containers: [{ name: 'c', image: 'i', livenessProbe: PROBE }], ...spec }),
  });
  const PROBE = { tcpSocket: { host: '10.0.0.1', port: 80 } };
  const namespace = (name: string, labels: Readonly<Record<string, string>>): object => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: Object.fromEntries(
        Object.entries(labels).map(([mode, value]) => [`pod-security.kubernetes.io/${mode}`, value]),
      ),
    },
  });
  const manifests = [
    namespace('shop', { enforce: 'baseline' }),
    workload('web', 'shop', {}),
    workload('agent', 'shop', { hostNetwork: true }),
    namespace('pinned', { enforce: 'baseline', 'enforce-version': 'v1.30' }),
    workload('web', 'pinned', {}),
    namespace('open', { enforce: 'privileged' }),
    workload('web', 'open', {}),
  ];
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: manifests });
  const plan = (...args: readonly string[]): Promise<Outcome> =>
    runProgram(['rollout', 'plan', '-f', '-', ...args], { stdin });

  test('lists the workloads that the level would newly deny at this version', async () => {
    const { code, stdout } = await plan('--kubernetes-version=v1.34', '-o', 'wide');
    const [assumed = '', ...rest] = stdout.split('\n\n');
    assert.match(assumed, /; Kubernetes v1\.33 as the current version\.$/);
    assert.equal(
      rest.join('\n\n'),
      `NAMESPACE   CURRENT                  PLANNED          VERDICT         DENIED   RESTART   REASON
open        privileged (label)       privileged       no violations
pinned      baseline:v1.30 (label)   baseline:v1.30   no violations
shop        baseline (label)         baseline         violating       1

shop (baseline)
  Deployment web: would be denied, violates PodSecurity "baseline:latest"
    hostProbesAndHostLifecycle: probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")
      spec.template.spec.containers[0].livenessProbe.tcpSocket.host
      Fix: Remove host from httpGet and tcpSocket in probes and lifecycle hooks. By default, requests go to the pod itself.
  Next: Change the workloads before the upgrade, or keep the current version: kubectl label namespace/shop pod-security.kubernetes.io/enforce-version=v1.33 --overwrite.

3 namespaces: 1 violating, 2 no violations; 1 workload (0 running pods) would be denied by Kubernetes v1.34 but not by v1.33
`,
    );
    assert.equal(code, 1);
  });

  test('evaluates an unknown future version with the checks of the newest known version', async () => {
    const { code, stdout } = await plan('--kubernetes-version', 'v1.50', '-n', 'shop');
    assert.match(stdout, /; Kubernetes v1\.36 as the current version\.\n/);
    assert.match(
      stdout,
      /; no workload would be denied by Kubernetes v1\.50 \(evaluated as v1\.37, the newest known version\) but not by v1\.36\n$/,
    );
    assert.equal(code, 0);
  });

  test('applies to the level in --level', async () => {
    const { code, stdout } = await plan('--kubernetes-version=v1.34', '--level=baseline');
    assert.match(stdout, /\nopen +privileged \(label\) +baseline +violating +1\n/);
    assert.match(stdout, /; 2 workloads \(0 running pods\) would be denied by Kubernetes v1\.34 but not by v1\.33\n$/);
    assert.equal(code, 1);
  });

  test('compares the results with those of the version in the settings', async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'portcullis-plan-'));
    context.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'configuration.yaml');
    await writeFile(file, formatSettings({ podSecurity: { emulationVersion: 'v1.34' } }));
    const { stdout } = await plan('--kubernetes-version=v1.35', '--config', file);
    assert.match(stdout, /no workload would be denied by Kubernetes v1\.35 but not by v1\.34\n$/);
    assert.doesNotMatch(stdout, /current version/);
  });
});

describe('rollout status', () => {
  test('lists its assumptions if Portcullis is not installed', async () => {
    const { stdout } = await runProgram(['rollout', 'status', '-f', '-'], {
      stdin: 'apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n',
    });
    assert.match(
      stdout,
      /^Assumed: spec\.rollout\.phase Evaluate \(set --config\)\.\n\nState {4}Evaluating: no workload would be denied\nNext {5}Set spec\.rollout\.phase of the PortcullisConfiguration to Enforce\.\nDefault {2}privileged for namespaces without a label\n\n/,
    );
  });

  test('is Blocked while the leader reports break-glass in the status of the settings', async () => {
    const lastTransitionTime = '2026-11-20T16:00:00Z';
    const ready = { type: 'Ready', status: 'False', reason: 'BreakGlass', message: 'm', lastTransitionTime };
    const settings = {
      apiVersion: 'config.portcullis.dev/v1alpha1',
      kind: 'PortcullisConfiguration',
      metadata: { name: 'cluster' },
      spec: { rollout: { phase: 'Enforce' } },
      status: { conditions: [ready] },
    };
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } };
    const stdin = [settings, namespace].map((object) => JSON.stringify(object)).join('\n---\n');
    const { stdout, stderr } = await runProgram(['rollout', 'status', '-f', '-'], { stdin });
    assert.equal(stderr, '');
    assert.match(
      stdout,
      /\nState {4}Blocked: break-glass is on, so nothing is enforced\nNext {5}End it: portcullis break-glass off\.\n/,
    );
  });

  /** Returns the status from an earlier phase in which the cluster enforced the level. */
  const afterEnforcement = (text: string): string =>
    text
      .replace(
        'spec: {enforcementMode: Legacy}\nstatus:',
        "spec: {enforcementMode: ''}\nstatus:\n  enforcementMode: Restricted",
      )
      .replace('pod-security-default: privileged', 'pod-security-default: restricted')
      .replace(
        "{type: Enforcing, status: 'False', reason: PhaseNotEnforcing,",
        "{type: LegacyProposed, status: 'True', reason: WrittenByController, lastTransitionTime: '2026-11-20T16:00:00Z'}\n    - {type: Enforcing, status: 'True', reason: Restricted,",
      );

  test('marks data from an earlier phase as outdated', async () => {
    const OUTDATED =
      'enforcementMode Restricted; LegacyProposed True, WrittenByController, since 2026-11-20T16:00:00Z; Enforcing True, Restricted, since 2026-11-21T16:00:00Z';
    const wide = ['-l', 'a=b', '-o', 'wide'];
    const disabled = await runWith(
      (text) => afterEnforcement(text).replace('phase: Evaluate', 'phase: Disabled'),
      'status',
      ...wide,
    );
    assert.equal(
      disabled.stdout.split('\n\n')[2],
      `State      Off: the planned levels are only a preview
Next       Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.
Default    privileged for namespaces without a label
Phase      Disabled
Published  no default level
Labels     not managed in the Disabled phase
Outdated   status of psaenforcementconfig cluster, since it is not updated in the Disabled phase: ${OUTDATED}`,
    );
    const evaluated = await runWith(afterEnforcement, 'status', ...wide);
    assert.equal(
      evaluated.stdout.split('\n\n')[2],
      `State        Evaluating, enforcement announced for 2027-01-31: 3 workloads in 3 namespaces would be denied
Next         Follow the next steps for each namespace: portcullis rollout plan -o wide.
Default      privileged for namespaces without a label
Evaluated    2026-11-21T17:00:00Z
Phase        Evaluate
Requested    nothing
Decided      nothing
Published    restricted, generation 1
Labels       warn and audit managed, enforce not managed yet
Enforcing    False, PhaseNotEnforcing: nothing is enforced in the Evaluate phase
Progressing  True, RevertingConfiguration: replicas are switching to the privileged default level
Outdated     status of psaenforcementconfig cluster, since the leader has not updated it yet: ${OUTDATED}; Progressing False, AsExpected, since 2026-11-21T16:00:00Z`,
    );
  });

  test('abbreviates a long list of violating namespaces', async () => {
    const names = Array.from({ length: 300 }, (_, index) => `n${index}`);
    const stdin = names
      .flatMap((name, index) =>
        Array.from({ length: index === 299 ? 9 : 1 }, (_, number) =>
          JSON.stringify({
            apiVersion: 'v1',
            kind: 'Pod',
            metadata: { name: `p${number}`, namespace: name },
            spec: { hostPID: true, containers: [{ name: 'c', image: 'i' }] },
          }),
        ),
      )
      .join('\n---\n');
    for (const command of ['plan', 'status']) {
      const { stdout } = await runProgram(['rollout', command, '-f', '-'], { stdin });
      const lines = stdout.split('\n');
      assert.ok(lines.length < 50, stdout);
      assert.ok(lines.includes('... 280 more namespaces, 280 of them with denied workloads or inconclusive'), stdout);
      assert.match(lines[lines.findIndex((line) => line.startsWith('NAMESPACE')) + 1] ?? '', /^n299 .* 9$/);
    }
    const selected = await runProgram(['rollout', 'status', '-f', '-', '-n', 'n7'], { stdin });
    assert.match(selected.stdout, /\nn7 \(restricted\)\n {2}Pod p0: would be denied, /);
    assert.match(selected.stdout, /\n300 namespaces: 300 violating; 308 workloads /);
  });

  test('reports that the default level is enforced', async () => {
    const enforced = (text: string): string =>
      text
        .replace('phase: Evaluate,', 'phase: Enforce,')
        .replace(
          'spec: {enforcementMode: Legacy}\nstatus:',
          "spec: {enforcementMode: ''}\nstatus:\n  enforcementMode: Restricted",
        )
        .replace('pod-security-default: privileged', 'pod-security-default: restricted')
        .replaceAll('hostNetwork: true', 'hostNetwork: false')
        .replace('privileged: true, runAsUser: 0', 'privileged: false')
        .replace('validated-scc-subject-type: user', 'validated-scc-subject-type: serviceaccount');
    const { stdout } = await runWith(enforced, 'status', '-o', 'wide');
    assert.match(
      stdout,
      /\nFeature {6}OpenShiftPodSecurityAdmission on\nRequested {4}nothing\nDecided {6}Restricted\nPublished {4}restricted, generation 1\n/,
    );
    assert.match(stdout, /\nState {8}Enforcing\n/);
  });
});

describe('the rollout commands on a cluster', () => {
  let live: TestCluster;
  let kubeconfig: string;
  let missing: Outcome;
  before(async () => {
    live = await startCluster();
    kubeconfig = await live.kubeconfig();
    missing = await runProgram(['rollout', 'status', '--kubeconfig', kubeconfig]);
    await installStandardSccs(live.cluster);
    const post = async (path: string, object: object): Promise<void> => {
      const { status, text } = await live.admin.send('POST', path, object);
      assert.equal(status, 201, text);
    };
    const namespaces = '/api/v1/namespaces';
    await post(namespaces, { metadata: { name: 'portcullis' } });
    await post(namespaces, { metadata: { name: 'shop', annotations: RANGES } });
    await post('/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations', {
      apiVersion: 'config.portcullis.dev/v1alpha1',
      kind: 'PortcullisConfiguration',
      metadata: { name: 'cluster' },
      spec: { rollout: { phase: 'Enforce' }, scc: { mode: 'enforce' } },
    });
    const deployment = (name: string, spec: object) => {
      const labels = { app: name };
      const template = { metadata: { labels }, spec };
      return { metadata: { name }, spec: { selector: { matchLabels: labels }, template } };
    };
    const inApps = (namespace: string): string => `/apis/apps/v1/namespaces/${namespace}/deployments`;
    await post(inApps('shop'), deployment('web', { hostNetwork: true, containers: [{ name: 'web', image: 'web' }] }));
    await post('/apis/config.openshift.io/v1alpha1/psaenforcementconfigs', {
      apiVersion: 'config.openshift.io/v1alpha1',
      kind: 'PSAEnforcementConfig',
      metadata: { name: 'cluster' },
      spec: { enforcementMode: 'Restricted' },
    });
  });
  after(() => live.stop());

  test('report that Portcullis is not installed', () => {
    assert.deepEqual(missing, {
      code: 1,
      stdout: `Portcullis is not installed in this cluster: there is no PortcullisConfiguration "cluster", and no Deployment or Lease of a replica.

Next: Evaluate the cluster, and then install Portcullis (see portcullis install --help): portcullis rollout plan --kubeconfig=${kubeconfig}.
`,
      stderr: '',
    });
  });

  test('read the settings of the installation, and change no object', async () => {
    const list = async (): Promise<string> => (await live.admin.send('GET', '/api/v1/namespaces')).text;
    const earlier = await list();
    const { stdout, stderr } = await runProgram(['rollout', 'status', '--kubeconfig', kubeconfig, '-o', 'json']);
    assert.equal(stderr, '');
    const { phase, requested, requestedBy, generation, namespaces } = JSON.parse(stdout) as Record<string, unknown>;
    const shop = (namespaces as { name: string; verdict: string }[]).find(({ name }) => name === 'shop');
    assert.deepEqual(
      { phase, requested, requestedBy, generation, verdict: shop?.verdict },
      { phase: 'Enforce', requested: 'Restricted', requestedBy: 'others', generation: 0, verdict: 'violating' },
    );
    const planned = await runProgram(['rollout', 'plan', '--kubeconfig', kubeconfig]);
    assert.equal(planned.code, 1);
    assert.match(planned.stdout, /\nshop +privileged \(default\) +restricted +violating +1\n/);
    assert.equal(await list(), earlier);
    assert.deepEqual(live.errors, []);
  });
});

const STATE: RolloutState = {
  phase: 'Enforce',
  gate: true,
  requested: '',
  decided: '',
  enforce: 'privileged',
  published: 'privileged',
  generation: 1,
  syncer: 'Advise',
  want: false,
  sccMode: 'enforce',
  default: 'privileged',
  evaluation: 'clean',
  raiseSettleMs: 30_000,
  conditions: [],
  outdatedMode: '',
  outdatedConditions: [],
  unlabeled: [],
};
const NONE = { workloads: 0, pods: 0 };
const COUNTS = {
  ...{ namespaces: 3, clean: 3, restart: 0, deniedNow: 0, violating: 0, inconclusive: 0, exempt: 0 },
  workloads: { deniedNow: NONE, wouldBeDenied: NONE, restart: NONE },
};
const VIOLATING = { violating: 1, workloads: { ...COUNTS.workloads, wouldBeDenied: { workloads: 2, pods: 5 } } };
const DENIED_NOW = { deniedNow: 1, workloads: { ...COUNTS.workloads, deniedNow: { workloads: 134, pods: 150 } } };
const RESTART = { restart: 1, workloads: { ...COUNTS.workloads, restart: { workloads: 200, pods: 400 } } };
const DECIDED = { decided: 'Restricted' } as const;
const ENFORCING = { type: 'Enforcing', status: 'True', reason: 'Restricted', message: '' } as const;
const RAISED = { ...DECIDED, published: 'restricted' } as const;
const ENFORCED = { ...RAISED, conditions: [ENFORCING] } as const;

const FEATURE_OFF = 'the OpenShiftPodSecurityAdmission feature is off';
const ENABLE = 'Enable the OpenShiftPodSecurityAdmission feature.';
const LEGACY = 'enforcement is paused, because spec.enforcementMode requests Legacy';
const DENIED = '2 workloads in 1 namespace would be denied';
const UNEVALUATED = 'there is no complete evaluation of all namespaces yet';
const LISTED = 'Follow the next steps for each namespace: portcullis rollout plan -o wide.';
const FIX_NOW = 'Fix 134 workloads that are denied now: portcullis rollout plan -o wide.';
const RESTARTED = 'Restart 200 workloads whose new pods comply: portcullis rollout plan -o wide.';
const CLEAR = `Resume it: kubectl patch psaenforcementconfig cluster --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const TO_ENFORCE = 'Set spec.rollout.phase of the PortcullisConfiguration to Enforce.';
const TO_EVALUATE = 'Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.';
const EVALUATE =
  'Evaluate all namespaces: kubectl annotate psaenforcementconfig cluster --overwrite portcullis.dev/evaluate=$(date -u +%Y-%m-%dT%H:%M:%SZ).';
const RESOLVE = 'Resolve the errors of the namespaces that cannot be evaluated.';
const WAIT = 'Wait. The default becomes restricted after all labels have existed for 30s';
const DECIDE = 'Wait until the leader evaluates all namespaces again and decides.';
const AWAIT = 'Wait until the namespaces are labeled. Errors are reported as events in the namespaces.';
const NO_LEADER = 'there is no leader, so nothing is evaluated or decided';
const STALE = 'the last complete evaluation of all namespaces is too old';
const BREAK_GLASS = 'break-glass is on, so nothing is enforced';
const RAISING = 'the default level is raised after a waiting period';

describe('rollout status prints the state of the rollout, its reasons, and the next action for', () => {
  const CASES: readonly (readonly [
    state: Partial<RolloutState>,
    counts: Partial<NamespaceCounts>,
    name: RolloutStatus['state'],
    reasons: readonly string[],
    next?: string,
  ])[] = [
    [{ phase: 'Disabled' }, {}, 'Off', ['the planned levels are only a preview'], TO_EVALUATE],
    [
      { requested: 'Privileged' },
      VIOLATING,
      'Blocked',
      ['spec.enforcementMode is "Privileged", which is invalid'],
      'Set it to one of "", "Restricted", "Legacy".',
    ],
    [{ ...ENFORCED, replicas: { running: 0 } }, {}, 'Blocked', [NO_LEADER], 'Find the cause: portcullis doctor.'],

    [{ phase: 'Evaluate' }, {}, 'Evaluating', ['no workload would be denied'], TO_ENFORCE],
    [{ phase: 'Evaluate' }, VIOLATING, 'Evaluating', [DENIED], LISTED],
    [{ phase: 'Evaluate' }, RESTART, 'Evaluating', ['no workload would be denied'], TO_ENFORCE],
    [{ phase: 'Evaluate' }, DENIED_NOW, 'Evaluating', ['no workload would be denied'], TO_ENFORCE],
    [{ phase: 'Evaluate', requested: 'Legacy' }, {}, 'Evaluating', [LEGACY], CLEAR],
    [
      { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'rollout', gate: false },
      VIOLATING,
      'Evaluating',
      [DENIED],
      LISTED,
    ],
    [
      { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'others' },
      VIOLATING,
      'Evaluating',
      [DENIED, LEGACY],
      LISTED,
    ],
    [
      { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'rollout' },
      {},
      'Evaluating',
      ['enforcement is paused, because an evaluation found violations'],
      CLEAR,
    ],

    [{}, VIOLATING, 'Blocked', [DENIED], LISTED],
    [{}, { inconclusive: 2 }, 'Blocked', ['2 namespaces cannot be evaluated'], RESOLVE],
    [{}, { ...VIOLATING, inconclusive: 2 }, 'Blocked', [DENIED, '2 namespaces cannot be evaluated'], LISTED],
    [{ ...ENFORCED, requested: 'Legacy' }, {}, 'Blocked', [LEGACY], CLEAR],
    [
      { requested: 'Legacy', requestedBy: 'others', decided: 'Legacy', gate: false },
      {},
      'Blocked',
      [LEGACY, FEATURE_OFF],
      CLEAR,
    ],
    [{ gate: false }, {}, 'Blocked', [FEATURE_OFF], ENABLE],
    [{ ...DECIDED, gate: false }, {}, 'Blocked', [FEATURE_OFF], ENABLE],
    [{ ...DECIDED, gate: false }, DENIED_NOW, 'Blocked', [FEATURE_OFF], ENABLE],

    [{ evaluation: 'never' }, {}, 'Evaluating', [UNEVALUATED], EVALUATE],
    [{ evaluation: 'stale' }, {}, 'Evaluating', [STALE], EVALUATE],
    [{ evaluation: 'stale' }, RESTART, 'Evaluating', [STALE], EVALUATE],
    [{}, {}, 'Evaluating', ['the leader has not decided yet'], DECIDE],
    [{ requested: 'Restricted', evaluation: 'never' }, {}, 'Evaluating', ['the leader has not decided yet'], DECIDE],
    [
      { decided: 'Legacy', evaluation: 'violations' },
      {},
      'Evaluating',
      ["the leader's last evaluation found violations"],
      EVALUATE,
    ],
    [{ ...DECIDED, unlabeled: ['b', 'a'] }, {}, 'Evaluating', ['2 namespaces without a label: a, b'], AWAIT],
    [DECIDED, {}, 'Evaluating', [RAISING], `${WAIT}.`],
    [
      { ...DECIDED, nextRaiseTime: '2026-11-22T12:05:00Z' },
      {},
      'Evaluating',
      [RAISING],
      `${WAIT}, and not before 2026-11-22T12:05:00Z.`,
    ],
    [
      RAISED,
      {},
      'Evaluating',
      ['not every replica enforces the restricted default yet'],
      'Wait until all replicas enforce it.',
    ],

    [ENFORCED, {}, 'Enforcing', []],
    [{ ...ENFORCED, isBreakGlassOn: true }, {}, 'Blocked', [BREAK_GLASS], 'End it: portcullis break-glass off.'],
    [{ ...ENFORCED, requested: 'Restricted' }, VIOLATING, 'Enforcing', [], LISTED],
    [ENFORCED, DENIED_NOW, 'Enforcing', [], FIX_NOW],
    [ENFORCED, RESTART, 'Enforcing', [], RESTARTED],
  ];
  for (const [state, counts, name, reasons, next] of CASES) {
    test(JSON.stringify({ ...state, ...counts }), () => {
      const status = rolloutStatus({ ...STATE, ...state }, { ...COUNTS, ...counts });
      assert.deepEqual({ next: undefined, ...status }, { state: name, reasons, next });
    });
  }
});

test('rollout plan evaluates pod templates of custom resources, but they do not block enforcement, because the leader may not be permitted to read them', async () => {
  const template = { spec: { containers: [{ name: 'c', image: 'i' }] } };
  const rollout = {
    apiVersion: 'argoproj.io/v1alpha1',
    kind: 'Rollout',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { template },
  };
  const controller = { apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout', name: 'web', uid: 'u', controller: true };
  const metadata = { name: 'web-x', namespace: 'shop', ownerReferences: [controller] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec: template.spec };
  const run = async (objects: readonly object[]) => {
    const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
    const [plan, status, report] = await Promise.all(
      ['rollout plan', 'rollout status', 'report'].map(async (command) => {
        const { stdout } = await runProgram([...command.split(' '), '-f', '-', '-o', 'json'], { stdin });
        return JSON.parse(stdout) as Record<string, unknown>;
      }),
    );
    const { assumptions, summary } = plan as { assumptions: readonly string[]; summary: { violating: number } };
    assert.ok(
      assumptions.includes(
        'custom resources that replicas may not read, so the leader evaluates only their existing pods: Rollout shop/web',
      ),
    );
    assert.equal(summary.violating, 1);
    assert.deepEqual((report?.['rollout'] as Record<string, unknown>)['reasons'], status?.['reasons']);
    return status?.['reasons'];
  };
  assert.deepEqual(await run([rollout]), ['no workload would be denied']);
  assert.deepEqual(await run([rollout, pod]), ['1 workload in 1 namespace would be denied']);
});

test('rollout plan lists the static pods of a node separately', async () => {
  const node = { apiVersion: 'v1', kind: 'Node', name: 'worker-1', uid: 'n', controller: true };
  const staticPod = (name: string, spec: object) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${name}-worker-1`,
      namespace: 'edge',
      annotations: { 'kubernetes.io/config.mirror': name },
      ownerReferences: [node],
    },
    spec: { nodeName: 'worker-1', ...spec, containers: [{ name: 'c', image: 'i' }] },
  });
  const namespace = {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'edge', labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } },
  };
  const objects = [namespace, staticPod('agent', { hostNetwork: true }), staticPod('proxy', { hostPID: true })];
  const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
  const { stdout } = await runProgram(['rollout', 'plan', '-n', 'edge', '-f', '-'], { stdin });
  const fix = 'Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.';
  assert.equal(
    stdout.split('\nedge (baseline)\n')[1]?.split('  Next: ')[0],
    `  Pod agent-worker-1: denied now, violates PodSecurity "baseline:latest"
    hostNamespaces: host namespaces (hostNetwork=true)
      spec.hostNetwork
      ${fix}
  Pod proxy-worker-1: denied now, violates PodSecurity "baseline:latest"
    hostNamespaces: host namespaces (hostPID=true)
      spec.hostPID
      ${fix}
`,
  );
});

test('rollout plan plans the default level for a namespace with only the Portcullis label, because the label syncer sets no label', async () => {
  const plan = async (labels: object) => {
    const namespace = {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'shop', labels: { 'portcullis.dev/scc': 'enforce', ...labels } },
    };
    const binding = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'privileged', namespace: 'shop' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:openshift:scc:privileged' },
      subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'shop' }],
    };
    const spec = { hostNetwork: true, containers: [{ name: 'c', image: 'i' }] };
    const metadata = { name: 'web', namespace: 'shop' };
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: workloadSpec(spec) };
    const stdin = [namespace, binding, deployment].map((object) => JSON.stringify(object)).join('\n');
    const { stdout } = await runProgram(['rollout', 'plan', '-f', '-', '-o', 'json'], { stdin });
    const { namespaces } = JSON.parse(stdout) as { namespaces: readonly { planned: string; verdict: string }[] };
    return namespaces.map(({ planned, verdict }) => `${planned} ${verdict}`);
  };
  assert.deepEqual(await plan({}), ['privileged clean']);
  assert.deepEqual(await plan({ 'portcullis.dev/enforce': 'privileged' }), ['restricted violating']);
});
