/** Tests that the readiness controller evaluates namespaces, reports violations and decides whether to enforce. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { createController as createFromDefinition } from '../../src/controllers/index.ts';
import { namespaceEvaluator } from '../../src/controllers/namespace-evaluator.ts';
import { policyReports } from '../../src/controllers/policy-reports.ts';
import { readiness } from '../../src/controllers/readiness.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import type { Kind, Kinds } from '../../src/kube/kinds.ts';
import type { PSAEnforcementConfig } from '../../src/kube/psa-enforcement-config.ts';
import type { KubeObject, Namespace, Pod, Report } from '../../src/kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import {
  type ControllerRun,
  createContext,
  createTestSettings,
  installCrds,
  installStandardSccs,
  runControllers,
  type TestSettings,
} from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { readFixture } from '../support/fixtures.ts';
import { runProgram } from '../support/memory-io.ts';
import { startVerdictWebhook } from '../support/verdict-webhook.ts';

const INSTALLATION = 'portcullis';
const BY_TEST = { fieldManager: 'test' };
const RANGE = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c26,c5' };
const PLAIN = { containers: [{ name: 'app', image: 'app' }] };
const ON_HOST = { ...PLAIN, hostNetwork: true };
const GOOD = {
  containers: [
    {
      name: 'app',
      image: 'app',
      securityContext: {
        runAsNonRoot: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        seccompProfile: { type: 'RuntimeDefault' },
      },
    },
  ],
};

const EXEMPTIONS = { usernames: [], namespaces: ['exempt'], runtimeClasses: ['kata'] };

/** Creates the published CRDs of a report API group. Cluster-scoped kinds have the same schemas. */
async function installReportDefinitions(cluster: DevCluster, group: string): Promise<void> {
  const { [group]: definition } = readFixture<Record<string, ReportDefinition>>('reports/crds.yaml');
  assert.ok(definition);
  const { names } = definition.spec;
  const clusterScoped = {
    ...definition,
    metadata: { name: `cluster${definition.metadata.name}` },
    spec: {
      ...definition.spec,
      scope: 'Cluster',
      names: { kind: `Cluster${names.kind}`, plural: `cluster${names.plural}`, singular: `cluster${names.singular}` },
    },
  };
  for (const one of [definition, clusterScoped]) {
    await cluster.writer.create({ group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' }, { ...one });
  }
  await cluster.idle();
}

interface ReportDefinition {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly names: Readonly<Record<'kind' | 'plural' | 'singular', string>> };
}

/**
 * Reads a report as Policy Reporter does: the first resource or else the scope, and the ID of each result.
 * @see https://github.com/kyverno/policy-reporter/blob/main/pkg/report/result/id_generator.go
 */
function readAsConsumer({ source, scope, summary, results, metadata }: Report): void {
  const identities = new Set<string>();
  const counts: Record<string, number> = { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
  for (const result of results) {
    const { policy, rule, category, severity, message } = result;
    const resource = result.resources?.[0] ?? scope;
    assert.equal(result.source || source, 'portcullis');
    assert.ok(['critical', 'high', 'medium', 'low', 'info'].includes(severity), severity);
    for (const text of [policy, rule, category, message, resource?.kind, resource?.apiVersion, resource?.uid])
      assert.ok(text, JSON.stringify(result));
    identities.add(
      JSON.stringify([resource?.uid, metadata?.namespace, policy, rule, result.result, category, message]),
    );
    counts[result.result] = (counts[result.result] ?? NaN) + 1;
  }
  assert.equal(identities.size, results.length);
  assert.deepEqual(counts, summary);
}

interface Listed {
  readonly kind: string;
  readonly name: string;
  readonly workloads: readonly Listed[];
}

suite('the readiness controller', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let running: ControllerRun;
  let settings: TestSettings;
  let metrics: Metrics;
  let passedMs: number;
  const baseMs = Date.now() + 3_600_000;
  const date = (): Date => new Date(baseMs + passedMs + running.clock.now());

  beforeEach(async () => {
    passedMs = 0;
    settings = createTestSettings({ phase: 'Evaluate' }, EXEMPTIONS);
    metrics = createMetrics({ version: '0.0.0' });
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    await installStandardSccs(cluster);
    await cluster.create('Namespace', { metadata: { name: INSTALLATION } }, BY_TEST);
  });
  afterEach(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const run = async (): Promise<void> => {
    const context = createContext({ settings, metrics, date: () => date() });
    const controllers = [namespaceEvaluator, readiness, policyReports];
    running = runControllers(
      controllers.map((definition) => createFromDefinition(definition, context)),
      cluster,
    );
    await running.idle();
  };
  /** Replaces the controller with a new one, as after a restart of the process. */
  const restart = async (): Promise<void> => {
    await running.stop();
    passedMs += running.clock.now();
    await run();
  };
  const settle = async (): Promise<void> => {
    await cluster.idle();
    await running.idle();
    // Pending evaluations are complete after these delays.
    await running.pass(1_000);
    await running.pass(5_000);
  };
  const minute = async (): Promise<void> => {
    for (let second = 0; second < 60; second += 5) await running.pass(5_000);
  };
  const create = async (name: string, more: Namespace['metadata'] = {}): Promise<void> => {
    await cluster.create('Namespace', { metadata: { annotations: RANGE, ...more, name } }, BY_TEST);
    await cluster.idle();
  };
  const deploy = async (namespace: string, name: string, spec: object = PLAIN): Promise<void> => {
    const labels = { app: name };
    const template = { metadata: { labels }, spec };
    const object = {
      metadata: { name, namespace },
      spec: { replicas: 0, selector: { matchLabels: labels }, template },
    } as Kinds['Deployment'];
    await cluster.apply('Deployment', object, { ...BY_TEST, force: true });
  };
  const runPod = async (namespace: string, name: string, spec: object, more: Pod['metadata'] = {}): Promise<void> => {
    await cluster.create('Pod', { metadata: { ...more, name, namespace }, spec } as Pod, BY_TEST);
  };
  const ask = async (enforcementMode: string, manager = 'kubectl-edit'): Promise<void> => {
    const ops = [{ op: 'add', path: '/spec/enforcementMode', value: enforcementMode }] as const;
    await cluster.patch('PSAEnforcementConfig', { name: 'cluster' }, ops, { fieldManager: manager });
    await running.idle();
  };
  const config = (): PSAEnforcementConfig => {
    const object = cluster.store.get('PSAEnforcementConfig', 'cluster');
    assert.ok(object);
    return object;
  };
  const decided = (): string => `${config().spec?.enforcementMode ?? ''}/${config().status?.enforcementMode ?? ''}`;
  const listed = (): readonly string[] =>
    (config().status?.violatingNamespaces ?? []).map(({ name, state, reason }) =>
      [name, state, reason].join(' ').trim(),
    );
  const conditions = (filter: (type: string) => boolean = (type) => !type.endsWith('Detected')): object =>
    Object.fromEntries(
      (config().status?.conditions ?? [])
        .filter(({ type }) => filter(type))
        .map(({ type, status, reason, message }) => [type, `${status} ${reason}: ${message}`]),
    );
  const events = (): readonly string[] =>
    cluster.storage
      .list({ group: '', resource: 'events' })
      .map(({ reason, message, note, regarding, involvedObject }) => {
        const { name } = (regarding ?? involvedObject) as { readonly name: string };
        return `${name} ${String(reason)}: ${String(message ?? note)}`;
      });
  const getChanges = async (kind: Kind, go: () => Promise<void>): Promise<number> => {
    const before = cluster.store.revision(kind);
    await go();
    return cluster.store.revision(kind) - before;
  };

  test('evaluates a cluster without violations immediately, and then every four hours', async () => {
    await create('shop');
    await deploy('shop', 'web');
    await run();
    const time = (): number => Date.parse(config().status?.lastEvaluationTime ?? '');
    const firstMs = time();
    assert.ok(Math.abs(firstMs - baseMs) < 1000);
    assert.deepEqual(listed(), []);
    assert.equal(decided(), '/');
    assert.deepEqual(
      conditions((type) => !type.startsWith('PodSecurity')),
      {
        Evaluated: `True Completed: all namespaces were evaluated at ${config().status?.lastEvaluationTime}`,
        ViolationsDetected: 'False NoViolations: no workload would be denied',
        EvaluationConditionsDetected: 'False AsExpected: All is well',
      },
    );
    assert.equal(config().status?.observedGeneration, config().metadata?.generation);
    const evaluations = (): number => running.log.filter(({ msg }) => msg === 'namespaces evaluated').length;
    assert.equal(evaluations(), 1);
    const writes = await getChanges('PSAEnforcementConfig', async () => {
      for (let half = 0; half < 7; half++) await running.pass(1_800_000);
    });
    assert.equal(writes, 0, 'nothing changes');
    await restart();
    assert.equal(time(), firstMs, 'a new process continues with the stored time');
    await running.pass(1_900_000);
    await running.idle();
    assert.ok(time() >= firstMs + 4 * 3_600_000);
  });

  test('is not blocked by pods that need only a restart, and neither is rollout plan', async () => {
    settings.sccMode = 'report';
    await create('shop');
    const owned = async (name: string, older: object, spec: object, more: object = {}): Promise<void> => {
      const labels = { app: name };
      const workload = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec }, ...more };
      const object = { metadata: { name, namespace: 'shop' }, spec: workload };
      const { metadata } = await cluster.create('StatefulSet', object as Kinds['StatefulSet'], BY_TEST);
      const owner = { apiVersion: 'apps/v1', kind: 'StatefulSet', name, uid: metadata?.uid ?? '', controller: true };
      await runPod('shop', `${name}-0`, older, { ownerReferences: [owner] });
    };
    const debug = async (pod: string): Promise<void> => {
      const ephemeralContainers = [{ name: 'debugger', image: 'busybox' }];
      const path = `/api/v1/namespaces/shop/pods/${pod}/ephemeralcontainers`;
      const headers = { 'Content-Type': 'application/strategic-merge-patch+json' };
      const { status, text } = await started.admin.send('PATCH', path, { spec: { ephemeralContainers } }, headers);
      assert.equal(status, 200, text);
    };
    const claimed = { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-claims-0' } }] };
    const NO_TOKEN = { automountServiceAccountToken: false };
    await owned('token', PLAIN, GOOD);
    await owned('no-token', { ...PLAIN, ...NO_TOKEN }, { ...GOOD, ...NO_TOKEN });
    await owned('claims', { ...PLAIN, ...claimed }, GOOD, { volumeClaimTemplates: [{ metadata: { name: 'data' } }] });
    await owned('debugged', GOOD, GOOD);
    await debug('debugged-0');
    await runPod('shop', 'tool', GOOD);
    await debug('tool');
    await run();
    assert.deepEqual(listed(), []);
    assert.deepEqual(
      (await metrics.rollout.readiness.violatingWorkloads.get()).values.map(({ labels, value }) => [labels, value]),
      [[{ namespace: 'shop', verdict: 'restart' }, 5]],
    );
    const args = ['rollout', 'plan', '-n', 'shop', '--kubeconfig', await started.kubeconfig()];
    const { code, stdout } = await runProgram(args);
    assert.equal(code, 0);
    assert.match(stdout, /; no workload would be denied, 5 workloads \(5 running pods\) to restart\n$/);
  });

  test('names the version of the level in events and reports', async () => {
    const level = 'pod-security.kubernetes.io/enforce';
    await create('pinned', { labels: { [level]: 'restricted', [`${level}-version`]: 'v1.20' } });
    await run();
    // Versions before v1.22 do not require dropped capabilities.
    const { capabilities, ...context } = GOOD.containers[0]?.securityContext ?? {};
    assert.ok(capabilities);
    await deploy('pinned', 'fine', { containers: [{ name: 'app', image: 'app', securityContext: context }] });
    await deploy('pinned', 'web', { ...GOOD, hostPID: true });
    await settle();
    assert.deepEqual(
      events().filter((event) => event.startsWith('web')),
      [
        'web PodSecurityViolation: pods violate PodSecurity "restricted:v1.20": host namespaces (hostPID=true). To fix: kubectl get deployment/web -n pinned -o yaml | portcullis check --level=restricted --kubernetes-version=v1.20 --fix=diff -f -',
      ],
    );
    const args = ['rollout', 'plan', '-n', 'pinned', '--kubeconfig', await started.kubeconfig()];
    const { stdout } = await runProgram(args);
    assert.match(
      stdout,
      /\npinned {6}restricted:v1\.20 \(label\) {3}restricted:v1\.20 {3}denied now {3}1\n\npinned \(restricted:v1\.20\)\n {2}Deployment web: denied now, violates PodSecurity "restricted:v1\.20"\n/,
    );
  });

  test('does not count finished Jobs as workloads, but counts CronJobs, as do rollout plan, report and scc plan', async () => {
    await create('jobs', { labels: { 'portcullis.dev/scc': 'enforce' } });
    const template = { spec: { ...ON_HOST, restartPolicy: 'Never' } };
    for (const name of ['complete', 'failed', 'running']) {
      await cluster.create('Job', { metadata: { name, namespace: 'jobs' }, spec: { template } }, BY_TEST);
    }
    const finish = async (name: string, type: string): Promise<void> => {
      const { body } = await started.admin.send('GET', `/apis/batch/v1/namespaces/jobs/jobs/${name}`);
      const status = { conditions: [{ type, status: 'True', lastProbeTime: null, lastTransitionTime: null }] };
      await cluster.writer.update({ group: 'batch', resource: 'jobs' }, { ...(body as KubeObject), status }, 'status');
    };
    await finish('complete', 'Complete');
    await finish('failed', 'Failed');
    const nightly = { schedule: '@daily', jobTemplate: { spec: { template } } };
    await cluster.create('CronJob', { metadata: { name: 'nightly', namespace: 'jobs' }, spec: nightly }, BY_TEST);
    await run();
    assert.deepEqual(listed(), ['jobs Current']);
    const expected = ['CronJob/nightly', 'Job/running'];
    assert.deepEqual(
      events().flatMap((event) => /deny 2 workloads: (.*)$/.exec(event)?.[1]?.split(', ') ?? []),
      expected,
    );
    const kubeconfig = await started.kubeconfig();
    for (const args of ['rollout plan -o json', 'report -o json', 'scc plan -o json']) {
      const { stdout } = await runProgram([...args.split(' '), '--kubeconfig', kubeconfig]);
      const data = JSON.parse(stdout) as Partial<Record<'namespaces' | 'workloads', readonly Listed[]>>;
      const jobs = data.namespaces?.find(({ name }) => name === 'jobs')?.workloads;
      const workloads = data.workloads ?? jobs ?? [];
      assert.deepEqual(
        workloads.map(({ kind, name }) => `${kind}/${name}`),
        expected,
        args,
      );
    }
  });

  test('lists and reports violations once, and selects Legacy mode', async () => {
    await create('shop');
    await deploy('shop', 'web', ON_HOST);
    await create('bank', { labels: { 'security.openshift.io/scc.podSecurityLabelSync': 'false' } });
    await deploy('bank', 'till', ON_HOST);
    await create('exempt');
    await deploy('exempt', 'web', ON_HOST);
    await create('labeled', { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } });
    await deploy('labeled', 'web', ON_HOST);
    await run();
    assert.deepEqual(listed(), ['bank Current PSAConfig: PSA label syncer disabled', 'shop Current']);
    assert.equal(decided(), 'Legacy/');
    const told = [
      'bank PodSecurityViolations: enforcement would apply the restricted level to this namespace and deny 1 workload: Deployment/till',
      'cluster LegacyProposed: workloads would be denied, so spec.enforcementMode was set to Legacy',
      'shop PodSecurityViolations: enforcement would apply the restricted level to this namespace and deny 1 workload: Deployment/web',
    ];
    const refusal = (name: string, namespace: string): string =>
      `${name} PodSecurityViolation: pods would violate PodSecurity "restricted:latest": host namespaces (hostNetwork=true), ` +
      'allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false), ' +
      'unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), ' +
      'runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), ' +
      'seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"). ' +
      `To fix: kubectl get deployment/${name} -n ${namespace} -o yaml | portcullis check --level=restricted --fix=diff -f -`;
    told.push(refusal('till', 'bank'), refusal('web', 'shop'));
    assert.deepEqual([...events()].sort(), told);
    assert.deepEqual(conditions(), {
      Evaluated: `True Completed: all namespaces were evaluated at ${config().status?.lastEvaluationTime}`,
      LegacyProposed:
        'True WrittenByController: workloads would be denied, so fix them before you clear spec.enforcementMode',
    });
    const operator = conditions((type) => type.endsWith('EvaluationConditionsDetected'));
    assert.deepEqual(operator, {
      PodSecurityUnknownEvaluationConditionsDetected:
        'True PSViolationsDetected: Violations detected in namespaces: [shop]',
      PodSecurityOpenshiftEvaluationConditionsDetected: 'False ExpectedReason: ',
      PodSecurityRunLevelZeroEvaluationConditionsDetected: 'False ExpectedReason: ',
      PodSecurityDisabledSyncerEvaluationConditionsDetected:
        'True PSViolationsDetected: Violations detected in namespaces: [bank]',
      PodSecurityUserSCCEvaluationConditionsDetected: 'False ExpectedReason: ',
      PodSecurityInconclusiveEvaluationConditionsDetected: 'False ExpectedReason: ',
      EvaluationConditionsDetected:
        'True PodSecurityDisabledSyncer_PSViolationsDetected::PodSecurityUnknown_PSViolationsDetected: ' +
        'PodSecurityDisabledSyncerEvaluationConditionsDetected: Violations detected in namespaces: [bank]\n' +
        'PodSecurityUnknownEvaluationConditionsDetected: Violations detected in namespaces: [shop]',
    });
    await restart();
    await minute();
    assert.deepEqual([...events()].sort(), told, 'a new process records no further events');
    await deploy('shop', 'api', ON_HOST);
    await settle();
    assert.deepEqual([...events()].sort(), [refusal('api', 'shop'), ...told], 'an event for another workload');
  });

  test('evaluates again after the mode is cleared, and then enforces', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await create('shop');
    await deploy('shop', 'web', ON_HOST);
    await run();
    assert.equal(decided(), 'Legacy/Legacy');
    await deploy('shop', 'web', { ...ON_HOST, hostNetwork: false });
    await ask('');
    await running.pass(5_000);
    assert.equal(decided(), '/Restricted', 'the decision waits for the evaluation');
    assert.deepEqual(listed(), ['shop Previous']);
    await deploy('shop', 'web', ON_HOST);
    await minute();
    await minute();
    assert.deepEqual(listed(), ['shop Current']);
    assert.equal(decided(), '/Restricted', 'later violations are reported but do not change the decision');
  });

  test('does not overwrite an empty mode that another manager owns', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await cluster.apply(
      'PSAEnforcementConfig',
      { metadata: { name: 'cluster' }, spec: { enforcementMode: '' } },
      { fieldManager: 'argocd' },
    );
    await create('shop');
    await deploy('shop', 'web', ON_HOST);
    await run();
    assert.equal(decided(), '/Legacy');
    assert.deepEqual(
      conditions((type) => type === 'LegacyProposed'),
      {
        LegacyProposed:
          'True SpecConflict: workloads would be denied, but another field manager owns spec.enforcementMode ""',
      },
    );
    const writes = await getChanges('PSAEnforcementConfig', async () => {
      await minute();
      await minute();
    });
    assert.equal(writes, 0, 'no repeated writes');
  });

  test('does not overwrite an empty mode whose owner is unknown', async () => {
    const metadata = { name: 'cluster' };
    await cluster.create('PSAEnforcementConfig', { metadata, spec: { enforcementMode: '' } }, BY_TEST);
    const ops = [{ op: 'replace', path: '/metadata/managedFields', value: [{}] }] as const;
    await cluster.patch('PSAEnforcementConfig', metadata, ops, BY_TEST);
    await create('shop');
    await deploy('shop', 'web', ON_HOST);
    await run();
    assert.equal(decided(), '/');
    assert.deepEqual(
      conditions((type) => type === 'LegacyProposed'),
      {
        LegacyProposed:
          'True SpecConflict: workloads would be denied, but another field manager owns spec.enforcementMode ""',
      },
    );
  });

  test('retries a decision that it cannot write', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    const webhook = await startVerdictWebhook(cluster, ['psaenforcementconfigs/status'], () => {
      throw new Error('away');
    });
    await run();
    const failed = running.log.filter(({ msg }) => String(msg).startsWith('failed to reconcile'));
    assert.deepEqual([decided(), failed.length], ['/', 1]);
    await webhook.stop();
    await running.pass(1_000);
    assert.equal(decided(), '/Restricted');
  });

  test('enforces Restricted mode despite violations, with a warning', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await create('shop');
    await deploy('shop', 'web', ON_HOST);
    await run();
    await ask('Restricted');
    assert.equal(decided(), 'Restricted/Restricted');
    assert.ok(
      events().includes(
        'cluster EnforcementForced: spec.enforcementMode: Restricted is enforced immediately although workloads in 1 namespace would be denied: shop',
      ),
      events().join('\n'),
    );
    await ask('Legacy');
    assert.equal(decided(), 'Legacy/Legacy');
  });

  test('resets the decision in the Evaluate phase, and changes nothing in the Disabled phase', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await run();
    assert.equal(decided(), '/Restricted');
    settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
    await running.pass(5_000);
    assert.equal(decided(), '/');
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    const writes = await getChanges('PSAEnforcementConfig', async () => {
      await minute();
    });
    assert.equal(writes, 0, 'the object does not change');
  });

  test('reports changes after a minute', async () => {
    await create('shop');
    await deploy('shop', 'web', GOOD);
    await run();
    settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
    await ask('Restricted');
    await deploy('shop', 'web', ON_HOST);
    await settle();
    assert.deepEqual(listed(), [], 'a brief violation is not reported');
    assert.match(
      await metrics.expose(),
      /psa_rollout_violating_workloads\{namespace="shop",verdict="wouldBeDenied"\} 1/,
    );
    await minute();
    assert.deepEqual(listed(), ['shop Current']);
    await cluster.remove('Namespace', 'shop');
    await cluster.idle();
    await minute();
    await minute();
    assert.deepEqual(listed(), []);
  });

  test('evaluates a namespace at a new level when the grants of its service accounts change', async () => {
    await create('shop');
    await deploy('shop', 'web', { ...PLAIN, hostPID: true, serviceAccountName: 'default' });
    await cluster.create(
      'RoleBinding',
      {
        metadata: { name: 'free', namespace: 'shop' },
        roleRef: {
          apiGroup: 'rbac.authorization.k8s.io',
          kind: 'ClusterRole',
          name: 'system:openshift:scc:privileged',
        },
        subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'shop' }],
      },
      BY_TEST,
    );
    await run();
    assert.deepEqual(listed(), []);
    await ask('Restricted');
    await cluster.remove('RoleBinding', 'free', 'shop');
    await settle();
    await minute();
    await minute();
    assert.deepEqual(listed(), ['shop Current'], 'the namespace would be labeled restricted');
  });

  test('evaluates a namespace as inconclusive until it has a UID range', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await create('shop', { annotations: {} });
    await deploy('shop', 'web');
    await run();
    assert.equal(decided(), '/');
    assert.deepEqual(
      conditions((type) => type === 'Evaluated' || type === 'PodSecurityInconclusiveEvaluationConditionsDetected'),
      {
        Evaluated: 'False Inconclusive: some namespaces could not be evaluated',
        PodSecurityInconclusiveEvaluationConditionsDetected:
          'True PSViolationDecisionInconclusive: Could not evaluate violations for namespaces: [shop]',
      },
    );
    assert.equal(config().status?.lastEvaluationTime, undefined);
    assert.match(await metrics.expose(), /psa_rollout_evaluation_errors_total 1/);
    await cluster.apply('Namespace', { metadata: { name: 'shop', annotations: RANGE } }, { fieldManager: 'allocator' });
    await minute();
    assert.equal(decided(), '/Restricted');
  });

  test('makes no decision while SCCs and grants change', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await create('shop');
    await deploy('shop', 'web');
    const [scc] = STANDARD_SCCS.filter(({ scc }) => scc.metadata?.name === 'restricted-v2');
    const [binding] = STANDARD_CLUSTER_ROLE_BINDINGS.filter(({ metadata }) =>
      metadata?.name?.includes('restricted-v2'),
    );
    assert.ok(scc && binding);
    for (const { scc: one } of STANDARD_SCCS) {
      await cluster.remove('SecurityContextConstraints', one.metadata?.name ?? '');
    }
    await cluster.remove('ClusterRoleBinding', binding.metadata?.name ?? '');
    await run();
    assert.equal(decided(), '/');
    await cluster.create('SecurityContextConstraints', scc.scc, BY_TEST);
    await running.idle();
    await running.pass(4_000);
    assert.equal(decided(), '/', 'without the grant, the namespace would have violations');
    await cluster.create('ClusterRoleBinding', binding, BY_TEST);
    // The changes continue, which delays the decision by at most a minute.
    for (let seconds = 4; seconds <= 64; seconds += 4) {
      assert.equal(decided(), '/', `after ${seconds} seconds`);
      await cluster.create('ClusterRoleBinding', { ...binding, metadata: { name: `other-${seconds}` } }, BY_TEST);
      await running.idle();
      await running.pass(4_000);
    }
    assert.equal(decided(), '/Restricted');
  });

  test('creates a missing or deleted object', async () => {
    await run();
    await cluster.remove('PSAEnforcementConfig', 'cluster');
    await running.idle();
    await running.pass(5_000);
    assert.equal(decided(), '/');
    const annotations = { 'portcullis.dev/pod-security-default': 'restricted' };
    const metadata = { name: 'portcullis-pod-security', namespace: INSTALLATION, annotations };
    await cluster.create('ConfigMap', { metadata }, BY_TEST);
    await cluster.remove('PSAEnforcementConfig', 'cluster');
    await running.idle();
    assert.deepEqual(events(), [
      'cluster EnforcementConfigDeleted: the object was deleted while the default level was restricted, so enforcement ends',
    ]);
  });

  test('evaluates a cluster again after the clock is set back by an hour', async () => {
    await run();
    await cluster.patch('SecurityContextConstraints', { name: 'anyuid' }, { priority: 7 }, BY_TEST);
    await minute();
    passedMs -= 3_600_000;
    const backMs = date().getTime();
    await minute();
    const evaluatedMs = Date.parse(config().status?.lastEvaluationTime ?? '');
    assert.ok(evaluatedMs < backMs + 60_000);
  });

  test('creates the object as soon as the cluster serves it', async () => {
    const name = 'psaenforcementconfigs.config.openshift.io';
    const definitions = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };
    const definition = cluster.storage.get(definitions, '', name);
    await cluster.writer.remove(definitions, '', name);
    await cluster.idle();
    await run();
    await running.pass(60_000);
    assert.equal(cluster.store.get('PSAEnforcementConfig', 'cluster'), undefined);
    assert.ok(definition);
    const { apiVersion, kind, spec } = definition as Record<string, unknown>;
    await cluster.writer.create(definitions, { apiVersion, kind, metadata: { name }, spec } as never);
    await cluster.idle();
    await running.pass(30_000);
    assert.equal(decided(), '/');
  });

  suite('reports of the readiness controller', () => {
    const NAME = 'portcullis-pod-security';
    /** Installs the published CRDs of a report API group. */
    const serve = (group: string) => installReportDefinitions(cluster, group);
    const count = (...kinds: readonly Kind[]): readonly number[] =>
      kinds.map((kind) => cluster.store.list(kind).length);
    const messages = (): readonly unknown[] =>
      running.log.map(({ msg }) => msg).filter((msg) => String(msg).includes('reports are'));

    test('exist for each evaluated namespace, and are owned by the ClusterReport', async () => {
      await serve('openreports.io');
      for (const name of ['shop', 'bank']) await create(name);
      await create('own', { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } });
      await deploy('own', 'web', ON_HOST);
      await deploy('own', 'older');
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'older-x', uid: 'u2', controller: true };
      await runPod('own', 'older-x-y', ON_HOST, { ownerReferences: [owner] });
      await deploy('shop', 'web', ON_HOST);
      await deploy('shop', 'sandbox', { ...ON_HOST, runtimeClassName: 'kata' });
      const pod = { containers: GOOD.containers };
      const controller = { apiVersion: 'example.com/v1', kind: 'Machine', name: 'till', uid: 'u1', controller: true };
      for (const name of ['a', 'b']) await runPod('bank', name, pod, { ownerReferences: [controller] });
      await run();
      const uid = (kind: Kind, name: string, namespace?: string) =>
        cluster.store.get(kind, name, namespace)?.metadata?.uid ?? '';
      const report = cluster.store.get('Report', NAME, 'shop');
      const whole = cluster.store.get('ClusterReport', NAME);
      const timestamp = { seconds: Math.floor(date().getTime() / 1000), nanos: 0 };
      const common = { source: 'portcullis', category: 'Pod Security Standards', timestamp };
      const api = { apiVersion: 'openreports.io/v1alpha1', kind: 'ClusterReport' };
      assert.deepEqual(report?.metadata?.ownerReferences, [{ ...api, name: NAME, uid: uid('ClusterReport', NAME) }]);
      assert.equal(whole?.metadata?.ownerReferences?.[0]?.uid, uid('PSAEnforcementConfig', 'cluster'));
      assert.deepEqual(report.scope, {
        apiVersion: 'v1',
        kind: 'Namespace',
        name: 'shop',
        uid: uid('Namespace', 'shop'),
      });
      // No SCC admits the pod, so its template is evaluated unchanged.
      assert.deepEqual(report.summary, { pass: 0, fail: 5, warn: 0, error: 0, skip: 1 });
      const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'shop' };
      const restricted = { ...common, policy: 'pod-security-restricted' };
      assert.deepEqual(report.results[0], {
        ...restricted,
        rule: 'hostNamespaces',
        severity: 'high',
        result: 'fail',
        scored: true,
        message:
          'host namespaces (hostNetwork=true). Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.',
        resources: [{ ...deployment, name: 'web', uid: uid('Deployment', 'web', 'shop') }],
        properties: {
          ...{ verdict: 'wouldBeDenied', pods: '0', causes: 'serviceAccount' },
          ...{ cis: '5.2.3, 5.2.4, 5.2.5', nsa: 'no host namespaces' },
          fields: 'spec.template.spec.hostNetwork',
        },
      });
      assert.equal(report.results[1]?.severity, 'medium');
      assert.deepEqual(report.results[5], {
        ...restricted,
        rule: 'restricted',
        severity: 'info',
        result: 'skip',
        scored: false,
        message: 'Runtime class kata is exempt.',
        resources: [{ ...deployment, name: 'sandbox', uid: uid('Deployment', 'sandbox', 'shop') }],
      });
      assert.deepEqual(cluster.store.get('Report', NAME, 'bank')?.results, [
        {
          ...restricted,
          rule: 'restricted',
          severity: 'info',
          result: 'pass',
          scored: true,
          message: 'The workload satisfies the restricted level.',
          resources: [{ apiVersion: 'example.com/v1', kind: 'Machine', namespace: 'bank', name: 'till', uid: 'u1' }],
        },
      ]);
      const own = cluster.store.get('Report', NAME, 'own');
      assert.deepEqual(own?.summary, { pass: 0, fail: 1, warn: 1, error: 0, skip: 0 });
      const told = own.results.map(({ result, message, properties }) => [result, message, properties?.['verdict']]);
      assert.deepEqual(told, [
        [
          'fail',
          'host namespaces (hostNetwork=true). Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.',
          'deniedNow',
        ],
        [
          'warn',
          'The running pods violate the baseline level, but new pods satisfy it. Restart the workload.',
          'restart',
        ],
      ]);
      assert.deepEqual(count('Report', 'ClusterReport'), [8, 1]);
      assert.deepEqual(whole.summary, { pass: 6, fail: 2, warn: 0, error: 0, skip: 0 });
      const resultOf = (name: string) => whole.results.find(({ resources }) => resources?.[0]?.name === name);
      assert.equal(
        resultOf('own')?.message,
        '1 workload violates the baseline level, which is in force. The running pods of 1 workload need a restart.',
      );
      assert.deepEqual(resultOf('shop'), {
        ...restricted,
        rule: 'namespace',
        severity: 'high',
        result: 'fail',
        scored: true,
        message: '1 workload violates the restricted level.',
        resources: [report.scope],
        properties: { verdict: 'violating', workloads: '1', categories: 'unknown' },
      });
      for (const one of [...cluster.store.list('Report'), whole]) readAsConsumer(one);
      assert.equal(await getChanges('Report', minute), 0, 'no change');
      assert.equal(await getChanges('ClusterReport', minute), 0, 'no change');
    });

    test('are created and deleted with the namespaces and the phase', async () => {
      await serve('openreports.io');
      for (const name of ['shop', 'bank']) await create(name);
      await deploy('shop', 'web', ON_HOST);
      await run();
      const before = count('Report')[0] ?? 0;
      await restart();
      await deploy('shop', 'web', GOOD);
      const metadata = { name: 'bank', labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } };
      await cluster.apply('Namespace', { metadata }, { ...BY_TEST, force: true });
      await settle();
      await minute();
      assert.deepEqual(cluster.store.get('Report', NAME, 'shop')?.summary, {
        pass: 1,
        fail: 0,
        warn: 0,
        error: 0,
        skip: 0,
      });
      assert.equal(cluster.store.get('ClusterReport', NAME)?.summary.fail, 0);
      assert.deepEqual(count('Report'), [before], 'the report for a namespace with a label is kept');
      await cluster.remove('ClusterReport', NAME);
      for (const { metadata } of cluster.store.list('Report'))
        await cluster.remove('Report', NAME, metadata?.namespace);
      for (let half = 0; half < 9; half++) await running.pass(1_800_000);
      assert.deepEqual(count('Report', 'ClusterReport'), [before, 1], 'restored after a sweep');
      await running.stop();
      assert.deepEqual(count('ClusterReport'), [1], 'another leader updates it');
      await run();
      settings.disabledControllers = [readiness.name];
      await running.stop();
      assert.deepEqual(count('ClusterReport'), [0], 'its owner is gone, so Kubernetes deletes the others');
    });

    test('list the workloads that are denied now in the Disabled phase, as do the metrics', async () => {
      await serve('openreports.io');
      settings.rollout = { ...settings.rollout, phase: 'Disabled' };
      const spec = { podSecurity: { defaults: { enforce: 'privileged' } } };
      await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec }, BY_TEST);
      await create('own', { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } });
      await deploy('own', 'web', ON_HOST);
      await runPod('own', 'debug', ON_HOST);
      await create('open');
      await deploy('open', 'web', ON_HOST);
      await run();
      await settle();
      const summaries = () =>
        ['own', 'open'].map((name) => Object.entries(cluster.store.get('Report', NAME, name)?.summary ?? {}).flat());
      const verdicts = () =>
        cluster.store
          .get('Report', NAME, 'own')
          ?.results.map(({ resources, properties }) => [resources?.[0]?.name, properties?.['verdict']]);
      const none = ['pass', 0, 'fail', 0, 'warn', 0, 'error', 0, 'skip', 1];
      assert.deepEqual(summaries(), [['pass', 0, 'fail', 2, 'warn', 0, 'error', 0, 'skip', 0], none]);
      assert.deepEqual(verdicts(), [
        ['web', 'deniedNow'],
        ['debug', 'deniedNow'],
      ]);
      const whole = cluster.store.get('ClusterReport', NAME);
      assert.equal(whole?.metadata?.ownerReferences?.[0]?.kind, 'PortcullisConfiguration');
      const measured = async (name: string): Promise<readonly string[]> =>
        (await metrics.expose()).split('\n').filter((line) => line.startsWith(`${name}{`));
      const denied = (count: number) => [
        `psa_rollout_violating_workloads{namespace="own",verdict="deniedNow"} ${count}`,
      ];
      assert.deepEqual(await measured('psa_rollout_violating_workloads'), denied(2));
      const total = (count: number) => [
        `psa_rollout_workloads{verdict="deniedNow"} ${count}`,
        'psa_rollout_workloads{verdict="wouldBeDenied"} 0',
        'psa_rollout_workloads{verdict="restart"} 0',
      ];
      assert.deepEqual(await measured('psa_rollout_workloads'), total(2));
      assert.ok((await measured('psa_rollout_namespaces')).includes('psa_rollout_namespaces{state="deniedNow"} 1'));
      assert.deepEqual(await measured('psa_rollout_violating_namespaces'), [], 'no level is planned');
      assert.equal(cluster.store.get('PSAEnforcementConfig', 'cluster'), undefined, 'nothing is decided');
      assert.deepEqual(events(), [], 'no change to a workload');
      await deploy('own', 'web', GOOD);
      await cluster.remove('Pod', 'debug', 'own');
      await settle();
      assert.deepEqual(summaries()[0], ['pass', 1, 'fail', 0, 'warn', 0, 'error', 0, 'skip', 0]);
      assert.deepEqual(await measured('psa_rollout_violating_workloads'), []);
      await deploy('own', 'web', ON_HOST);
      await settle();
      assert.deepEqual(await measured('psa_rollout_violating_workloads'), denied(1));
      assert.ok(events().some((text) => text.startsWith('web PodSecurityViolation')));
      await cluster.remove('ClusterReport', NAME);
      for (let half = 0; half < 9; half++) await running.pass(1_800_000);
      await running.pass(5_000);
      assert.deepEqual(count('ClusterReport'), [1], 'reports are restored after an interval');
    });

    for (const resource of ['reports', 'clusterreports']) {
      test(`are written once API servers accept ${resource}`, async (t) => {
        await serve('openreports.io');
        await create('shop');
        const webhook = await startVerdictWebhook(cluster, [resource], () => {
          throw new Error('away');
        });
        t.after(() => webhook.stop());
        await run();
        assert.equal(cluster.store.get('Report', NAME, 'shop'), undefined);
        assert.ok(running.log.some(({ msg }) => String(msg).startsWith('failed to reconcile')));
        await webhook.stop();
        await minute();
        assert.ok(cluster.store.get('Report', NAME, 'shop'));
      });
    }

    test('change their verdicts when the Disabled phase starts and ends', async () => {
      await serve('openreports.io');
      await create('shop');
      await deploy('shop', 'web', ON_HOST);
      await run();
      const failures = () => cluster.store.get('Report', NAME, 'shop')?.summary.fail;
      assert.equal(failures(), 5);
      for (const [phase, expected] of [
        ['Disabled', 0],
        ['Evaluate', 5],
      ] as const) {
        settings.rollout = { ...settings.rollout, phase };
        await minute();
        assert.equal(failures(), expected, phase);
      }
    });

    test('follow changes to SCCs in the Disabled phase', async () => {
      settings.rollout = { ...settings.rollout, phase: 'Disabled' };
      await serve('openreports.io');
      await create('shop', { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } });
      await deploy('shop', 'web');
      await run();
      await minute();
      const failures = () => cluster.store.get('Report', NAME, 'shop')?.summary.fail;
      assert.equal(failures(), 0);
      for (const name of ['restricted-v2', 'restricted-v3']) await cluster.remove('SecurityContextConstraints', name);
      await cluster.idle();
      await minute();
      assert.equal(failures(), 4);
    });

    test('use the API that the cluster serves, even one that is installed later, unless the settings select an API', async () => {
      await create('shop');
      await run();
      await minute();
      assert.deepEqual(messages(), ['no reports are written: install the openreports.io CRDs']);
      await serve('wgpolicyk8s.io');
      await minute();
      await minute();
      const report = cluster.store.get('PolicyReport', NAME, 'shop');
      assert.deepEqual([report?.apiVersion, report?.kind], ['wgpolicyk8s.io/v1alpha2', 'PolicyReport']);
      const whole = cluster.store.get('ClusterPolicyReport', NAME);
      assert.ok(report && whole && !('source' in report));
      for (const one of [report, whole]) readAsConsumer(one);
      assert.equal(report.metadata?.ownerReferences?.[0]?.uid, whole.metadata?.uid);
      await serve('openreports.io');
      for (let half = 0; half < 9; half++) await running.pass(1_800_000);
      assert.deepEqual(count('ClusterPolicyReport', 'ClusterReport'), [0, 1]);
      assert.ok(cluster.store.get('Report', NAME, 'shop'));
      assert.deepEqual(messages().slice(1), ['reports are written', 'reports are written']);
      settings.rollout = { ...settings.rollout, reportApi: 'wgpolicyk8s.io' };
      await minute();
      assert.deepEqual(count('ClusterPolicyReport', 'ClusterReport'), [1, 0]);
      assert.ok(cluster.store.get('PolicyReport', NAME, 'shop'));
    });
  });

  test('are written again after an annotation requests an evaluation', async () => {
    await run();
    const first = config().status?.lastEvaluationTime;
    await running.pass(600_000);
    assert.equal(config().status?.lastEvaluationTime, first);
    const annotations = { 'portcullis.dev/evaluate': `${date().toISOString().slice(0, 19)}Z` };
    await cluster.apply(
      'PSAEnforcementConfig',
      { metadata: { name: 'cluster', annotations } },
      { fieldManager: 'admin' },
    );
    await running.idle();
    const second = config().status?.lastEvaluationTime;
    assert.equal(second, annotations['portcullis.dev/evaluate']);
    await running.pass(600_000);
    await restart();
    assert.equal(config().status?.lastEvaluationTime, second, 'once');
    const future = { 'portcullis.dev/evaluate': '2999-01-01T00:00:00Z' };
    await cluster.apply(
      'PSAEnforcementConfig',
      { metadata: { name: 'cluster', annotations: future } },
      { fieldManager: 'admin' },
    );
    await running.idle();
    const third = config().status?.lastEvaluationTime;
    assert.notEqual(third, second, 'clocks differ');
    await running.pass(600_000);
    assert.equal(config().status?.lastEvaluationTime, third, 'once');
  });
});
