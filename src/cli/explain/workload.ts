/** Explains whether the pods of a workload would be created, and if not, which policies deny them. */
import type { Store } from '../../cluster/store.ts';
import { podSecurityViolations } from '../../config/fix.ts';
import type { Settings } from '../../config/settings.ts';
import { findChanges } from '../../kube/pod-changes.ts';
import { hasFinished } from '../../kube/pod.ts';
import {
  type Namespace,
  type Pod,
  type PodLike,
  type ServiceAccount,
  type UserInfo,
  withValueAt,
} from '../../kube/types.ts';
import { decodePod, printFieldPath } from '../../policy/pod/index.ts';
import {
  completeTemplate,
  DEFAULT_LIMITS,
  parsePolicy,
  printEvaluatedAs,
  printPodSecurity,
  reviewPodSecurity,
  setsMode,
} from '../../policy/psa/index.ts';
import { evaluatePod, type Level, LEVELS } from '../../policy/pss/index.ts';
import { withWarnLevel } from '../../policy/rollout/index.ts';
import {
  describeFit,
  describeReason,
  explainPod,
  formatFix,
  hasAdvice,
  listFixes,
  NO_SCC,
  type PodDenial,
  type SccMode,
  sccMode,
  type SccSettings,
  workloadPod,
} from '../../policy/scc/index.ts';
import { effectivePodSecurity, getRolloutView } from '../../views/rollout.ts';
import { VERSION } from '../command.ts';
import { findNamespace } from '../inventory/inventory.ts';
import type { findExceptions } from '../inventory/rollout.ts';
import { sccInput } from '../inventory/scc-input.ts';
import type { Workload } from '../inventory/workloads.ts';
import { printReason } from '../output/findings.ts';
import { printable, printChanges, printTable, type Style } from '../output/print.ts';

interface ExplainContext extends ReturnType<typeof findExceptions> {
  readonly store: Store;
  readonly settings: Settings;
  /** Namespace of the installation. */
  readonly installation: string;
  /** Settings of SCC admission. Absent without a server. */
  readonly scc?: SccSettings | undefined;
  /** Creator of bare pods. */
  readonly creator: UserInfo;
  /** True if `--as` does not set the creator. API servers do not record who created existing pods. */
  readonly isCreatorAssumed: boolean;
  /** Files and folders from which the workloads were read. Empty if they were read from the cluster. */
  readonly files: readonly string[];
  /** Flags that select the cluster in commands. */
  readonly clusterFlags: readonly string[];
  findAccount(name: string, namespace: string): ServiceAccount | undefined;
}

/** A policy that denies a pod, and its message. */
interface Denial {
  readonly by: 'ServiceAccount' | 'SCC' | 'PodSecurity';
  readonly message: string;
}

export type Explanation = ReturnType<typeof explain>;

/**
 * Explains the admission decisions on the pods of a workload. Returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
export function explainWorkload(workload: Workload, context: ExplainContext): Explanation | undefined {
  const { store, scc, settings, creator } = context;
  const namespace = findNamespace(store, workload.namespace);
  const mode = scc && scc.mode !== 'off' ? sccMode(namespace, scc) : undefined;
  const pod = workloadPod(workload.source, {
    ...sccInput(store, scc ?? settings.scc),
    namespace,
    isReported: mode?.mode === 'report',
    creator,
    findAccount: (account) => context.findAccount(account, workload.namespace),
  });
  return pod && explain({ workload, namespace, pod, mode }, context);
}

interface Explained {
  readonly workload: Workload;
  readonly namespace: Namespace;
  readonly pod: NonNullable<ReturnType<typeof workloadPod>>;
  /** Absent without a server, or if SCC admission is off in the cluster. */
  readonly mode: ReturnType<typeof sccMode> | undefined;
}

function explain(explained: Explained, context: ExplainContext) {
  const { workload, pod, mode } = explained;
  const { source, name, namespace } = workload;
  const { input, serviceAccount } = pod;
  const isEnforced = mode?.mode === 'enforce';
  const named = {
    kind: source.kind,
    name,
    template: source.template && printFieldPath(source.template),
    serviceAccount,
    files: context.files,
    clusterFlags: context.clusterFlags,
  };
  const scc =
    mode === undefined || mode.mode === 'off' ? undefined : explainSccs(input, context.store, { ...named, namespace });
  const { warnings, ...podSecurity } = explainPodSecurity(explained, isEnforced ? scc?.object : undefined, context);
  const finished = source.template === undefined && hasFinished(source.object);
  const denials: readonly Denial[] = [
    ...(pod.denial === undefined ? [] : [{ by: 'ServiceAccount' as const, message: pod.denial }]),
    ...(isEnforced && scc?.data.message !== undefined ? [{ by: 'SCC' as const, message: scc.data.message }] : []),
    ...(podSecurity.message === undefined ? [] : [{ by: 'PodSecurity' as const, message: podSecurity.message }]),
  ];
  const data = {
    kind: source.kind,
    name,
    /** Path of the pod template in a custom resource. */
    template: source.template && printFieldPath(source.template),
    namespace,
    createdBy: describeCreator(input.userInfo, context),
    /** Absent if the pod specifies no service account. */
    serviceAccount,
    /** False if the workload creates pods but a policy denies them. */
    allowed: finished || denials.length === 0,
    denials: finished ? [] : denials,
    /** True for a finished Job or pod, which creates no more pods. */
    finished: finished || undefined,
    podSecurity,
    /** The decision of SCC admission. Absent if SCCs do not apply in the namespace. */
    scc: mode && { ...mode, ...scc?.data },
    /** The cause of the denial of `exec` and `attach` requests. Absent if ephemeral containers cause no denial. */
    connectDenial: explainConnect(explained),
    warnings: finished ? [] : [...(scc?.warnings ?? []), ...warnings],
  };
  return { data, print: (style: Style) => printExplanation(data, style) };
}

function describeCreator(user: UserInfo, { creator, isCreatorAssumed }: ExplainContext): string {
  if (user.username === undefined) return 'any authenticated user (set --as)';
  return user === creator && isCreatorAssumed
    ? `${user.username} (assumed: the user of the kubeconfig; set --as)`
    : user.username;
}

/**
 * Evaluates a live pod with its ephemeral containers, as reviews of `exec`, `attach` and updates do. Clients cannot
 * create a pod with ephemeral containers, so they are not part of the other decisions.
 */
function explainConnect({ workload: { source }, pod, mode }: Explained): ReturnType<typeof describeReason> | undefined {
  const { kind, template } = source;
  const containers =
    kind === 'Pod' && template === undefined ? (source.object as Pod).spec?.ephemeralContainers : undefined;
  if (mode?.mode !== 'enforce' || !containers?.length) return undefined;
  const object = withValueAt(pod.input.object, ['spec', 'ephemeralContainers'], containers);
  const { verdict } = explainPod({ ...pod.input, object });
  return verdict.outcome === 'denied' ? describeReason(verdict) : undefined;
}

type SccExplanation = ReturnType<typeof explainSccs>;

type Named = Parameters<typeof listFixes>[1] & { readonly namespace: string };

/** Evaluates all SCCs for a pod. */
function explainSccs(input: Parameters<typeof explainPod>[0], store: Store, workload: Named) {
  const { decision, verdict, sccs, next } = explainPod(input);
  const denial = verdict.outcome === 'denied' ? verdict : undefined;
  const { closest, grantable, suggestedScc, changing }: Partial<PodDenial> = denial ?? {};
  return {
    object: decision.allowed ? decision.object : undefined,
    // If there are fixes, they contain the advice of the warnings.
    warnings: denial && hasAdvice(denial) ? [] : (decision.warnings ?? []),
    data: {
      outcome: verdict.outcome,
      /** The SCC that admits the pod, and the next SCC that would also admit it. */
      chosen: verdict.outcome === 'admitted' ? verdict.scc : undefined,
      next,
      reason: decision.allowed ? decision.auditAnnotations['reason'] : undefined,
      closest: closest?.scc,
      grantable,
      suggestedScc,
      changing,
      /** The cause of a denial, and the ways to admit the pod, in order of preference. */
      cause: denial && describeReason(denial),
      fixes: denial && hasAdvice(denial) ? listFixes(denial, workload, workload.namespace) : undefined,
      /** The strictest level that the pod satisfies after its defaults are set. */
      level: decision.allowed ? strictestLevel(decision.object as PodLike, store) : undefined,
      subjectType: decision.facts?.subjectType,
      /** The message of a denial. */
      message: decision.allowed ? undefined : decision.status.message,
      /** All SCCs, with the changes that each of them makes to the pod. */
      sccs: sccs.map(({ object, ...evaluation }) => ({
        ...evaluation,
        changes: object && findChanges(input.object, object),
      })),
    },
  };
}

/** Returns the strictest level that the pod satisfies, in the latest version. */
function strictestLevel(pod: PodLike, { emulationVersion }: Store): Level {
  const policy = { version: 'latest', emulationVersion } as const;
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { ...policy, level }).allowed);
  return strictest ?? 'privileged';
}

const PODS = { group: '', version: 'v1', resource: 'pods' };
const POD = { group: '', version: 'v1', kind: 'Pod' };

/**
 * Reviews the pod with the effective policies of its namespace. `completed` is the pod with the defaults of SCC
 * admission.
 */
function explainPodSecurity({ workload, namespace, pod }: Explained, completed: unknown, context: ExplainContext) {
  const { store, settings } = context;
  const scope = { store, namespace: context.installation, version: VERSION };
  const podSecurity = context.scc ? effectivePodSecurity(scope, settings) : settings.podSecurity;
  const { userInfo } = pod.input;
  const defaults = { defaults: settings.defaults, scc: context.scc ?? settings.scc };
  const decoded = decodePod(pod.input.object).pod;
  const object =
    completed ?? (decoded === undefined ? pod.input.object : completeTemplate(decoded, namespace, defaults).json);
  const emulationVersion = settings.emulationVersion ?? store.emulationVersion;
  const { decision } = reviewPodSecurity({
    request: {
      uid: '',
      operation: 'CREATE',
      kind: POD,
      resource: PODS,
      namespace: workload.namespace,
      userInfo,
      object,
    },
    podSecurity,
    emulationVersion,
    findNamespace: () => withWarnLevel(namespace),
    listPods: () => [],
    findExceptions: context.exceptions,
    limits: DEFAULT_LIMITS,
    now: () => 0,
  });
  const { exempt, exception, 'enforce-policy': policy } = decision.auditAnnotations ?? {};
  const options = { ...parsePolicy(policy ?? ''), emulationVersion };
  const rules = context.exceptions(workload.namespace);
  const isRollout =
    context.scc && settings.rollout.phase !== 'Disabled' && getRolloutView(scope, settings.rollout).enforce;
  const source = setsMode(namespace.metadata?.labels, 'enforce')
    ? ('label' as const)
    : isRollout === 'restricted'
      ? ('rollout' as const)
      : ('default' as const);
  return {
    /** The enforced policy. Absent for exempt pods. */
    policy,
    source: exempt === undefined ? source : undefined,
    /** Reason for the exemption, which is `namespace`, `user` or `runtimeClass`. */
    exempt,
    allowed: decision.allowed,
    // Removes the prefix that contains the name, because the pod has no name yet.
    message: decision.allowed ? undefined : decision.status.message?.replace(/^pods (?:"[^"]*" )?is forbidden: /, ''),
    /** The changes to the pod that correct its violations. */
    fixes:
      decision.allowed || policy === undefined
        ? undefined
        : [...new Set(podSecurityViolations(object as PodLike, options, rules).map(({ fix }) => fix))],
    /** Names of the exceptions that allow the pod. */
    exceptions: exception?.split(', '),
    /** Reasons why the exceptions of the service account do not allow the pod. */
    exceptionProblems: decision.allowed ? undefined : exceptionProblems(workload, decoded?.serviceAccountName, context),
    warnings: decision.warnings ?? [],
  };
}

function exceptionProblems({ namespace }: Workload, account = 'default', context: ExplainContext) {
  if (!context.areExceptionsOn) return undefined;
  const problems = context
    .listExceptions(namespace)
    .filter(({ serviceAccount }) => serviceAccount === account)
    .map(({ name, problem }) => `${name}: ${problem ?? 'it does not cover these violations'}`);
  return problems.length === 0 ? [`no exception for the service account ${account}`] : problems;
}

type Data = Explanation['data'];

const MODE_EFFECTS: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': violations are reported, and pods are neither denied nor changed',
  off: ': pods are neither evaluated nor changed',
};

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

/** Returns the result as a phrase, such as `denied, violates PodSecurity "restricted:latest"`. */
function describeResult({ finished, allowed, denials, podSecurity, scc }: Data): string {
  if (finished) return 'finished, creates no more pods';
  if (allowed)
    return scc?.mode === 'enforce' && scc.chosen !== undefined ? `admitted by SCC ${scc.chosen}` : 'admitted';
  const reasons = denials.map(({ by }) => {
    if (by === 'PodSecurity') return `violates ${printPodSecurity(parsePolicy(podSecurity.policy ?? ''))}`;
    return by === 'SCC' ? NO_SCC : 'its service account does not exist';
  });
  return `denied, ${reasons.join(', ')}`;
}

/** Describes the decision of SCC admission in report mode. Returns `undefined` in other modes. */
function describeReported({ mode, outcome, chosen, cause }: NonNullable<Data['scc']>): string | undefined {
  if (mode !== 'report') return undefined;
  if (outcome === 'admitted') return `SCC ${chosen ?? ''} would admit the pod`;
  return outcome === 'denied' && cause ? `the pod would be denied: ${printReason(cause)}` : undefined;
}

/** Formats the decision, its reasons, a row for each SCC, and warnings. */
function printExplanation(data: Data, style: Style): string {
  const { kind, name, namespace, template, createdBy, serviceAccount, denials, podSecurity, scc, connectDenial } = data;
  const { policy, source, exempt, exceptions, exceptionProblems: problems } = podSecurity;
  const path = template === undefined ? '' : ` (${template})`;
  const title = printable(`${kind} ${namespace}/${name || '(no name)'}${path}: ${describeResult(data)}`);
  if (data.finished) return `${style('bold', title)}\n`;
  const sccFixes = scc?.fixes?.map((fix, index) => [index === 0 ? 'Fix' : 'Or', formatFix(fix)] as const) ?? [];
  const podSecurityFixes = podSecurity.fixes?.map((fix) => ['Fix', fix] as const) ?? [];
  const cause = scc?.cause && printReason(scc.cause);
  const facts: readonly (readonly [title: string, fact: string | undefined])[] = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ...denials.flatMap(({ by, message }) => [
      ['Denied because', by === 'SCC' ? cause : message] as const,
      ...(by === 'SCC' ? sccFixes : []),
      ...(by === 'PodSecurity' ? podSecurityFixes : []),
    ]),
    [
      'Pod Security',
      exempt === undefined
        ? `${policy ?? ''} (${source ?? ''})${printEvaluatedAs(parsePolicy(policy ?? ''))}`
        : `exempt (${exempt})`,
    ],
    ['Exceptions', exceptions ? `allowed by ${exceptions.join(', ')}` : problems?.join('; ')],
    ['SCC mode', scc && (scc.problem ?? `${scc.mode}${MODE_EFFECTS[scc.mode]}`)],
    ['In enforce mode', scc && describeReported(scc)],
    ...(scc?.mode === 'report' ? sccFixes : []),
    ['SCC admission', scc?.outcome === 'ignored' ? 'does not apply to the pod' : undefined],
    ['Exec and attach', connectDenial && `denied because of ephemeral containers: ${printReason(connectDenial)}`],
    ['Usable by', scc?.subjectType && SUBJECTS.get(scc.subjectType)],
    ['Chosen because', scc?.reason],
    ['Level', scc?.level && `${scc.level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.flatMap(([fact, text]) => (text === undefined ? [] : [[fact, text]]));
  const lines = data.warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}\n`);
  return [
    `${style('bold', title)}\n${printTable(shown, { indent: '  ', gap: '  ' })}`,
    ...(scc?.sccs && scc.sccs.length > 0 ? [printSccs(scc.sccs, scc.chosen, style)] : []),
    ...(lines.length === 0 ? [] : [lines.join('')]),
  ].join('\n');
}

const HEADER = ['SCC', 'PRIORITY', 'SCORE', 'USABLE BY', 'FITS'];

function printSccs(sccs: SccExplanation['data']['sccs'], chosen: string | undefined, style: Style): string {
  const rows = sccs.map((scc) => {
    const { name, priority, score, usableBy } = scc;
    return [name, String(priority), String(score), usableBy.join(', ') || '-', describeFit(scc).fits];
  });
  const [header = '', ...lines] = printTable([HEADER, ...rows], { gap: '  ' })
    .trimEnd()
    .split('\n');
  const blocks = sccs.map((scc, index) => {
    const line = lines[index] ?? '';
    const details = [
      ...(scc.isCandidate ? [] : ['not tried: the pod requires another SCC']),
      ...describeFit(scc).reasons,
      ...printChanges(scc.changes ?? []),
    ];
    const shown = details.map((text) => `      ${style('dim', printable(text))}\n`);
    return `${scc.name === chosen ? style('bold', `* ${line}`) : `  ${line}`}\n${shown.join('')}`;
  });
  return `  ${header}\n${blocks.join('')}`;
}
