/**
 * `node test/run.ts charts DIRECTORY [--openshift=KUBECONFIG] [--record] [NAME...]`: renders the charts in a directory.
 * For each workload, it compares the verdicts of `check`, `rollout plan`, `scc plan` and a cluster with two replicas.
 * Any difference fails the run.
 *
 * Each folder in DIRECTORY is a chart with its dependencies. The file `NAME.yaml` next to the folder `NAME` contains
 * values that the chart requires. Without KUBEBUILDER_ASSETS, the cluster is the development cluster. --openshift also
 * compares the cluster with an API server of OpenShift, see `openshift.ts`. --record writes results.json.
 */
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import type { JsonObject } from '../../src/kube/types.ts';
import { CONTROLLER, PLAIN } from '../full-cluster/workloads.ts';
import type { Outcome } from '../parts.ts';
import { responseObject } from '../support/answers.ts';
import { createSystem, startControlPlane, type ControlPlane } from '../support/control-plane/index.ts';
import { apply, create, remove } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { findInputs, findWorkloads, readCharts, render, type Chart, type Workload } from './chart.ts';
import { connectOpenShift, copyNamespace, findOpenShiftDifferences, type OpenShift } from './openshift.ts';
import { readResults, writeResults, type ChartResult, type LevelResult, type SccResult } from './results.ts';
import {
  CREATOR_RIGHTS,
  runCheck,
  runRolloutPlan,
  runSccPlan,
  toText,
  tryPods,
  type FailedChecks,
  type SccAdvice,
  type Verdicts,
} from './verdicts.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const SCC = 'portcullis.dev/scc';

/** The labels of the namespaces in which each chart is tested. */
const SETTINGS = {
  baseline: { [ENFORCE]: 'baseline' },
  restricted: { [ENFORCE]: 'restricted' },
  scc: { [ENFORCE]: 'privileged', [SCC]: 'enforce' },
  both: { [ENFORCE]: 'restricted', [SCC]: 'enforce' },
} as const;
type Setting = keyof typeof SETTINGS;
const NAMES = Object.keys(SETTINGS) as readonly Setting[];

const WAIT_MS = 60_000;

/** A chart rendered for a namespace. */
interface Rendered {
  readonly namespace: string;
  readonly workloads: readonly Workload[];
  /** The objects that were created from the chart. */
  readonly inputs: readonly JsonObject[];
  /** Standard input of the commands, which contains the namespace and the objects of the chart. */
  readonly stdin: string;
}

function toNamespace({ name }: Chart, setting: Setting) {
  const metadata = { name: `${name}-${setting}`, labels: SETTINGS[setting] };
  return { apiVersion: 'v1', kind: 'Namespace', metadata } as const;
}

async function prepare(plane: ControlPlane, chart: Chart, setting: Setting, kubeVersion: string): Promise<Rendered> {
  const home = toNamespace(chart, setting);
  const namespace = home.metadata.name;
  const objects = render(chart, { namespace, kubeVersion, hasSccs: SCC in SETTINGS[setting] });
  const inputs = findInputs(objects, namespace);
  await apply(plane.admin, inputs);
  const others = objects.filter(({ kind }) => kind !== 'Namespace' && kind !== 'CustomResourceDefinition');
  return { namespace, workloads: findWorkloads(objects, namespace), inputs, stdin: toText([home, ...others]) };
}

/** Waits until the replicas enforce admission in a namespace and have observed the grants. */
async function untilEnforced({ admin }: ControlPlane, namespace: string, setting: Setting): Promise<void> {
  const privileged = { containers: PLAIN['containers'] ?? [], hostPID: true, securityContext: { runAsUser: 0 } };
  await eventually(async () => {
    const send = (spec: JsonObject) =>
      admin.send(
        'POST',
        `/api/v1/namespaces/${namespace}/pods?dryRun=All`,
        { metadata: { name: 'p' }, spec },
        CONTROLLER,
      );
    const denied = await send(privileged);
    assert.equal(denied.status, 403, denied.text);
    assert.match(denied.text, /violates PodSecurity|unable to validate against any security context constraint/);
    if (!(SCC in SETTINGS[setting])) return;
    const admitted = await send(PLAIN);
    assert.equal(admitted.status, 201, admitted.text);
  }, WAIT_MS);
}

/** The verdicts for a rendered chart, and the input on which they depend. */
interface Comparison {
  readonly cluster: Verdicts;
  readonly checks: FailedChecks;
  readonly advice: ReadonlyMap<string, SccAdvice>;
  readonly differences: readonly string[];
}

const CHECK_OPTIONS: Readonly<Record<Setting, readonly string[]>> = {
  baseline: [],
  restricted: [],
  scc: ['--platform=openshift'],
  both: ['--platform=openshift'],
};

/** Time limit for the replicas to observe the grants of a chart. */
const GRANTS_MS = 10_000;

async function compare(
  { admin }: ControlPlane,
  openshift: OpenShift | undefined,
  rendered: Rendered,
  setting: Setting,
): Promise<Comparison> {
  const { namespace, workloads, stdin } = rendered;
  const { verdicts: check, checks } = await runCheck(stdin, namespace, CHECK_OPTIONS[setting]);
  const plan = await runRolloutPlan(stdin, namespace, workloads);
  const { verdicts: sccPlan, advice } = await runSccPlan(stdin, namespace);
  const deadline = performance.now() + GRANTS_MS;
  for (;;) {
    const cluster = await tryPods(admin, namespace, workloads);
    const differences = [...findDifferences(rendered, setting, { cluster, check, plan, sccPlan })];
    if (openshift !== undefined) {
      const others = await tryPods(openshift.admin, namespace, workloads);
      differences.push(...findOpenShiftDifferences(namespace, cluster, others));
    }
    if (differences.length === 0 || performance.now() > deadline) return { cluster, checks, advice, differences };
  }
}

interface AllVerdicts {
  readonly cluster: Verdicts;
  readonly check: Verdicts;
  readonly plan: Verdicts;
  readonly sccPlan: Verdicts;
}

/** API servers copy the AppArmor annotations of a pod to its fields, so the message lists both. */
const APPARMOR = /forbidden AppArmor profiles? \([^)]*\)/;

function findDifferences(
  { namespace, workloads }: Rendered,
  setting: Setting,
  { cluster, check, plan, sccPlan }: AllVerdicts,
): readonly string[] {
  const isScc = SCC in SETTINGS[setting];
  const level = SETTINGS[setting][ENFORCE];
  return workloads.flatMap(({ id }) => {
    const [real, checked, planned, scc] = [cluster, check, plan, sccPlan].map((verdicts) => verdicts.get(id));
    const report = (source: string, text = 'does not list the workload'): readonly string[] => [
      `${namespace}: ${id}: ${source}: ${text}\n  cluster: ${real?.text ?? ''}`,
    ];
    if (!real || !checked || !planned || !scc) return report('a command');
    const isByScc = real.text.includes('unable to validate against any security context constraint');
    const violation = `violates PodSecurity "${level}:latest": ${planned.text}`.replace(APPARMOR, 'AppArmor');
    return [
      ...(checked.isAllowed === real.isAllowed ? [] : report('check', checked.text)),
      ...(isByScc || planned.isAllowed === real.isAllowed ? [] : report('rollout plan', planned.text)),
      ...(planned.isAllowed || isByScc || real.text.replace(APPARMOR, 'AppArmor').includes(violation)
        ? []
        : report('rollout plan', violation)),
      ...(isScc || checked.text === planned.text ? [] : report('check', checked.text)),
      ...(isScc && scc.isAllowed === isByScc ? report('scc plan', scc.text) : []),
      ...(isScc && real.isAllowed && scc.text !== real.text ? report('scc plan', scc.text) : []),
    ];
  });
}

function count(values: Iterable<string>): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const value of [...values].sort()) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

function countAllowed(verdicts: Verdicts): number {
  return verdicts
    .values()
    .filter(({ isAllowed }) => isAllowed)
    .toArray().length;
}

function levelResult({ cluster, checks }: Comparison): LevelResult {
  return {
    allowed: countAllowed(cluster),
    checks: count(cluster.keys().flatMap((id) => new Set(checks.get(id)))),
  };
}

/** Returns the field at a path without its container, such as `hostPort` for `spec.containers[0].ports[1].hostPort`. */
function fieldName(path: string): string {
  if (path.startsWith('spec.volumes[')) return 'volumes';
  return path.replace(/^.*securityContext\.|^.*\.(?=hostPort$)|^spec\./, '');
}

function sccResult({ cluster, advice }: Comparison): SccResult {
  const entries = [...cluster];
  const denied = entries.filter(([, { isAllowed }]) => !isAllowed).flatMap(([id]) => advice.get(id) ?? []);
  const closest = Object.groupBy(denied, ({ scc }) => scc);
  const fieldsOf = (these: readonly SccAdvice[]): Readonly<Record<string, number>> =>
    count(these.flatMap(({ fields }) => [...new Set(fields.map(fieldName))]));
  return {
    sccs: count(entries.filter(([, { isAllowed }]) => isAllowed).map(([, { text }]) => text)),
    closest: Object.fromEntries(Object.entries(closest).map(([scc, these = []]) => [scc, fieldsOf(these)])),
    grants: [...new Set(denied.flatMap(({ grantable }) => grantable ?? []))].sort().join(' '),
  };
}

/** Tests a chart in one namespace for each of the label sets. */
async function tryChart(plane: ControlPlane, openshift: OpenShift | undefined, chart: Chart, kubeVersion: string) {
  const comparisons: Comparison[] = [];
  for (const setting of NAMES) {
    const rendered = await prepare(plane, chart, setting, kubeVersion);
    await untilEnforced(plane, rendered.namespace, setting);
    const peer = SCC in SETTINGS[setting] ? openshift : undefined;
    if (peer !== undefined) await copyNamespace(plane.admin, peer.admin, rendered.namespace, rendered.inputs);
    comparisons.push(await compare(plane, peer, rendered, setting));
    // The SCCs of the chart would also admit pods of other charts, and they contain the namespace of the chart.
    for (const { admin } of [plane, ...(peer ? [peer] : [])]) {
      for (const object of rendered.inputs) await remove(admin, object);
    }
  }
  const [baseline, restricted, scc] = comparisons;
  assert.ok(baseline && restricted && scc);
  const columns = comparisons.map(({ cluster }, index) => `${NAMES[index] ?? ''} ${countAllowed(cluster)}`);
  process.stdout.write(`${chart.name} ${chart.version}, ${baseline.cluster.size} workloads: ${columns.join(', ')}\n`);
  const result: ChartResult = {
    version: chart.version,
    home: chart.home,
    values: Object.fromEntries(chart.values?.settings ?? []),
    workloads: baseline.cluster.size,
    baseline: levelResult(baseline),
    restricted: levelResult(restricted),
    scc: sccResult(scc),
    ...(openshift ? { openshift: `${openshift.version}, ${today()}` } : {}),
  };
  return { result, differences: comparisons.flatMap((one) => one.differences) };
}

async function run(
  charts: readonly Chart[],
  openshift: OpenShift | undefined,
  isRecorded: boolean,
): Promise<readonly string[]> {
  const plane = await startControlPlane();
  const system = await createSystem(plane);
  try {
    await system.install();
    await system.add(2);
    await apply(plane.admin, CREATOR_RIGHTS);
    for (const namespace of charts.flatMap((chart) => NAMES.map((setting) => toNamespace(chart, setting)))) {
      const answer = await create(plane.admin, namespace);
      assert.equal(answer.status, 201, answer.text);
    }
    const version = String(responseObject(await plane.admin.send('GET', '/version'))['gitVersion']);
    const differences: string[] = [];
    for (const chart of charts) {
      const tried = await tryChart(plane, openshift, chart, version);
      differences.push(...tried.differences);
      if (isRecorded && tried.differences.length === 0) record(plane.title, { [chart.name]: tried.result });
    }
    return differences;
  } finally {
    openshift?.admin.close();
    await system.stop();
    await plane.stop();
  }
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function record(cluster: string, results: Readonly<Record<string, ChartResult>>): void {
  const all = Object.entries({ ...readResults().charts, ...results }).sort(([a], [b]) => a.localeCompare(b, 'en'));
  writeResults({ cluster, date: today(), charts: Object.fromEntries(all) });
}

export async function main(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { openshift: { type: 'string' }, record: { type: 'boolean', default: false } },
  });
  const [folder, ...names] = positionals;
  if (folder === undefined) throw new Error('node test/run.ts charts DIRECTORY: specify a directory with charts');
  const charts = readCharts(folder).filter(({ name }) => names.length === 0 || names.includes(name));
  if (charts.length === 0) throw new Error(`${folder} has no folder with a Chart.yaml`);
  const openshift = values.openshift === undefined ? undefined : await connectOpenShift(values.openshift);
  const differences = await run(charts, openshift, values.record);
  for (const difference of differences) process.stdout.write(`${difference}\n`);
  process.stdout.write(`${charts.length} charts, ${differences.length} differences\n`);
  return { success: differences.length === 0 };
}
