/**
 * Tests that all readers of the policies agree with the webhooks about random workloads. The pod of each workload is
 * reviewed as its controller would create it, first with the labels of its namespace, then with the labels and the
 * default level that enforcement would set. The decisions are compared with the results of the commands, of the
 * dashboard and of the leader.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { openDashboard } from '../../src/cli/report/dashboard-server.ts';
import { createPooling } from '../../src/cluster/object-pool.ts';
import { project } from '../../src/cluster/projection.ts';
import { createStore, type Store, type WritableStore } from '../../src/cluster/store.ts';
import { settingsFromObject } from '../../src/config/configuration.ts';
import type { Settings } from '../../src/config/settings.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { submittedPod, createPod } from '../../src/kube/controller-pod.ts';
import { setApiDefaults } from '../../src/kube/defaults.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { hasFinished } from '../../src/kube/pod.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import { finishSteps } from '../../src/kube/steps.ts';
import type { KubeObject, PortcullisConfiguration } from '../../src/kube/types.ts';
import {
  createPodSecurity,
  isSamePolicy,
  type PodSecurity,
  printPolicy,
  resolvePolicies,
} from '../../src/policy/psa/index.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import {
  buildReport,
  managementSettings,
  type NamespaceEvaluation,
  podSecurityDefaultsFor,
  REPORT_APIS,
} from '../../src/policy/rollout/index.ts';
import type { WebhookContext } from '../../src/server/webhook.ts';
import { evaluateFromStore } from '../../src/views/evaluation.ts';
import { activeExceptions } from '../../src/views/exceptions.ts';
import { createLabelPlanner, effectivePodSecurity, namespacePolicies } from '../../src/views/rollout.ts';
import { type Workload, type World, world } from '../support/agreement/world.ts';
import { readDashboard } from '../support/dashboard-client.ts';
import { runProgram } from '../support/memory-io.ts';
import { createTestWebhooks } from '../support/scc-webhooks.ts';

/** Number of worlds of 40 workloads. 125 worlds have 5,000 workloads. */
const WORLDS = Number(process.env['PORTCULLIS_WORLDS'] ?? 8);
const ALICE = { username: 'alice', groups: ['system:authenticated'] };

/** The decisions of the webhooks on the pods of a workload. */
interface Reviewed {
  readonly workload: string;
  /** The policies that deny a new pod. */
  readonly policies: string;
  /** True if exceptions allow the new pod or the running pod. */
  readonly isExcepted: boolean;
  /** True if Pod Security would deny the running pod. */
  readonly isRunningDenied: boolean;
  /** The policy in the warning about the new workload. It must equal the policy that the new pod violates. */
  readonly warned: string;
  readonly expectedWarning: string;
}

/** The policies that deny the pods of a workload, according to a reader. */
interface Answer {
  readonly workload: string;
  readonly policies: string;
}

function workloadName({ kind, object }: Workload): string {
  return `${object.metadata?.namespace ?? ''} ${kind}/${object.metadata?.name ?? ''}`;
}

function readSettings({ settings }: World): Settings {
  const object = { ...configuration(settings) } as PortcullisConfiguration;
  return settingsFromObject(object, { controllers: [], namespace: 'portcullis' });
}

function configuration(spec: object): KubeObject {
  const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
  return { ...type, metadata: { name: 'cluster' }, spec } as KubeObject;
}

function allObjects({ objects, workloads }: World): readonly KubeObject[] {
  return [...objects, ...workloads.flatMap(({ object, pod }) => (pod ? [object, pod] : [object]))];
}

/** Fills a store as the reflectors of a replica do. */
function fillStore(given: World): WritableStore {
  const store = createStore();
  const pool = createPooling();
  for (const object of allObjects(given)) {
    const kind = object.kind as Kind;
    const { namespace } = object.metadata ?? {};
    // API servers store pods with their service account token.
    const written =
      kind === 'Pod' ? submittedPod(object, (name) => store.get('ServiceAccount', name, namespace)) : object;
    const stored = project(kind, { ...written });
    if (stored) store.put(kind, pool(kind, stored));
  }
  return store;
}

/** Returns the effective Pod Security configuration, which the phase of the rollout determines. */
function findPodSecurity(settings: Settings, store: Store): PodSecurity {
  return effectivePodSecurity({ store, namespace: 'portcullis', version: '0.0.0' }, settings);
}

/**
 * Returns the store in the state after enforcement, when the label syncer has written its labels and the default level
 * is restricted.
 */
function enforce(given: World, settings: Settings, before: Store): [WritableStore, PodSecurity] {
  const store = fillStore(given);
  const { exemptions } = settings.podSecurity.configuration;
  const planned = createLabelPlanner(before, { mode: 'Enforce', settings: managementSettings(settings.scc) });
  for (const namespace of before.list('Namespace')) {
    const { labels } = namespace.metadata ?? {};
    const added = finishSteps(planned(namespace)).apply?.metadata?.labels;
    store.put('Namespace', { ...namespace, metadata: { ...namespace.metadata, labels: { ...labels, ...added } } });
  }
  return [store, createPodSecurity({ defaults: podSecurityDefaultsFor('restricted'), exemptions })];
}

/** Returns the decisions of the webhooks on the pods of each workload. */
async function review(
  given: World,
  settings: Settings,
  store: WritableStore,
  podSecurity: PodSecurity,
): Promise<readonly Reviewed[]> {
  const { exceptions } = settings;
  const webhooks = createTestWebhooks(store, {
    ...{ settings: settings.scc, podSecurity, podDefaults: settings.defaults, exceptions },
  });
  store.markSynced();
  const context: WebhookContext = { store, now: () => performance.now(), deadlineMs: performance.now() + 1e9 };
  const send = async (path: string, request: AdmissionRequest): Promise<Decision> => {
    const webhook = webhooks.find((candidate) => candidate.path === path);
    assert.ok(webhook, path);
    return await webhook.decide(request, context);
  };
  const reviewOne = async (workload: Workload): Promise<Reviewed> => {
    const { kind, object: value } = workload;
    const running = kind === 'Pod' ? value : workload.pod;
    const { namespace = '' } = value.metadata ?? {};
    const findAccount = (name: string) => store.get('ServiceAccount', name, namespace);
    const created = createPod(workload, { namespace, creator: ALICE, findAccount });
    assert.ok(created);
    const requestFor = (one: Kind, object: unknown, userInfo = created.requester): AdmissionRequest => {
      const { group, resource } = RESOURCES[one];
      return {
        ...{ uid: 'u', operation: 'CREATE', namespace, userInfo, object },
        kind: { group, version: 'v1', kind: one },
        resource: { group, version: 'v1', resource },
      };
    };
    let object: unknown = created.pod;
    const denials: string[] = [];
    let isExcepted = false;
    let isExempt = false;
    for (const path of ['/mutate/pods', '/validate/pods']) {
      const decision = await send(path, requestFor('Pod', object));
      if (!decision.allowed) {
        if (!isPodSecurityDenial(decision) || (decision.status.message ?? '').includes('unable to validate'))
          denials.push('SCC');
        if (isPodSecurityDenial(decision)) denials.push('PodSecurity');
      } else if (decision.object) object = decision.object;
      isExcepted ||= decision.auditAnnotations?.['exception'] !== undefined;
      isExempt ||= decision.auditAnnotations?.['exempt'] !== undefined;
    }
    const stored = running && submittedPod(running, findAccount);
    const older = stored && (await send('/validate/pods', requestFor('Pod', stored)));
    const complete = structuredClone(value) as unknown as Record<string, unknown>;
    setApiDefaults(complete);
    const applied = kind === 'Pod' ? undefined : await send('/validate/workloads', requestFor(kind, complete, ALICE));
    const warnings = applied?.warnings?.flatMap((text) => /^would violate PodSecurity "(.*?)"/.exec(text)?.[1] ?? []);
    const { labels } = store.get('Namespace', namespace)?.metadata ?? {};
    const { enforce, warn } = resolvePolicies(labels, podSecurity.defaults);
    // Exceptions apply to warnings about the enforced policy.
    const isAllowed = isExempt || (isExcepted && isSamePolicy(warn, enforce));
    const violates = !isAllowed && !evaluatePod(object, warn).allowed;
    return {
      workload: workloadName(workload),
      policies: [...new Set(denials)].join(' '),
      isExcepted: isExcepted || older?.auditAnnotations?.['exception'] !== undefined,
      isRunningDenied: older !== undefined && isPodSecurityDenial(older),
      warned: warnings?.join(' ') ?? '',
      expectedWarning: kind !== 'Pod' && violates ? printPolicy(warn) : '',
    };
  };
  return await Promise.all(given.workloads.map(reviewOne));
}

function isPodSecurityDenial(decision: Decision): boolean {
  return !decision.allowed && (decision.status.message ?? '').includes('violates PodSecurity');
}

async function runOn(given: World, ...args: readonly string[]): Promise<unknown> {
  const objects = [configuration(given.settings), ...allObjects(given)];
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
  const { stdout, stderr } = await runProgram([...args, '-o', 'json'], { stdin });
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout);
}

/** Returns the decisions that `explain` prints. */
async function explain(given: World): Promise<readonly Answer[]> {
  const { objects } = (await runOn(given, 'explain', '-f', '-', '--offline', '--as', ALICE.username)) as {
    readonly objects: readonly {
      readonly namespace: string;
      readonly kind: string;
      readonly name: string;
      readonly allowed: boolean;
      readonly denials: readonly { readonly by: string }[];
    }[];
  };
  return objects.map(({ namespace, kind, name, allowed, denials }) => {
    assert.equal(allowed, denials.length === 0);
    return { workload: `${namespace} ${kind}/${name}`, policies: denials.map(({ by }) => by).join(' ') };
  });
}

interface Verdict {
  readonly kind: string;
  readonly name: string;
  readonly verdict: string;
}

type Namespaces = readonly {
  readonly name: string;
  readonly workloads: readonly Verdict[];
  readonly excepted: readonly Omit<Verdict, 'verdict'>[];
}[];

/** Returns the verdict of each listed workload. Workloads that exceptions allow have the verdict `excepted`. */
function listVerdicts(namespaces: Namespaces): ReadonlyMap<string, string> {
  const verdicts = namespaces.flatMap(({ name, workloads, excepted }) =>
    [...excepted.map((one) => ({ ...one, verdict: 'excepted' })), ...workloads].map(
      ({ kind, name: workload, verdict }) => [`${name} ${kind}/${workload}`, verdict] as const,
    ),
  );
  return joinVerdicts(verdicts);
}

/** Joins the verdicts of each workload, because a workload may be excepted and also need a restart. */
function joinVerdicts(verdicts: readonly (readonly [workload: string, verdict: string])[]) {
  const groups = Map.groupBy(verdicts, ([workload]) => workload);
  return new Map([...groups].map(([workload, group]) => [workload, sortedWords(group.map(([, verdict]) => verdict))]));
}

function sortedWords(words: readonly string[]): string {
  return [...new Set(words)].filter(Boolean).sort().join(' ');
}

/** Returns the evaluations of the leader, based on the projected objects in its store. */
function evaluate(settings: Settings, store: WritableStore): readonly NamespaceEvaluation[] {
  const podSecurity = findPodSecurity(settings, store);
  const { defaults } = settings;
  const management = managementSettings(settings.scc);
  return store.list('Namespace').map((namespace) =>
    finishSteps(
      evaluateFromStore(namespace, store, {
        ...{ podSecurity: () => podSecurity, management, defaults },
        exceptions: (name) => activeExceptions(store, settings.exceptions, name, Date.now()),
        policies: () => namespacePolicies(namespace, store, { podSecurity, management }),
      }),
    ),
  );
}

/** Returns the verdicts in the reports of the leader. */
function listReported(evaluations: readonly NamespaceEvaluation[]): ReadonlyMap<string, string> {
  const reports = evaluations.map((evaluation) => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', name: evaluation.name };
    const input = { api: REPORT_APIS[0], owner: undefined, seconds: 1, namespace, workloads: [] };
    return finishSteps(buildReport(evaluation, input));
  });
  return joinVerdicts(
    reports.flatMap(({ metadata, results }) =>
      results
        .filter(({ rule }) => rule !== 'namespace')
        .map(({ resources, properties }) => {
          const [subject] = resources ?? [];
          const verdict = properties?.['verdict'] ?? (properties?.['exception'] === undefined ? '' : 'excepted');
          return [`${metadata?.namespace} ${subject?.kind}/${subject?.name}`, verdict] as const;
        }),
    ),
  );
}

/** Returns the report of the dashboard, which reads the cluster with its own store. */
async function readLiveReport(given: World, settings: Settings): Promise<Namespaces> {
  const store = fillStore(given);
  createTestWebhooks(store, { settings: settings.scc });
  store.put('PortcullisConfiguration', configuration(given.settings));
  store.markSynced();
  const stopping = new AbortController();
  const inventory = { store, source: 'cluster', customSources: [], assumptions: [], unread: [] } as const;
  const values = { config: undefined, 'installation-namespace': 'portcullis', 'scc-mode': undefined };
  const dashboard = await openDashboard({
    ...{ port: 0, server: 'https://cluster.example', values, signal: stopping.signal },
    inventory: () => inventory,
  });
  const report = await readDashboard(dashboard.url);
  stopping.abort();
  await dashboard.close();
  return report.namespaces;
}

/** Returns the workloads that `check` denies. `check` evaluates neither exemptions nor pod defaults. */
async function check(
  given: World,
  settings: Settings,
  podSecurity: PodSecurity,
): Promise<ReadonlySet<string> | undefined> {
  if (settings.defaults.mode !== 'off') return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-agreement-'));
  const file = join(folder, 'configuration.json');
  await writeFile(file, JSON.stringify(configuration(given.settings)));
  const { level, version } = podSecurity.defaults.enforce;
  const policy = ['--level', level, '--kubernetes-version', version];
  const { objects } = (await runOn(given, 'check', '-f', '-', '--config', file, ...policy)) as {
    readonly objects: readonly (Verdict & { readonly namespace: string; readonly findings: readonly object[] })[];
  };
  await rm(folder, { recursive: true });
  const denied = objects.filter(({ findings }) =>
    findings.some((finding) => 'mode' in finding && finding.mode === 'enforce'),
  );
  return new Set(denied.map(({ namespace, kind, name }) => `${namespace} ${kind}/${name}`));
}

/** Returns the verdict that follows from the decisions of the webhooks before and after enforcement. */
function expectedVerdict(now: Reviewed, planned: Reviewed): string {
  if (now.policies.includes('PodSecurity')) return 'deniedNow';
  if (planned.policies.includes('PodSecurity')) return 'wouldBeDenied';
  const isRestart = now.isRunningDenied || planned.isRunningDenied;
  return sortedWords([isRestart ? 'restart' : '', now.isExcepted || planned.isExcepted ? 'excepted' : '']);
}

test('all commands and reports give the verdicts of the webhooks for the pods of workloads', async () => {
  const counts: Record<string, number> = {};
  const count = (name: string): void => void (counts[name] = (counts[name] ?? 0) + 1);
  for (const given of fc.sample(world, { numRuns: WORLDS, seed: 20_261_129 })) {
    const settings = readSettings(given);
    const store = fillStore(given);
    const podSecurity = findPodSecurity(settings, store);
    const reviewed = await review(given, settings, store, podSecurity);
    const planned = await review(given, settings, ...enforce(given, settings, store));
    const running = new Set(
      given.workloads.filter(({ object }) => !hasFinished(object)).map((workload) => workloadName(workload)),
    );
    const explained = new Map((await explain(given)).map(({ workload, policies }) => [workload, policies]));
    const [plan, report] = (await Promise.all([
      runOn(given, 'rollout', 'plan', '-f', '-'),
      runOn(given, 'report', '-f', '-'),
    ])) as { readonly namespaces: Namespaces }[];
    const evaluations = evaluate(settings, store);
    const checked = await check(given, settings, podSecurity);
    const exempt = new Set(
      given.workloads.filter((workload) => JSON.stringify(workload).includes('"kata"')).map(workloadName),
    );
    const readers: readonly (readonly [name: string, verdicts: ReadonlyMap<string, string>])[] = [
      ['leader', listVerdicts(evaluations)],
      ['PolicyReport', listReported(evaluations)],
      ['rollout plan', listVerdicts(plan?.namespaces ?? [])],
      ['report', listVerdicts(report?.namespaces ?? [])],
      ['dashboard', listVerdicts(await readLiveReport(given, settings))],
    ];
    const differences = reviewed.flatMap((now, index) => {
      const { workload, policies, warned, expectedWarning } = now;
      const expected = running.has(workload) ? expectedVerdict(now, planned[index] ?? now) : '';
      for (const name of ['workloads', policies, expected, warned && 'warned']) count(name);
      const answers: readonly (readonly [reader: string, answer: unknown, expected: unknown])[] = [
        ...(checked === undefined || exempt.has(workload)
          ? []
          : [['check', checked.has(workload), policies !== ''] as const]),
        ['explain', explained.get(workload), running.has(workload) ? policies : ''],
        // If no SCC admits the pods, the webhook warns about their SCC instead.
        ...(policies.includes('SCC') ? [] : [['warning at apply', warned, expectedWarning] as const]),
        ...readers.map(([name, verdicts]) => [name, verdicts.get(workload) ?? '', expected] as const),
      ];
      return answers.flatMap(([reader, answer, right]) =>
        answer === right ? [] : [`${reader}: ${workload}: ${String(answer)}, webhooks: ${String(right)}`],
      );
    });
    assert.deepEqual(differences, [], JSON.stringify(given.settings));
  }
  for (const name of ['PodSecurity', 'SCC', 'deniedNow', 'wouldBeDenied', 'restart', 'excepted', 'warned']) {
    assert.ok((counts[name] ?? 0) > 0, `${name}: ${JSON.stringify(counts)}`);
  }
});
