/**
 * Computes the report data, which contains the results of the rollout, SCC and exemption commands for the same state,
 * and the commands that fix workloads.
 */
import { CONFIGURATION_NAME } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { fixPod, podSecurityViolations } from '../../config/fix.ts';
import { manifestObjects } from '../../config/objects.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import { diff } from '../../kube/json-patch.ts';
import { hasFinished, podTemplatePath } from '../../kube/pod.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { finishSteps } from '../../kube/steps.ts';
import { compareBytes, sortedSet, shellQuote } from '../../kube/text.ts';
import { type Namespace, isObject, withValueAt } from '../../kube/types.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { KUBE_SYSTEM } from '../../kube/well-known.ts';
import { resolvePolicies } from '../../policy/psa/index.ts';
import { checkFix, type Level } from '../../policy/pss/index.ts';
import { countNamespaces, type PlannedNamespace, type ViolatingWorkload } from '../../policy/rollout/index.ts';
import { type AdmissionPlan, listDenials } from '../../policy/scc/index.ts';
import { readExemptionUses } from '../../views/exemptions.ts';
import { printGrantSource, sccGrants } from '../../views/scc-grants.ts';
import { listPodCreators } from '../../views/workloads.ts';
import {
  type DeniedWorkload,
  REPORT_API_VERSION,
  type ReportData,
  type ReportNamespace,
  type ReportScc,
  type ReportWorkload,
  type ReportPatch,
} from '../../web/report-data.ts';
import { type Io, VERSION } from '../command.ts';
import { listExemptions } from '../inventory/exemptions.ts';
import { listNamespaces } from '../inventory/inventory.ts';
import type { RolloutFacts } from '../inventory/rollout.ts';
import { planSccs } from '../inventory/scc-input.ts';
import { mapNamespaces, referenceName } from '../output/print.ts';
import { countEvaluated, evaluatePolicy, findNewerVersions, planNamespaces } from './namespaces.ts';
import { describeInterface, describeStatus, rolloutStatus, rolloutSteps } from './rollout-status.ts';

interface ReportInput {
  readonly facts: RolloutFacts;
  readonly date: Date;
  /** Address of the API server, or a description of the manifests. */
  readonly source: string;
  /** Files and folders of the manifests. Absent for a cluster. */
  readonly files?: readonly string[];
  /** Context in the kubeconfig. Absent for manifests and for the service account of a pod. */
  readonly context?: string | undefined;
  /** Installation namespace, which contains the Leases of the replicas. */
  readonly namespace: string;
  /** True if the settings come from a file. */
  readonly isFromFile: boolean;
}

/** Computes the report. Prints progress on a terminal. Rejects if the signal is aborted. */
export async function computeReport(input: ReportInput, io: Pick<Io, 'stderr' | 'signal'>): Promise<ReportData> {
  const { facts, date, source, files, context, namespace, isFromFile } = input;
  const { store, state, podSecurity, management, settingsSource, isInstalled } = facts;
  const planned = await planNamespaces(facts, io);
  const summary = countNamespaces(planned);
  const evaluated = countEvaluated(planned, facts);
  const objects = listNamespaces(store);
  const denied = new Map(
    await mapNamespaces(objects, (namespace) => [objectName(namespace), listDenied(namespace, facts)] as const, {
      verb: 'Evaluating all levels of',
      io,
    }),
  );
  const hasSccs = store.list('SecurityContextConstraints').length > 0;
  const sccPlans = await mapNamespaces(
    hasSccs ? objects : [],
    (namespace) => planSccs(namespace, facts, facts.management.scc),
    {
      verb: 'Planning SCCs of',
      io,
    },
  );
  const uses = readExemptionUses(store.list('Lease', namespace));
  const namespaces = planned.map((namespace): ReportNamespace => ({
    ...namespace,
    labels: store.get('Namespace', namespace.name)?.metadata?.labels ?? {},
    workloads: withPatches(namespace, facts),
    denied: denied.get(namespace.name),
  }));
  const current = rolloutStatus(state, evaluated);
  return {
    apiVersion: REPORT_API_VERSION,
    kind: 'Report',
    cluster: { uid: store.get('Namespace', KUBE_SYSTEM)?.metadata?.uid, context, name: facts.clusterName },
    source,
    time: formatTimestamp(date.getTime()),
    version: VERSION,
    settings: settingsSource,
    spec: facts.spec,
    unread: facts.unread,
    assumptions: [...facts.assumptions, ...findNewerVersions(planned, store)],
    summary,
    rollout: {
      isInstalled,
      phase: state.phase,
      default: state.default,
      steps: rolloutSteps(state, evaluated),
      status: describeStatus(state, current),
      interface: describeInterface(state),
      ...current,
    },
    namespaces,
    fixes: Object.fromEntries(sortedSet(namespaces.flatMap(violatedChecks)).map((check) => [check, checkFix(check)])),
    sccs: listSccs(facts, sccPlans),
    sccDenials: sccPlans.flatMap((plan) => listDenials(plan, files)),
    unreviewedPods: store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.unreviewedPods ?? [],
    exemptions: listExemptions({
      store,
      podSecurity,
      scc: management.scc,
      namespace,
      isFromFile,
      hasWebhooks: isInstalled && !facts.policies,
      uses,
    }),
    exceptions: facts.listExceptions(),
    uses: uses && { since: uses.since, replicas: uses.replicas },
  };
}

/** Returns the workloads that each level denies, or `undefined` if the evaluation fails. */
function listDenied(namespace: Namespace, facts: RolloutFacts): ReportNamespace['denied'] {
  const { version } = resolvePolicies(namespace.metadata?.labels, facts.podSecurity.defaults).enforce;
  const evaluate = (level: Level): readonly DeniedWorkload[] | undefined => {
    const { error, workloads } = evaluatePolicy(namespace, facts, { level, version });
    if (error !== undefined) return undefined;
    return workloads.map(({ kind, name, violations }) => {
      return { kind, name, checks: sortedSet(violations.map(({ check }) => check)) };
    });
  };
  const restricted = evaluate('restricted');
  // If the restricted level admits all workloads, the baseline level does too.
  const baseline = restricted?.length === 0 ? [] : evaluate('baseline');
  return restricted === undefined || baseline === undefined ? undefined : { baseline, restricted };
}

function withPatches({ name, workloads }: PlannedNamespace, { store, customSources }: RolloutFacts) {
  if (workloads.length === 0) return workloads;
  const sources = Map.groupBy(finishSteps(listPodCreators(store, name, customSources)), (source) =>
    [source.kind, objectName(source.object)].join('/'),
  );
  return workloads.map((workload): ReportWorkload => {
    const [source] = workload.verdict === 'restart' ? [] : (sources.get(`${workload.kind}/${workload.name}`) ?? []);
    return { ...workload, patch: source && findPatch(source, workload, store) };
  });
}

function violatedChecks({ denied, workloads }: ReportNamespace): readonly string[] {
  const checks = denied?.restricted.flatMap((workload) => workload.checks) ?? [];
  return [...checks, ...workloads.flatMap(({ violations }) => violations.map(({ check }) => check))];
}

/**
 * Plans SCC admission. If a namespace has no UID ranges, evaluates it with example ranges, because the allocator will
 * add ranges.
 */
function listSccs({ store }: RolloutFacts, plans: readonly AdmissionPlan[]): readonly ReportScc[] {
  const workloads = Map.groupBy(
    plans.flatMap((plan) => plan.workloads),
    ({ result }) => (result.outcome === 'admitted' ? result.scc : ''),
  );
  const running = store.list('Pod').filter((pod) => !hasFinished(pod));
  const pods = Map.groupBy(running, ({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] ?? '');
  return store
    .list('SecurityContextConstraints')
    .map((scc) => ({
      name: objectName(scc),
      priority: scc.priority ?? 0,
      pods: pods.get(objectName(scc))?.length ?? 0,
      workloads: workloads.get(objectName(scc))?.length ?? 0,
      grants: sccGrants(store, scc).map(({ subject, namespace, through }) => ({
        subject: `${subject.kind} ${subject.namespace === undefined ? '' : `${subject.namespace}/`}${subject.name}`,
        namespace,
        through: printGrantSource(through),
      })),
    }))
    .sort((a, b) => b.pods + b.workloads - a.pods - a.workloads || compareBytes(a.name, b.name));
}

const START = { line: 1, column: 1 };

/**
 * Returns the patch of a denied workload, with the conditions to verify. Returns `undefined` if the API server does not
 * permit changes to its pods, or if the checks offer no fix.
 */
function findPatch(
  source: PodCreator,
  { level, version, violations }: ViolatingWorkload,
  { emulationVersion }: Store,
): ReportPatch | undefined {
  const { kind, object: value } = source;
  const path = source.template ?? podTemplatePath(RESOURCES[source.kind].group, kind);
  const isComposed = source.template !== undefined && source.sourceField !== undefined;
  if (path === undefined || isComposed || kind === 'Pod' || kind === 'Job') return undefined;
  const place = { file: '', index: 0, line: 1, source: { start: 0, end: 0 }, repetitions: [] };
  const [object] = manifestObjects({ ...place, value, locate: () => START }).objects;
  if (object === undefined) return undefined;
  // Fixes only the violations of the workload, because admission defaults fix all other violations of the template.
  const checks = new Set(violations.map(({ check }) => check));
  const { pod, changes } = fixPod({ object, path }, (violation) =>
    podSecurityViolations(violation, { level, version, emulationVersion }).filter(({ check }) => checks.has(check)),
  );
  const ops = diff(withoutEmpty(value), withoutEmpty(withValueAt(value, path, pod)));
  if (ops.length === 0) return undefined;
  const target = [referenceName(value), '-n', value.metadata?.namespace ?? ''].map(shellQuote).join(' ');
  return {
    command: `kubectl patch ${target} --type=json -p ${shellQuote(JSON.stringify(ops))}`,
    notes: [...new Set(changes.flatMap(({ note }) => note ?? []))],
  };
}

/** Removes empty objects. The API server adds them only to built-in kinds, so patches must not depend on them. */
function withoutEmpty(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, member: unknown) =>
    isObject(member) && Object.keys(member).length === 0 ? undefined : member,
  );
}
