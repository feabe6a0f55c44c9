/**
 * Tests that all readers of the policies agree with the webhooks about random workloads: the pod of each workload is
 * reviewed as its controller would create it, and compared with the results of the commands and of the leader.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { activeExceptions } from '../../src/cluster/exceptions.ts';
import { createPooling, project } from '../../src/cluster/projection.ts';
import { namespacePolicies } from '../../src/cluster/rollout.ts';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { settingsFromObject } from '../../src/config/configuration.ts';
import type { Settings } from '../../src/config/settings.ts';
import { evaluateFromStore } from '../../src/controllers/readiness-evaluator.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { completePod, createPod } from '../../src/kube/controller-pod.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { hasFinished } from '../../src/kube/pod.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import { finishSteps } from '../../src/kube/steps.ts';
import type { KubeObject, PortcullisConfiguration } from '../../src/kube/types.ts';
import type { NamespaceEvaluation } from '../../src/policy/rollout/evaluation.ts';
import { managementSettings } from '../../src/policy/rollout/label-sync.ts';
import { buildReport, REPORT_APIS } from '../../src/policy/rollout/reports.ts';
import type { WebhookContext } from '../../src/server/webhook.ts';
import { type Workload, type World, world } from '../support/agreement/world.ts';
import { runProgram } from '../support/memory-io.ts';
import { createTestWebhooks } from '../support/scc-webhooks.ts';

/** Number of worlds of 40 workloads. 125 worlds have 5,000 workloads. */
const WORLDS = Number(process.env['PORTCULLIS_WORLDS'] ?? 3);
const ALICE = { username: 'alice', groups: ['system:authenticated'] };

/** What a reader states about the pods of a workload. */
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
      kind === 'Pod' ? completePod(object, (name) => store.get('ServiceAccount', name, namespace)) : object;
    const stored = project(kind, { ...written });
    if (stored) store.put(kind, pool(kind, stored));
  }
  return store;
}

/** Returns the policies that deny the pod of each workload, as the webhooks decide. */
async function review(given: World, settings: Settings, store: WritableStore): Promise<readonly Answer[]> {
  const webhooks = createTestWebhooks(store, {
    settings: settings.scc,
    podSecurity: settings.podSecurity,
    podDefaults: settings.defaults,
  });
  store.markSynced();
  const context: WebhookContext = { store, now: () => performance.now(), deadlineMs: performance.now() + 1e9 };
  const send = async (path: string, request: AdmissionRequest): Promise<Decision> => {
    const webhook = webhooks.find((candidate) => candidate.path === path);
    assert.ok(webhook, path);
    return await webhook.decide(request, context);
  };
  const answers = given.workloads.map(async (workload): Promise<Answer> => {
    const { namespace = '' } = workload.object.metadata ?? {};
    const findAccount = (name: string) => store.get('ServiceAccount', name, namespace);
    const created = createPod(workload, { namespace, creator: ALICE, findAccount });
    assert.ok(created);
    const kind = { group: '', version: 'v1', kind: 'Pod' };
    const request = {
      ...{ uid: 'u', operation: 'CREATE' as const, kind, namespace, userInfo: created.requester },
      resource: { group: '', version: 'v1', resource: RESOURCES.Pod.resource },
    };
    let object: unknown = created.pod;
    const denials: string[] = [];
    for (const path of ['/defaults/pods', '/scc/mutate', '/scc/validate', '/psa/validate']) {
      const decision = await send(path, { ...request, object });
      if (!decision.allowed) denials.push(path.startsWith('/scc') ? 'SCC' : 'PodSecurity');
      else if (decision.object) object = decision.object;
    }
    return { workload: workloadName(workload), policies: [...new Set(denials)].join(' ') };
  });
  return await Promise.all(answers);
}

async function runOn(given: World, ...args: readonly string[]): Promise<unknown> {
  const objects = [configuration(given.settings), ...allObjects(given)];
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
  const { stdout, stderr } = await runProgram([...args, '-o', 'json'], { stdin });
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout);
}

/** Returns the answers of `explain`. */
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
  readonly verdict: string;
  readonly workloads: readonly Verdict[];
}[];

function listVerdicts(namespaces: Namespaces): ReadonlyMap<string, string> {
  return new Map(
    namespaces.flatMap(({ name, workloads }) =>
      workloads.map((one) => [`${name} ${one.kind}/${one.name}`, one.verdict] as const),
    ),
  );
}

/** Returns the evaluations of the leader, from the projections that its store contains. */
function evaluate(settings: Settings, store: WritableStore): readonly NamespaceEvaluation[] {
  const { podSecurity, defaults } = settings;
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
  return new Map(
    reports.flatMap(({ metadata, results }) =>
      results.map(({ resources, properties }) => {
        const [subject] = resources ?? [];
        return [`${metadata?.namespace} ${subject?.kind}/${subject?.name}`, properties?.['verdict'] ?? ''] as const;
      }),
    ),
  );
}

/** Returns the workloads that `check` denies. It evaluates neither exemptions nor pod defaults. */
async function check(given: World, settings: Settings): Promise<ReadonlySet<string> | undefined> {
  if (settings.defaults.mode !== 'off') return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-agreement-'));
  const file = join(folder, 'configuration.json');
  await writeFile(file, JSON.stringify(configuration(given.settings)));
  const { level } = settings.podSecurity.defaults.enforce;
  const { objects } = (await runOn(given, 'check', '-f', '-', '--config', file, '--level', level)) as {
    readonly objects: readonly (Verdict & { readonly namespace: string; readonly findings: readonly object[] })[];
  };
  await rm(folder, { recursive: true });
  const denied = objects.filter(({ findings }) =>
    findings.some((finding) => 'mode' in finding && finding.mode === 'enforce'),
  );
  return new Set(denied.map(({ namespace, kind, name }) => `${namespace} ${kind}/${name}`));
}

test('explain, rollout plan, report and the leader agree with the webhooks about the pods of workloads', async () => {
  const counts = { workloads: 0, denied: 0 };
  for (const given of fc.sample(world, { numRuns: WORLDS, seed: 20_261_129 })) {
    const settings = readSettings(given);
    const store = fillStore(given);
    const expected = await review(given, settings, store);
    const running = new Set(
      given.workloads.filter(({ object }) => !hasFinished(object)).map((workload) => workloadName(workload)),
    );
    const explained = new Map((await explain(given)).map(({ workload, policies }) => [workload, policies]));
    const [plan, report] = (await Promise.all([
      runOn(given, 'rollout', 'plan', '-f', '-'),
      runOn(given, 'report', '-f', '-'),
    ])) as { readonly namespaces: Namespaces }[];
    const evaluations = evaluate(settings, store);
    const checked = await check(given, settings);
    const exempt = new Set(
      given.workloads.filter((workload) => JSON.stringify(workload).includes('"kata"')).map(workloadName),
    );
    const readers: readonly (readonly [name: string, verdicts: ReadonlyMap<string, string>])[] = [
      ['leader', listVerdicts(evaluations)],
      ['PolicyReport', listReported(evaluations)],
      ['rollout plan', listVerdicts(plan?.namespaces ?? [])],
      ['report', listVerdicts(report?.namespaces ?? [])],
    ];
    const differences = expected.flatMap(({ workload, policies }) => {
      counts.workloads++;
      if (policies !== '') counts.denied++;
      const isDenied = policies.includes('PodSecurity') && running.has(workload);
      const isFound = checked === undefined || exempt.has(workload) || checked.has(workload) === (policies !== '');
      return [
        ...(isFound
          ? []
          : [`check: ${workload}: ${checked.has(workload) ? 'denied' : 'passed'}, webhooks: ${policies}`]),
        ...(explained.get(workload) === (running.has(workload) ? policies : '')
          ? []
          : [`explain: ${workload}: ${String(explained.get(workload))}, not ${policies}`]),
        ...readers.flatMap(([name, verdicts]) => {
          const verdict = verdicts.get(workload);
          return (verdict === 'deniedNow') === isDenied
            ? []
            : [`${name}: ${workload}: ${String(verdict)}, webhooks: ${policies}`];
        }),
      ];
    });
    assert.deepEqual(differences, []);
  }
  assert.ok(counts.denied > counts.workloads / 4 && counts.denied < counts.workloads, JSON.stringify(counts));
});
