/** Explains how SCC admission decides on the pods of a workload. */
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { findChanges } from '../../kube/pod-changes.ts';
import type { PodLike } from '../../kube/types.ts';
import { evaluatePod, type Level, LEVELS } from '../../policy/pss/index.ts';
import { describeFit, explainPod, type PodDenial } from '../../policy/scc/advice/explain.ts';
import { workloadPod } from '../../policy/scc/advice/plan.ts';
import { type SccMode, sccMode, type SccSettings } from '../../policy/scc/mode.ts';
import type { createRangePreview } from '../../policy/uid-range/allocation.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { sccInput } from '../inventory/scc-input.ts';
import type { Workload } from '../inventory/workloads.ts';
import { printable, printChanges, printTable, type Style } from '../output/print.ts';
import { explainExceptions } from './exceptions.ts';
import {
  type Creation,
  describeWorkload,
  type Explanation,
  type AdmissionResult,
  printExplanation,
} from './workload.ts';

interface SccContext extends Creation {
  readonly store: Store;
  readonly scc: SccSettings;
  readonly settings: Settings;
  readonly previewRanges: ReturnType<typeof createRangePreview>;
}

/**
 * Explains the decision on the pods of a workload. Returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
export function explainSccs(workload: Workload, context: SccContext): Explanation | undefined {
  const decided = decide(workload, context);
  return decided && { ...decided, print: (style) => printDecision(decided.data, decided.outcome, style) };
}

function decide(workload: Workload, context: SccContext) {
  const { store, scc, previewRanges, creator } = context;
  const namespace = findNamespace(store, workload.namespace);
  const mode = sccMode(namespace, scc);
  const isReported = mode.mode === 'report';
  const pod = workloadPod(workload.source, {
    ...sccInput(store, scc),
    namespace: isReported ? previewRanges(namespace, store.list('Namespace')) : namespace,
    isReported,
    creator,
    findAccount: (account) => context.findAccount(account, workload.namespace),
  });
  if (pod === undefined) return undefined;
  const { input, serviceAccount, denial } = pod;
  const { decision, verdict, sccs, next } = explainPod(input);
  const message = denial ?? (decision.allowed ? undefined : decision.status.message);
  const { closest, grantable, suggestedScc, changing }: Partial<PodDenial> =
    verdict.outcome === 'denied' ? verdict : {};
  const data = {
    ...describeWorkload(workload, input.userInfo, serviceAccount),
    /** The SCC that admits the pod, and the next SCC that would also admit it. */
    chosen: verdict.outcome === 'admitted' ? verdict.scc : undefined,
    next,
    reason: decision.allowed ? decision.auditAnnotations['reason'] : undefined,
    ...{ closest: closest?.scc, grantable, suggestedScc, changing },
    /** The effect of exceptions on the Pod Security decision. */
    exceptions: explainExceptions(decision.allowed ? decision.object : input.object, namespace, context),
    level: decision.allowed ? strictestLevel(decision.object as PodLike, store) : undefined,
    ...mode,
    /** The decision that SCC admission would make if it were on. */
    allowed: message === undefined,
    subjectType: decision.facts?.subjectType,
    /** The message of a denial. */
    message,
    warnings: decision.warnings,
    /** All SCCs, with the changes that the pod would need. */
    sccs: sccs.map(({ object, ...one }) => ({
      ...one,
      changes: object && findChanges(input.object, object),
    })),
  };
  const isOff = denial === undefined && mode.mode === 'off';
  const outcome: AdmissionResult = isOff ? 'off' : message === undefined ? verdict.outcome : 'denied';
  return { outcome, data } as const;
}

/** Returns the strictest level that the pod satisfies, in the latest version. */
function strictestLevel(pod: PodLike, { emulationVersion }: Store): Level {
  const policy = { version: 'latest', emulationVersion } as const;
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { ...policy, level }).allowed);
  return strictest ?? 'privileged';
}

type ExplainedDecision = NonNullable<ReturnType<typeof decide>>['data'];

const MODE_EFFECTS: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': violations are reported, and pods are neither denied nor changed',
  off: ': pods are neither evaluated nor changed',
};

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

/** Prints the decision, its reasons, a row for each SCC, and warnings. */
function printDecision(data: ExplainedDecision, outcome: AdmissionResult, style: Style): string {
  const { chosen, allowed, mode, problem, subjectType, reason, level, message, warnings, sccs } = data;
  const { exceptions } = data;
  // The table of SCCs contains all reasons for a denial by every SCC.
  const denial = message?.startsWith('unable to validate against any') ? undefined : message;
  const results: Readonly<Record<AdmissionResult, string>> = {
    admitted: `admitted by SCC ${chosen ?? ''}`,
    denied: denial === undefined ? 'no SCC admits it' : 'denied',
    ignored: 'exempt from SCC admission',
    off: `SCC admission is off in its namespace; otherwise it would be ${allowed ? 'admitted' : 'denied'}`,
  };
  const facts = [
    ['Mode', problem ?? `${mode}${MODE_EFFECTS[mode]}`],
    ['Denied because', denial],
    ['Usable by', subjectType && SUBJECTS.get(subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
    ['Exceptions', exceptions],
  ] as const;
  const blocks = sccs.length === 0 ? [] : [printSccs(data, style)];
  return printExplanation(data, { result: results[outcome], facts, blocks, warnings }, style);
}

const HEADER = ['SCC', 'PRIORITY', 'SCORE', 'USABLE BY', 'FITS'];

function printSccs({ sccs, chosen }: ExplainedDecision, style: Style): string {
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
