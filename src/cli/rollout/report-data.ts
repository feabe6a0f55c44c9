/** Computes the data of a report: the results of the commands about the rollout, SCCs and exemptions for one state. */
import { listExemptions, readExemptionUses } from '../../cluster/exemptions.ts';
import { printGrantSource, sccGrants } from '../../cluster/scc-grants.ts';
import type { Store } from '../../cluster/store.ts';
import { objectName } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { compareBytes, printCount, quote, shellQuote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { CONFIGURATION_NAME } from '../../kube/well-known.ts';
import type { Level } from '../../policy/pss/policy.ts';
import { countNamespaces, type NamespaceCounts } from '../../policy/rollout/plan.ts';
import { isEnforcing, rolloutBlockers, type RolloutState } from '../../policy/rollout/state.ts';
import { describeClosest, grantCommand } from '../../policy/scc/advice/explain.ts';
import {
  grantableScc,
  planNamespace,
  type PlannedNamespace,
  type PlannedWorkload,
} from '../../policy/scc/advice/plan.ts';
import { blockAnnotations } from '../../policy/uid-range/allocation.ts';
import { DEFAULT_RANGES } from '../../policy/uid-range/ranges.ts';
import { formatTimestamp } from '../../kube/units.ts';
import type { ReportData, ReportScc, RolloutStep, SccDenial, SccFix } from '../../web/report-data.ts';
import { VERSION, type Io } from '../command.ts';
import { listNamespaces } from '../inventory/inventory.ts';
import { mapNamespaces } from '../output/print.ts';
import type { RolloutFacts } from './facts.ts';
import { evaluatePolicy, planNamespaces } from './namespaces.ts';
import { describeState } from './state-rows.ts';
import { planInput } from '../scc/input.ts';

interface ReportInput {
  readonly facts: RolloutFacts;
  readonly date: Date;
  /** The address of the API server, or the manifests. */
  readonly source: string;
  /** The namespace of the installation, with the Leases of the replicas. */
  readonly namespace: string;
  /** True if the settings come from a file. */
  readonly isFromFile: boolean;
}

/** Computes the report. Prints the progress to a terminal. Rejects if the signal is aborted. */
export async function computeReport(input: ReportInput, io: Io): Promise<ReportData> {
  const { facts, date, source, namespace, isFromFile } = input;
  const { store, state, podSecurity, management, settingsSource, isInstalled } = facts;
  const planned = await planNamespaces(facts, io);
  const summary = countNamespaces(planned);
  const objects = listNamespaces(store);
  const denied = new Map(
    await mapNamespaces(objects, (one) => [objectName(one), countDenied(one, facts)] as const, {
      verb: 'Evaluating all levels of',
      io,
    }),
  );
  const hasSccs = store.list('SecurityContextConstraints').length > 0;
  const sccPlans = await mapNamespaces(hasSccs ? objects : [], (one) => planSccs(one, facts), {
    verb: 'Planning SCCs of',
    io,
  });
  const uses = readExemptionUses(store.list('Lease', namespace));
  return {
    source,
    time: formatTimestamp(date.getTime()),
    version: VERSION,
    settings: settingsSource,
    assumptions: facts.assumptions,
    summary,
    rollout: {
      isInstalled,
      steps: rolloutSteps(state, summary),
      facts: describeState(state),
      ...rolloutBlockers(state, summary),
    },
    namespaces: planned.map((one) => ({ ...one, denied: denied.get(one.name) })),
    sccs: listSccs(facts, sccPlans),
    sccDenials: sccPlans.flatMap((plan) => listDenials(plan, facts)),
    unreviewedPods: store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.unreviewedPods ?? [],
    exemptions: listExemptions({ store, podSecurity, scc: management.scc, namespace, isFromFile, uses }),
    uses: uses && { since: uses.since, replicas: uses.replicas },
  };
}

/** Returns the number of workloads that each level denies; `undefined` if the evaluation fails. */
function countDenied(namespace: Namespace, facts: RolloutFacts): Readonly<Record<Level, number>> | undefined {
  const evaluate = (level: Level): number | undefined => {
    const { error, workloads } = evaluatePolicy(namespace, facts, { level, version: 'latest' });
    return error === undefined ? workloads.length : undefined;
  };
  const restricted = evaluate('restricted');
  // A workload that restricted admits is admitted by baseline, too.
  const baseline = restricted === 0 ? 0 : evaluate('baseline');
  return restricted === undefined || baseline === undefined ? undefined : { privileged: 0, baseline, restricted };
}

/** Plans SCC admission. A namespace without UID ranges is planned with those of another: the allocator adds them. */
function planSccs(namespace: Namespace, facts: RolloutFacts): PlannedNamespace {
  const ranges = blockAnnotations(0, namespace, DEFAULT_RANGES);
  const metadata = { ...namespace.metadata, annotations: { ...namespace.metadata?.annotations, ...ranges } };
  return planNamespace(planInput({ ...namespace, metadata }, facts, facts.management.scc));
}

function listSccs({ store }: RolloutFacts, plans: readonly PlannedNamespace[]): readonly ReportScc[] {
  const workloads = Map.groupBy(
    plans.flatMap((plan) => plan.workloads),
    ({ result }) => (result.outcome === 'admitted' ? result.scc : ''),
  );
  const pods = Map.groupBy(store.list('Pod'), ({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] ?? '');
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

function listDenials(
  { name: namespace, mode, workloads }: PlannedNamespace,
  { store }: RolloutFacts,
): readonly SccDenial[] {
  return workloads.flatMap((workload) => {
    const { kind, name, result } = workload;
    if (mode === 'off' || result.outcome !== 'denied') return [];
    const fixes = listFixes(workload, namespace, store);
    return [{ namespace, kind, name, mode, reason: denialReason(workload), fixes }];
  });
}

/** A change of the workload comes first, then a custom SCC, and the grant of an existing SCC last. */
function listFixes(workload: PlannedWorkload, namespace: string, store: Store): readonly SccFix[] {
  const { kind, name, result, serviceAccount } = workload;
  if (result.outcome !== 'denied') return [];
  const { closest, suggestedScc } = result;
  const fields = closest?.disallowedFields.map(({ path }) => path).join(', ');
  const change = fields === undefined ? 'Change the workload.' : `Remove or change ${fields} of the pods.`;
  const grant = grantableScc(workload);
  const custom = ['portcullis', 'scc', 'create', name, `${kind.toLowerCase()}/${name}`, '-n', namespace];
  const isPrivileged = store.get('SecurityContextConstraints', grant ?? '')?.allowPrivilegedContainer === true;
  const extent = isPrivileged ? 'full control of their nodes' : `everything that SCC ${quote(grant ?? '')} allows`;
  return [
    { text: change },
    ...(suggestedScc
      ? [
          {
            text: 'Create a custom SCC for what the pods need, and grant it',
            command: custom.map(shellQuote).join(' '),
          },
        ]
      : []),
    ...(grant === undefined
      ? []
      : [
          {
            text: isPrivileged ? 'As a last resort, grant the SCC' : 'Grant the SCC',
            command: grantCommand(grant, namespace, serviceAccount),
            consequence: `This gives all pods of service account ${quote(serviceAccount ?? '')} ${extent}.`,
          },
        ]),
  ];
}

function denialReason({ result, denial }: PlannedWorkload): string {
  if (denial !== undefined || result.outcome !== 'denied') return denial ?? '';
  return describeClosest(result) ?? result.message;
}

/** Returns the steps of the rollout. The first step that is not done is the current one. */
function rolloutSteps(state: RolloutState, counts: NamespaceCounts): readonly RolloutStep[] {
  const { phase, decided, requested, unlabeled } = state;
  const isDecided = phase === 'Enforce' && decided === 'Restricted';
  const blocked = `${printCount(counts.workloads.wouldBeDenied.workloads, 'workload')} in ${printCount(counts.violating, 'namespace')}`;
  const steps: readonly (readonly [name: string, isDone: boolean, detail: string])[] = [
    [
      'Evaluate',
      phase !== 'Disabled' && counts.inconclusive === 0,
      phase === 'Disabled'
        ? 'phase Disabled'
        : counts.inconclusive === 0
          ? printCount(counts.namespaces, 'namespace')
          : `${counts.inconclusive} inconclusive`,
    ],
    ['Resolve', counts.violating === 0, counts.violating === 0 ? 'no violations' : blocked],
    ['Decide', isDecided, isDecided ? 'Restricted' : requested === 'Legacy' ? 'Legacy requested' : `phase ${phase}`],
    [
      'Label',
      isDecided && unlabeled.length === 0,
      unlabeled.length === 0 ? 'no label missing' : `${printCount(unlabeled.length, 'namespace')} without`,
    ],
    ['Enforce', isEnforcing(state), `default ${state.default}`],
  ];
  const current = steps.findIndex(([, isDone]) => !isDone);
  return steps.map(([name, isDone, detail], index) => {
    return { name, detail, state: isDone ? 'done' : index === current ? 'current' : 'waiting' };
  });
}
