/**
 * A state machine for the rollout of enforcement. It determines whether the cluster enforces the Pod Security Standards
 * by default, and in which order the default level and the namespace labels change.
 */
import {
  type EnforcementMode,
  isEnforcementMode,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';
import type { InconclusivePolicy, RolloutPhase } from './settings.ts';

/**
 * Result of the namespace evaluation. `never` means that there is no evaluation. `stale` means that the last evaluation
 * is too old. `inconclusive` means that the last evaluation has no verdict for some namespaces.
 */
export const EVALUATION_RESULTS = ['never', 'stale', 'clean', 'violations', 'inconclusive'] as const;
export type EvaluationResult = (typeof EVALUATION_RESULTS)[number];

/** The level that applies to namespaces without a label. */
export type DefaultLevel = 'privileged' | 'restricted';

/**
 * How the label syncer handles enforce labels. `Enforce` maintains them, `Hold` leaves existing labels unchanged, and
 * `Advise` removes the labels that the syncer owns. Warn and audit labels are maintained in every mode.
 */
export const SYNCER_MODES = ['Enforce', 'Hold', 'Advise'] as const;
export type SyncerMode = (typeof SYNCER_MODES)[number];

export interface EnforcementInput {
  readonly phase: RolloutPhase;
  /** State of the feature gate. */
  readonly gate: boolean;
  /** Requested mode (`spec.enforcementMode`). It may be invalid. */
  readonly spec: string;
  /** Decided mode (`status.enforcementMode`). */
  readonly status: EnforcementMode;
  /** Owner of `spec.enforcementMode`. A value that others own is never overwritten. */
  readonly specOwner?: 'rollout' | 'others' | undefined;
  readonly evaluation: EvaluationResult;
  /** True if every managed namespace has had its label for the settle time. */
  readonly isSettled: boolean;
  /** The default in force. It is `restricted` if that level is published or if any replica runs it. */
  readonly currentEnforce: DefaultLevel;
  /** With `any age`, a stale evaluation is accepted, and later violations are ignored. */
  readonly acceptEvaluations?: 'fresh' | 'any age';
}

export interface EnforcementPlan {
  readonly spec: string;
  readonly status: EnforcementMode;
  /** Default level to publish. */
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
  /** Whether enforcement is desired. */
  readonly want: boolean;
}

/** Plans the modes, the default level and the syncer mode. Planning is idempotent. */
export function planEnforcement(input: EnforcementInput): EnforcementPlan {
  const { spec, status } = decideEnforcement(input);
  const want = isEnforcementDesired({ ...input, status });
  return { spec, status, want, ...planEffect({ ...input, want }) };
}

/**
 * Decides the modes. A requested mode is never overwritten, and an invalid one changes nothing. The feature gate is
 * ignored here, so it can be disabled and enabled again without another evaluation.
 */
function decideEnforcement(input: EnforcementInput): Pick<EnforcementPlan, 'spec' | 'status'> {
  const { phase, spec, status, evaluation } = input;
  if (phase === 'Disabled') return { spec, status };
  if (phase === 'Evaluate') return { spec: evaluation === 'violations' ? proposeLegacy(input) : spec, status: '' };
  if (!isEnforcementMode(spec)) return { spec, status };
  if (spec !== '') return { spec, status: spec };
  return status === 'Restricted' ? { spec, status } : decideByEvaluation(input);
}

/** If no mode is requested, only an evaluation can change the decision. */
function decideByEvaluation(input: EnforcementInput): Pick<EnforcementPlan, 'spec' | 'status'> {
  const { spec, status, evaluation, acceptEvaluations = 'fresh' } = input;
  const isAnyAge = acceptEvaluations === 'any age';
  const isClean = evaluation === 'clean' || (isAnyAge && (evaluation === 'stale' || evaluation === 'violations'));
  if (isClean) return { spec, status: 'Restricted' };
  return evaluation === 'violations' ? { spec: proposeLegacy(input), status: 'Legacy' } : { spec, status };
}

/** An empty mode that another manager owns stays empty. */
function proposeLegacy({ spec, specOwner }: EnforcementInput): string {
  return spec === '' && specOwner !== 'others' ? 'Legacy' : spec;
}

/**
 * Returns whether enforcement is desired. Every replica evaluates this itself, so a requested `Legacy` mode takes
 * effect even before a leader has decided.
 */
export function isEnforcementDesired({
  phase,
  gate,
  spec,
  status,
}: Pick<EnforcementInput, 'phase' | 'gate' | 'spec' | 'status'>): boolean {
  const isDecided = spec !== 'Legacy' && status === 'Restricted';
  if (phase === 'Evaluate' || (phase === 'Enforce' && !isDecided)) return false;
  return gate;
}

/**
 * Returns the default level and the syncer mode. Labels are written before the default is raised, and the default is
 * lowered before labels are removed. While the default is restricted, a namespace always has the label that its pods
 * need.
 */
export function planEffect({
  want,
  currentEnforce,
  isSettled,
}: Pick<EnforcementPlan, 'want'> & Pick<EnforcementInput, 'isSettled' | 'currentEnforce'>): Pick<
  EnforcementPlan,
  'enforce' | 'syncer'
> {
  if (!want) return { enforce: 'privileged', syncer: currentEnforce === 'restricted' ? 'Hold' : 'Advise' };
  return { enforce: currentEnforce === 'restricted' || isSettled ? 'restricted' : 'privileged', syncer: 'Enforce' };
}

/** The default level that is published or that a replica runs, and its generation. */
export interface PublishedLevel {
  readonly level: DefaultLevel;
  /** 0 before anything is published. */
  readonly generation: number;
}

/**
 * Returns the default that is in force in any replica. A replica with an older generation may still run the restricted
 * level. A default that was never raised is not in force anywhere.
 */
export function defaultInForce(
  published: PublishedLevel,
  replicas: readonly PublishedLevel[],
  wasRaised: boolean,
): DefaultLevel {
  if (!wasRaised) return published.level;
  const isPossible =
    published.generation === 0 ||
    [published, ...replicas].some((one) => one.level === 'restricted' || one.generation < published.generation);
  return isPossible ? 'restricted' : 'privileged';
}

/** Returns true if there are replicas and all of them run the restricted default of the published generation. */
export function areAllRaised({ generation }: PublishedLevel, replicas: readonly PublishedLevel[]): boolean {
  return replicas.length > 0 && replicas.every((one) => one.level === 'restricted' && one.generation >= generation);
}

/** All times are in milliseconds on the same clock. */
interface RaiseInput {
  readonly nowMs: number;
  /** Time since which every managed namespace has had its label. Absent if a namespace has none. */
  readonly labeledSinceMs?: number | undefined;
  /** Time since which enforcement has been desired. Labels observed before that may be outdated. */
  readonly decidedAtMs?: number | undefined;
  /** Time when the default was last raised. */
  readonly lastRaiseMs?: number | undefined;
  readonly settleMs: number;
}

/** Minimum time between raises, which prevents the default from flapping. */
export const RAISE_INTERVAL_MS = 300_000;

/**
 * Returns true if the labels have settled and the last raise was long enough ago. `waitMs` is the remaining delay if
 * nothing else is missing.
 */
export function planRaise(input: RaiseInput): { readonly isSettled: boolean; readonly waitMs?: number } {
  const { nowMs, labeledSinceMs, decidedAtMs = 0, lastRaiseMs = -Infinity, settleMs } = input;
  if (labeledSinceMs === undefined) return { isSettled: false };
  const settledAtMs = Math.max(labeledSinceMs, decidedAtMs) + settleMs;
  const waitMs = Math.max(settledAtMs, lastRaiseMs + RAISE_INTERVAL_MS) - nowMs;
  return waitMs <= 0 ? { isSettled: true } : { isSettled: false, waitMs };
}

/**
 * Returns the warning for a request for `Restricted` mode despite known violations, or `undefined` if there are none.
 */
export function forcedWarning(
  config: PSAEnforcementConfig,
  before: PSAEnforcementConfig | undefined,
): string | undefined {
  const isForced = config.spec?.enforcementMode === 'Restricted' && before?.spec?.enforcementMode !== 'Restricted';
  const violating = (before ?? config).status?.violatingNamespaces ?? [];
  const names = violating.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  if (!isForced || names.length === 0) return undefined;
  return `spec.enforcementMode: Restricted is enforced immediately although workloads in ${printCount(names.length, 'namespace')} would be denied: ${summarizeNames(names)}`;
}

/** Name of the readiness controller, and the field manager of the modes that it writes. */
export const ROLLOUT_MANAGER = 'PodSecurityReadinessController';

/** Returns the requested mode and the decided mode of the configuration object. A missing object requests nothing. */
export function readEnforcement(
  config: PSAEnforcementConfig | undefined,
): Pick<EnforcementInput, 'spec' | 'status' | 'specOwner'> {
  const decided = config?.status?.enforcementMode ?? '';
  return {
    spec: config?.spec?.enforcementMode ?? '',
    status: isEnforcementMode(decided) ? decided : '',
    specOwner: findSpecOwner(config),
  };
}

/** A field with several owners is treated as owned by others. */
function findSpecOwner(config: PSAEnforcementConfig | undefined): EnforcementInput['specOwner'] {
  const owners = (config?.metadata?.managedFields ?? []).filter(({ fieldsV1 }) => ownsMode(fieldsV1));
  if (owners.length === 0) return undefined;
  return owners.every(({ manager }) => manager === ROLLOUT_MANAGER) ? 'rollout' : 'others';
}

function ownsMode(fields: unknown): boolean {
  const spec = isObject(fields) ? fields['f:spec'] : undefined;
  return isObject(spec) && spec['f:enforcementMode'] !== undefined;
}

/** Summary of an evaluation of all namespaces. */
export interface SweepSummary {
  /** Milliseconds since the epoch. */
  readonly endMs: number;
  readonly violating: number;
  readonly inconclusive: number;
}

interface EvaluationInput {
  readonly status: PSAEnforcementConfig['status'];
  /** The last evaluation of this process. If there is none, the stored result is used. */
  readonly newest?: SweepSummary | undefined;
  readonly nowMs: number;
  readonly maxAgeMs: number;
  readonly inconclusivePolicy: InconclusivePolicy;
}

/** Returns the combined result of the stored evaluation and the newest evaluation. */
export function getEvaluationResult({
  status,
  newest,
  nowMs,
  maxAgeMs,
  inconclusivePolicy,
}: EvaluationInput): EvaluationResult {
  const isFresh = (ms: number): boolean => Math.abs(nowMs - ms) <= maxAgeMs;
  const storedMs = parseTimestamp(status?.lastEvaluationTime);
  const hasEntries = status?.violatingNamespaces?.some(({ state }) => state !== 'Previous') === true;
  if (newest && newest.violating > 0 && isFresh(newest.endMs)) return 'violations';
  if (hasEntries && storedMs !== undefined && isFresh(storedMs)) return 'violations';
  if (inconclusivePolicy === 'Block' && isInconclusive(status, newest)) return 'inconclusive';
  if (storedMs === undefined) return 'never';
  return isFresh(storedMs) ? 'clean' : 'stale';
}

/** After a restart, the stored condition is used. */
function isInconclusive(status: PSAEnforcementConfig['status'], newest: SweepSummary | undefined): boolean {
  if (newest) return newest.inconclusive > 0;
  return status?.conditions?.some(({ type, reason }) => type === 'Evaluated' && reason === 'Inconclusive') === true;
}
