/**
 * Holding a whole cluster to the Pod Security Standards: whether that is decided, by what, and in which order default and
 * labels follow. Pure: what was evaluated, which features are on and what replicas run comes in as values.
 */
import {
  isEnforcementMode,
  type EnforcementMode,
  ENFORCEMENT_MODES,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';
import type { ConditionState } from '../../kube/conditions.ts';
import { quote, summarizeNames } from '../../kube/text.ts';
import { type FeatureGate, isObject } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';

/** What is asked for and what is decided, after one look at the evaluation. */
interface EnforcementDecision {
  readonly spec: string;
  readonly status: EnforcementMode;
}

/**
 * Decides whether the cluster is to enforce. What somebody asked for is never overwritten, only the absence of a wish; what
 * cannot be understood changes nothing. Whether the feature is on plays no part here, so that it can be switched off and on
 * again without another evaluation.
 */
function decideEnforcement(input: EnforcementInput): EnforcementDecision {
  const { phase, spec, status } = input;
  if (phase === 'Disabled') return { spec, status };
  if (phase === 'Evaluate') return { spec: hasViolations(input) ? proposeLegacy(input) : spec, status: '' };
  if (!isEnforcementMode(spec)) return { spec, status };
  if (spec !== '') return { spec, status: spec };
  if (status === 'Restricted') return { spec, status };
  return decideUnasked(input);
}

/** Nobody asked for anything: only what was evaluated decides, and without that nothing does. */
function decideUnasked(input: EnforcementInput): EnforcementDecision {
  const { spec, status, evaluation, acceptEvaluations = 'fresh' } = input;
  const isAnyAge = acceptEvaluations === 'any age';
  const isClean = evaluation === 'clean' || (isAnyAge && (evaluation === 'stale' || evaluation === 'violations'));
  if (isClean) return { spec, status: 'Restricted' };
  return evaluation === 'violations' ? { spec: proposeLegacy(input), status: 'Legacy' } : { spec, status };
}

function hasViolations({ evaluation }: EnforcementInput): boolean {
  return evaluation === 'violations';
}

/** An empty value that somebody else keeps empty stays. */
function proposeLegacy({ spec, specOwner }: EnforcementInput): string {
  return spec === '' && specOwner !== 'others' ? 'Legacy' : spec;
}

/**
 * True if enforcement is wanted; `undefined` where that hangs on the feature and nobody knows yet whether it is on. Every
 * replica asks this for itself, so that it can stop enforcing without waiting for another: who asks for `Legacy` does not
 * have to wait until a leader has written that into the status.
 */
export function wantsEnforcement({
  phase,
  gate,
  spec,
  status,
}: Pick<EnforcementInput, 'phase' | 'gate' | 'spec' | 'status'>): boolean | undefined {
  const isDecided = spec !== 'Legacy' && status === 'Restricted';
  if (phase === 'Evaluate' || (phase === 'Enforce' && !isDecided)) return false;
  return gate;
}

interface EffectInput extends Pick<EnforcementInput, 'isSettled' | 'currentEnforce' | 'syncer'> {
  readonly want: boolean | undefined;
}

/**
 * The default to run and the mode of the syncer. Upwards labels come first and the default second, downwards the other way
 * round: at no moment a namespace may be without the label that its pods need while the default is restricted.
 */
export function planEffect({ want, currentEnforce, isSettled, syncer = 'Hold' }: EffectInput): {
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
} {
  if (want === undefined) return { enforce: currentEnforce, syncer };
  if (!want) return { enforce: 'privileged', syncer: currentEnforce === 'restricted' ? 'Hold' : 'Advise' };
  return { enforce: currentEnforce === 'restricted' || isSettled ? 'restricted' : 'privileged', syncer: 'Enforce' };
}

/**
 * The default that one replica runs: what has been published, but for `privileged` as soon as it sees for itself that
 * enforcement is not wanted.
 */
export function replicaDefault({
  published,
  want,
}: {
  readonly published: DefaultLevel;
  readonly want: boolean | undefined;
}): DefaultLevel {
  return want === false ? 'privileged' : published;
}

/** The default in force, by what is published and what each replica runs: restricted if any of them is. */
export function currentDefault(reported: readonly DefaultLevel[]): DefaultLevel {
  return reported.includes('restricted') ? 'restricted' : 'privileged';
}

/** Which part of the program changes something. */
type EnforcementWriter = 'readiness:spec' | 'readiness:status' | 'observer:config';

/** What is to be asked for, decided, run and labelled. What is planned is planned again, until something else changes. */
export function planEnforcement(input: EnforcementInput): EnforcementPlan {
  const { spec, status } = decideEnforcement(input);
  const want = wantsEnforcement({ ...input, status });
  return { spec, status, want, ...planEffect({ ...input, want }) };
}

/** Who has to write for a plan to come true. */
export function writersOf(input: EnforcementInput, plan: EnforcementPlan): readonly EnforcementWriter[] {
  return [
    ...(plan.spec === input.spec ? [] : (['readiness:spec'] as const)),
    ...(plan.status === input.status ? [] : (['readiness:status'] as const)),
    ...(plan.enforce === input.currentEnforce ? [] : (['observer:config'] as const)),
  ];
}

/** What conditions tell beside the plan. */
interface EnforcementFacts {
  readonly input: EnforcementInput;
  readonly plan: EnforcementPlan;
  /** RFC 3339. */
  readonly lastEvaluationTime?: string | undefined;
  /** Why the newest evaluation came to nothing. */
  readonly failure?: string | undefined;
  /** All namespaces with violations. */
  readonly violating?: readonly string[];
  /** Managed namespaces that have no label yet. */
  readonly unlabelled?: readonly string[];
  /** Namespaces whose labels are still to be given up. */
  readonly unreleased?: readonly string[];
}

type State = Omit<ConditionState, 'type'>;

/** The conditions of the enforcement configuration; those that do not apply are left out. */
export function enforcementConditions(facts: EnforcementFacts): readonly ConditionState[] {
  const states: Readonly<Record<string, State | undefined>> = {
    Evaluated: evaluated(facts),
    ViolationsDetected: violationsDetected(facts),
    Enforcing: enforcing(facts),
    Progressing: progressing(facts),
    LegacyProposed: legacyProposed(facts),
    SpecInvalid: specInvalid(facts),
  };
  return Object.entries(states).flatMap(([type, state]) => (state ? [{ type, ...state }] : []));
}

const INCOMPLETE: Readonly<
  Record<EvaluationResult, { readonly reason: string; readonly message: string } | undefined>
> = {
  never: { reason: 'NeverRan', message: 'no evaluation has been completed yet' },
  stale: { reason: 'Stale', message: 'the last evaluation is too old to act on' },
  inconclusive: { reason: 'Inconclusive', message: 'some namespaces could not be judged' },
  clean: undefined,
  violations: undefined,
};

function evaluated({ input, failure, lastEvaluationTime }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (!incomplete) return yes('Completed', lastEvaluationTime && `all namespaces were judged by ${lastEvaluationTime}`);
  return failure === undefined ? no(incomplete.reason, incomplete.message) : no('Failed', failure);
}

function violationsDetected({ input, violating = [] }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (incomplete) return { status: 'Unknown', ...incomplete };
  if (input.evaluation === 'clean') return no('NoViolations', 'no workload would be refused');
  const count = `${violating.length} ${violating.length === 1 ? 'namespace' : 'namespaces'}`;
  return yes('ViolatingNamespaces', `workloads in ${count} would be refused: ${summarizeNames(violating)}`);
}

function enforcing({ input, plan, unlabelled }: EnforcementFacts): State {
  const { phase, gate } = input;
  const { spec, status, enforce } = plan;
  if (phase === 'Evaluate') return no('PhaseNotEnforcing', 'phase Evaluate enforces nothing');
  if (phase === 'Enforce' && status !== 'Restricted') {
    return spec === 'Legacy' || (status === 'Legacy' && !isWaiting(input, plan))
      ? no('LegacyMode', 'mode Legacy enforces nothing')
      : no('AwaitingEvaluation', 'nothing is enforced before all namespaces have been judged');
  }
  if (gate === false) return no('FeatureGateDisabled', 'the feature gate is off');
  if (enforce === 'restricted') return yes('Restricted', 'namespaces without a label are held to restricted');
  if (gate === undefined) {
    return { status: 'Unknown', reason: 'FeatureGateNotObserved', message: 'the feature gate is not known yet' };
  }
  return no('LabelingNamespaces', `labels come first${missing(unlabelled)}`);
}

function progressing(facts: EnforcementFacts): State {
  const { input, plan, unlabelled, unreleased = [] } = facts;
  const { want, enforce } = plan;
  if (enforce === 'privileged' && input.currentEnforce === 'restricted') {
    return yes('RevertingConfiguration', 'replicas go back to the default privileged');
  }
  if (enforce === 'restricted' && input.currentEnforce === 'privileged') {
    return yes('RollingOutConfiguration', 'replicas go over to the default restricted');
  }
  if (want === true && enforce === 'privileged') {
    return yes('LabelingNamespaces', `namespaces get their labels${missing(unlabelled)}`);
  }
  if (want === false && unreleased.length > 0) {
    return yes('ReleasingLabels', `labels are given up in ${summarizeNames(unreleased)}`);
  }
  if (isWaiting(input, plan)) return yes('EvaluationPending', 'an evaluation of all namespaces is to decide');
  return no('AsExpected');
}

/** Nobody asked for anything, and what is known decides nothing. */
function isWaiting({ phase, evaluation }: EnforcementInput, { spec, status }: EnforcementPlan): boolean {
  return phase === 'Enforce' && spec === '' && status !== 'Restricted' && evaluation !== 'violations';
}

function legacyProposed({ input, plan }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  if (plan.spec === 'Legacy' && (input.spec === '' || input.specOwner === 'rollout')) {
    return yes('WrittenByController', 'workloads would be refused: clear spec.enforcementMode once they are in order');
  }
  if (plan.spec !== '' || input.specOwner !== 'others' || input.evaluation !== 'violations') return undefined;
  return yes(
    'SpecConflict',
    'workloads would be refused, and spec.enforcementMode "" belongs to another field manager',
  );
}

function specInvalid({ input: { phase, spec } }: EnforcementFacts): State | undefined {
  if (phase === 'Disabled' || isEnforcementMode(spec)) return undefined;
  const valid = ENFORCEMENT_MODES.map(quote).join(', ');
  return yes('UnknownEnforcementMode', `spec.enforcementMode: ${quote(spec)} is none of ${valid}; nothing changes`);
}

function missing(unlabelled: readonly string[] = []): string {
  return unlabelled.length === 0 ? '' : `; still without: ${summarizeNames(unlabelled)}`;
}

function yes(reason: string, message = ''): State {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): State {
  return { status: 'False', reason, message };
}

/** Switches enforcement on. */
export const ENFORCEMENT_GATE = 'OpenShiftPodSecurityAdmission';

/** These sets switch everything on that is in preview. */
const PREVIEWS: ReadonlySet<string> = new Set(['TechPreviewNoUpgrade', 'DevPreviewNoUpgrade']);

interface GateOptions {
  readonly name: string;
  /** Ours: components go by the entry of their own version. */
  readonly version: string;
  /** What holds where the object says nothing. */
  readonly fallback: boolean;
}

/**
 * True if a feature is on: by what the cluster computed for our version, else by its own lists, else since it takes part in
 * a preview, else by our setting.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export function isFeatureOn(object: FeatureGate | undefined, { name, version, fallback }: GateOptions): boolean {
  const { spec, status } = object ?? {};
  const computed = status?.featureGates?.find((entry) => entry.version === version);
  return say(name, namesOf(computed?.enabled), namesOf(computed?.disabled)) ?? ofSet(name, spec) ?? fallback;
}

function ofSet(name: string, spec: FeatureGate['spec']): boolean | undefined {
  const set = spec?.featureSet ?? '';
  if (set === 'CustomNoUpgrade') {
    return say(name, spec?.customNoUpgrade?.enabled ?? [], spec?.customNoUpgrade?.disabled ?? []);
  }
  return PREVIEWS.has(set) ? true : undefined;
}

/** Who says both means off. */
function say(name: string, enabled: readonly string[], disabled: readonly string[]): boolean | undefined {
  if (disabled.includes(name)) return false;
  return enabled.includes(name) ? true : undefined;
}

function namesOf(list: readonly { readonly name?: string | null }[] | null | undefined): readonly string[] {
  return list?.map(({ name }) => name ?? '') ?? [];
}

/**
 * What to tell somebody who asks for `Restricted` while workloads are known that this would refuse; `undefined` if there is
 * nothing to tell.
 */
export function forcedWarning(
  config: PSAEnforcementConfig,
  before: PSAEnforcementConfig | undefined,
): string | undefined {
  const isForced = config.spec?.enforcementMode === 'Restricted' && before?.spec?.enforcementMode !== 'Restricted';
  const violating = (before ?? config).status?.violatingNamespaces ?? [];
  const names = violating.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  if (!isForced || names.length === 0) return undefined;
  const which = `${names.length} ${names.length === 1 ? 'namespace' : 'namespaces'}`;
  return `spec.enforcementMode: Restricted enforces at once, although workloads in ${which} would be refused: ${summarizeNames(names)}`;
}

/** When the default may be raised. All times are in milliseconds on one clock. */
interface RaiseInput {
  readonly nowMs: number;
  /** Since when every managed namespace has had its label; absent: one has none. */
  readonly labelledSinceMs?: number | undefined;
  /** When enforcement was decided: labels seen before that may be old news. */
  readonly decidedAtMs?: number | undefined;
  /** When the default was raised last; absent: never. */
  readonly lastRaiseMs?: number | undefined;
  readonly settleMs: number;
}

/** At most one raise in this time, lest the default go up and down. */
const RAISE_INTERVAL_MS = 300_000;

/** True if the labels have settled and the last raise is long enough ago; else when to look again, if time alone tells. */
export function planRaise(input: RaiseInput): { readonly isSettled: boolean; readonly waitMs?: number } {
  const { nowMs, labelledSinceMs, decidedAtMs = 0, lastRaiseMs = -Infinity, settleMs } = input;
  if (labelledSinceMs === undefined) return { isSettled: false };
  const settledAtMs = Math.max(labelledSinceMs, decidedAtMs) + settleMs;
  const waitMs = Math.max(settledAtMs, lastRaiseMs + RAISE_INTERVAL_MS) - nowMs;
  return waitMs <= 0 ? { isSettled: true } : { isSettled: false, waitMs };
}

/** The owner of what the program itself writes into `spec`. */
export const ROLLOUT_MANAGER = 'PodSecurityReadinessController';

/** What an object asks for, what was decided, and who asks. An object that is missing asks for nothing. */
export function readEnforcement(
  config: PSAEnforcementConfig | undefined,
): Pick<EnforcementInput, 'spec' | 'status' | 'specOwner'> {
  const decided = config?.status?.enforcementMode ?? '';
  return {
    spec: config?.spec?.enforcementMode ?? '',
    status: isEnforcementMode(decided) ? decided : '',
    specOwner: specOwnerOf(config),
  };
}

/** Where others share the field, it is theirs. */
function specOwnerOf(config: PSAEnforcementConfig | undefined): EnforcementInput['specOwner'] {
  const owners = (config?.metadata?.managedFields ?? []).filter(({ fieldsV1 }) => ownsMode(fieldsV1));
  if (owners.length === 0) return undefined;
  return owners.every(({ manager }) => manager === ROLLOUT_MANAGER) ? 'rollout' : 'others';
}

function ownsMode(fields: unknown): boolean {
  const spec = isObject(fields) ? fields['f:spec'] : undefined;
  return isObject(spec) && spec['f:enforcementMode'] !== undefined;
}

/** What the newest evaluation came to. */
export interface SweepSummary {
  /** In milliseconds since 1970. */
  readonly endMs: number;
  readonly violating: number;
  readonly inconclusive: number;
}

interface EvaluationInput {
  readonly status: PSAEnforcementConfig['status'];
  /** Of this process; absent: none yet, so that only what is stored counts. */
  readonly newest?: SweepSummary | undefined;
  readonly nowMs: number;
  readonly maxAgeMs: number;
  /** `Ignore`: namespaces that cannot be judged do not matter. */
  readonly inconclusivePolicy: 'Block' | 'Ignore';
}

/** What is known of the namespaces, by what is stored and by the newest evaluation. */
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

/** After a restart the stored condition tells. */
function isInconclusive(status: PSAEnforcementConfig['status'], newest: SweepSummary | undefined): boolean {
  if (newest) return newest.inconclusive > 0;
  return status?.conditions?.some(({ type, reason }) => type === 'Evaluated' && reason === 'Inconclusive') === true;
}

/**
 * How far an installation takes part: not at all; it evaluates and enforces nothing; it decides and enforces. In this order
 * from the first to the last.
 */
export const ROLLOUT_PHASES = ['Disabled', 'Evaluate', 'Enforce'] as const;
export type RolloutPhase = (typeof ROLLOUT_PHASES)[number];

/**
 * What is known of the namespaces. `never`: nothing yet. `stale`: what is known is too old to act on. `inconclusive`: the
 * newest evaluation could not judge all of them.
 */
export const EVALUATION_RESULTS = ['never', 'stale', 'clean', 'violations', 'inconclusive'] as const;
export type EvaluationResult = (typeof EVALUATION_RESULTS)[number];

/** What namespaces are held to that say nothing themselves. */
export type DefaultLevel = 'privileged' | 'restricted';

/**
 * What becomes of labels that enforce. `Enforce`: they are kept. `Hold`: those that are there stay as they are. `Advise`:
 * they are given up. The labels that warn and audit are kept in every mode.
 */
export const SYNCER_MODES = ['Enforce', 'Hold', 'Advise'] as const;
export type SyncerMode = (typeof SYNCER_MODES)[number];

/** What decides about enforcement. */
export interface EnforcementInput {
  readonly phase: RolloutPhase;
  /** Whether the feature is on; absent: not known yet. */
  readonly gate?: boolean | undefined;
  /** What the administrator asks for; may be no mode at all. */
  readonly spec: string;
  /** What was decided last. */
  readonly status: EnforcementMode;
  /** Who wrote `spec.enforcementMode`; a value of others is never overwritten. Absent: nobody. */
  readonly specOwner?: 'rollout' | 'others' | undefined;
  readonly evaluation: EvaluationResult;
  /** Every managed namespace has had its label for long enough. */
  readonly isSettled: boolean;
  /** The default in force: `restricted` if it is published or any replica runs it. */
  readonly currentEnforce: DefaultLevel;
  /** The syncer's mode until now; absent: not known. */
  readonly syncer?: SyncerMode | undefined;
  /** `any age`: a result that is stale counts, and a violation that was not there when it was evaluated does not. */
  readonly acceptEvaluations?: 'fresh' | 'any age';
}

/** What follows. */
export interface EnforcementPlan {
  readonly spec: string;
  readonly status: EnforcementMode;
  /** The default to run. */
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
  /** True: enforcement is wanted; absent: that cannot be told yet. */
  readonly want?: boolean | undefined;
}
