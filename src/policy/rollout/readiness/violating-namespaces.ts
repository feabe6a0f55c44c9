import { compareBytes } from '../../../kube/order.ts';
import { MAX_VIOLATING_NAMESPACES, type ViolatingNamespace } from '../../../kube/psa-enforcement-config.ts';
import { readTimestamp } from '../../../kube/timestamp.ts';
import type { Namespace } from '../../../kube/types.ts';
import type { Category, NamespaceEvaluation } from './types.ts';

/** The reasons of the proposal; where it has none the entry has none. The first category that has one counts. */
const REASONS: Readonly<Record<Category, string | undefined>> = {
  runLevelZero: 'PSAConfig: Misconfigured OpenShift Namespace',
  openshift: 'PSAConfig: Misconfigured OpenShift Namespace',
  disabledSyncer: 'PSAConfig: PSA label syncer disabled',
  userSCC: 'PSALabel: ServiceAccount with insufficient SCCs',
  unknown: undefined,
};

/** What an evaluation of all namespaces found. */
export interface Sweep {
  /** Of the namespaces that were selected. */
  readonly evaluations: readonly NamespaceEvaluation[];
  /** Any namespace, selected or not; `undefined` if there is none of that name. */
  findNamespace(name: string): Namespace | undefined;
}

/** The list after an evaluation, and how many entries it would have without its bound. */
export interface ViolatingNamespaces {
  readonly entries: readonly ViolatingNamespace[];
  readonly total: number;
}

/**
 * The entries after an evaluation: a namespace that violated and does not any more becomes `Previous`, one that could not be
 * judged keeps its entry, one that is gone loses it. What violates comes first, then by name; the oldest `Previous` make room
 * where there are too many.
 * @param now RFC 3339: the end of the evaluation
 */
export function nextViolatingNamespaces(
  before: readonly ViolatingNamespace[] | null | undefined,
  { evaluations, findNamespace }: Sweep,
  now: string,
): ViolatingNamespaces {
  const left = before?.filter((entry) => isAbout(entry, findNamespace(entry.name))) ?? [];
  const known = new Map(left.map((entry) => [entry.name, entry]));
  const verdicts = new Map(evaluations.map(({ name, verdict }) => [name, verdict]));
  const current = evaluations
    .filter(({ verdict }) => verdict === 'violating')
    .map((evaluation) => currentEntry(evaluation, known.get(evaluation.name), now));
  const others = [...known.values()]
    .filter(({ name }) => verdicts.get(name) !== 'violating')
    .map((entry) => (verdicts.get(entry.name) === 'inconclusive' ? entry : previousEntry(entry, now)));
  const entries = [...current, ...others];
  return { entries: bounded(entries).sort(compareEntries), total: entries.length };
}

/** The reason of an entry. */
export function violationReason(categories: readonly Category[]): string | undefined {
  return categories.map((category) => REASONS[category]).find((reason) => reason !== undefined);
}

/** False for a namespace that is gone, also if there is a new one of its name. */
function isAbout({ lastTransitionTime }: ViolatingNamespace, namespace: Namespace | undefined): boolean {
  if (namespace === undefined) return false;
  const createdMs = readTimestamp(namespace.metadata?.creationTimestamp);
  const sinceMs = readTimestamp(lastTransitionTime);
  return createdMs === undefined || sinceMs === undefined || createdMs <= sinceMs;
}

function currentEntry(
  { name, categories }: NamespaceEvaluation,
  before: ViolatingNamespace | undefined,
  now: string,
): ViolatingNamespace {
  const reason = violationReason(categories);
  const since = before?.state === 'Current' ? before.lastTransitionTime : undefined;
  return { name, ...(reason === undefined ? {} : { reason }), state: 'Current', lastTransitionTime: since ?? now };
}

function previousEntry(entry: ViolatingNamespace, now: string): ViolatingNamespace {
  return entry.state === 'Previous' ? entry : { ...entry, state: 'Previous', lastTransitionTime: now };
}

function bounded(entries: readonly ViolatingNamespace[]): ViolatingNamespace[] {
  return [...entries].sort(compareWorth).slice(0, MAX_VIOLATING_NAMESPACES);
}

function compareWorth(a: ViolatingNamespace, b: ViolatingNamespace): number {
  if (isPrevious(a) !== isPrevious(b)) return isPrevious(a) ? 1 : -1;
  return isPrevious(a) ? timeOf(b) - timeOf(a) || compareBytes(a.name, b.name) : compareBytes(a.name, b.name);
}

function compareEntries(a: ViolatingNamespace, b: ViolatingNamespace): number {
  return Number(isPrevious(a)) - Number(isPrevious(b)) || compareBytes(a.name, b.name);
}

function isPrevious({ state }: ViolatingNamespace): boolean {
  return state === 'Previous';
}

function timeOf({ lastTransitionTime }: ViolatingNamespace): number {
  return readTimestamp(lastTransitionTime) ?? 0;
}
