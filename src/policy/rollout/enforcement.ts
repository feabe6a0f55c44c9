/**
 * The rollout of enforcement as a state machine: whether the cluster enforces the Pod Security Standards by default, and in
 * which order the default level and the labels of namespaces change.
 */
import type { ConditionState } from '../../kube/conditions.ts';
import {
  ENFORCEMENT_MODES,
  isEnforcementMode,
  type EnforcementMode,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';
import { printCount, quote, summarizeNames } from '../../kube/text.ts';
import { isObject, type FeatureGate } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';
import type { InconclusivePolicy, RolloutPhase } from './settings.ts';

/**
 * The state of the evaluation of namespaces. `never`: no evaluation exists. `stale`: the last one is too old.
 * `inconclusive`: the last one has no verdict for some namespaces.
 */
export const EVALUATION_RESULTS = ['never', 'stale', 'clean', 'violations', 'inconclusive'] as const;
export type EvaluationResult = (typeof EVALUATION_RESULTS)[number];

/** The level that applies to namespaces without a label. */
export type DefaultLevel = 'privileged' | 'restricted';

/**
 * The handling of enforce labels by the label syncer. `Enforce`: maintains them. `Hold`: leaves existing ones
 * unchanged. `Advise`: removes its own. Warn and audit labels are maintained in every mode.
 */
export const SYNCER_MODES = ['Enforce', 'Hold', 'Advise'] as const;
export type SyncerMode = (typeof SYNCER_MODES)[number];

export interface EnforcementInput {
  readonly phase: RolloutPhase;
  /** State of the feature gate. */
  readonly gate: boolean;
  /** The requested mode, `spec.enforcementMode`; may be invalid. */
  readonly spec: string;
  /** The decided mode, `status.enforcementMode`. */
  readonly status: EnforcementMode;
  /** Owner of `spec.enforcementMode`. A value of others is never overwritten. */
  readonly specOwner?: 'rollout' | 'others' | undefined;
  readonly evaluation: EvaluationResult;
  /** True if every managed namespace has had its label for the settle time. */
  readonly isSettled: boolean;
  /** The default in force: `restricted` if it is published or any replica runs it. */
  readonly currentEnforce: DefaultLevel;
  /** `any age`: a stale evaluation counts, and later violations do not. */
  readonly acceptEvaluations?: 'fresh' | 'any age';
}

export interface EnforcementPlan {
  readonly spec: string;
  readonly status: EnforcementMode;
  /** The default level to publish. */
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
  /** Whether enforcement is desired. */
  readonly want: boolean;
}

/** Plans the modes, the default level and the mode of the syncer. Planning again without a change gives the same plan. */
export function planEnforcement(input: EnforcementInput): EnforcementPlan {
  const { spec, status } = decideEnforcement(input);
  const want = isEnforcementDesired({ ...input, status });
  return { spec, status, want, ...planEffect({ ...input, want }) };
}

/**
 * Decides the modes. A requested mode is never overwritten, and an invalid one changes nothing. The feature gate does not
 * count here, so that it can be switched off and on again without another evaluation.
 */
function decideEnforcement(input: EnforcementInput): Pick<EnforcementPlan, 'spec' | 'status'> {
  const { phase, spec, status, evaluation } = input;
  if (phase === 'Disabled') return { spec, status };
  if (phase === 'Evaluate') return { spec: evaluation === 'violations' ? proposeLegacy(input) : spec, status: '' };
  if (!isEnforcementMode(spec)) return { spec, status };
  if (spec !== '') return { spec, status: spec };
  return status === 'Restricted' ? { spec, status } : decideByEvaluation(input);
}

/** Without a requested mode, only an evaluation can change the decision. */
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
 * Whether enforcement is desired. Every replica evaluates this itself: a requested `Legacy` takes effect before a
 * leader has decided.
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
 * The default level and the mode of the syncer. Before the default is raised, labels are written; before labels are
 * removed, the default is lowered. A namespace always has the label that its pods need while the default is restricted.
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

/** The default level that is published, or that a replica runs, and its generation. */
export interface PublishedLevel {
  readonly level: DefaultLevel;
  /** 0 before anything is published. */
  readonly generation: number;
}

/**
 * The default in force in any replica. A replica with an older generation may still run restricted. A default that was never
 * raised is in force nowhere.
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

/** True if replicas exist and all of them run the restricted default of the published generation. */
export function areAllRaised({ generation }: PublishedLevel, replicas: readonly PublishedLevel[]): boolean {
  return replicas.length > 0 && replicas.every((one) => one.level === 'restricted' && one.generation >= generation);
}

/** All times are in milliseconds on one clock. */
interface RaiseInput {
  readonly nowMs: number;
  /** Since when every managed namespace has had its label; absent if one has none. */
  readonly labeledSinceMs?: number | undefined;
  /** Since when enforcement has been desired. Labels that were observed before may be outdated. */
  readonly decidedAtMs?: number | undefined;
  /** When the default was last raised. */
  readonly lastRaiseMs?: number | undefined;
  readonly settleMs: number;
}

/** At most one raise in this time prevents a default that changes back and forth. */
export const RAISE_INTERVAL_MS = 300_000;

/** True if the labels have settled and the last raise is long enough ago. `waitMs` is the delay if only time is missing. */
export function planRaise(input: RaiseInput): { readonly isSettled: boolean; readonly waitMs?: number } {
  const { nowMs, labeledSinceMs, decidedAtMs = 0, lastRaiseMs = -Infinity, settleMs } = input;
  if (labeledSinceMs === undefined) return { isSettled: false };
  const settledAtMs = Math.max(labeledSinceMs, decidedAtMs) + settleMs;
  const waitMs = Math.max(settledAtMs, lastRaiseMs + RAISE_INTERVAL_MS) - nowMs;
  return waitMs <= 0 ? { isSettled: true } : { isSettled: false, waitMs };
}

/** The state of the cluster that the current conditions describe. */
export interface CurrentState
  extends
    Pick<EnforcementInput, 'phase' | 'gate' | 'spec' | 'status' | 'specOwner' | 'evaluation' | 'currentEnforce'>,
    Pick<EnforcementPlan, 'enforce' | 'syncer' | 'want'>,
    Pick<EnforcementFacts, 'unlabeled' | 'unreleased'> {
  /** Generation of the published configuration. */
  readonly generation: number;
  /** What each live replica runs. */
  readonly replicas: readonly PublishedLevel[];
}

/** The default is in force once every replica runs it. */
const ROLLING_OUT = {
  status: 'False',
  reason: 'RollingOutConfiguration',
  message: 'replicas change to the default level restricted',
} as const;

/** The conditions of the current state, without another decision. */
export function currentConditions(state: CurrentState): readonly ConditionState[] {
  const { spec, status, want, enforce, syncer, generation, replicas, unlabeled, unreleased = [] } = state;
  const isRollingOut = enforce === 'restricted' && !areAllRaised({ level: enforce, generation }, replicas);
  return enforcementConditions({
    input: { ...state, isSettled: false, currentEnforce: isRollingOut ? 'privileged' : state.currentEnforce },
    plan: { spec, status, want, enforce, syncer },
    ...(unlabeled && { unlabeled }),
    unreleased: want ? [] : unreleased,
  }).map((one) => (isRollingOut && one.type === 'Enforcing' ? { ...one, ...ROLLING_OUT } : one));
}

/** The state that the conditions describe, in addition to the plan. */
interface EnforcementFacts {
  readonly input: EnforcementInput;
  readonly plan: EnforcementPlan;
  /** RFC 3339. */
  readonly lastEvaluationTime?: string | undefined;
  readonly violating?: readonly string[];
  /** Number of workloads whose running pods need a restart. */
  readonly restarts?: number;
  /** Managed namespaces without their label. */
  readonly unlabeled?: readonly string[];
  /** Namespaces from which the syncer has to remove its enforce label. */
  readonly unreleased?: readonly string[];
}

type State = Omit<ConditionState, 'type'>;

/** The conditions of the configuration object. Conditions that do not apply are absent. */
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
  inconclusive: { reason: 'Inconclusive', message: 'some namespaces could not be evaluated' },
  clean: undefined,
  violations: undefined,
};

function evaluated({ input, lastEvaluationTime }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (!incomplete)
    return yes('Completed', lastEvaluationTime && `all namespaces were evaluated at ${lastEvaluationTime}`);
  return no(incomplete.reason, incomplete.message);
}

function violationsDetected({ input, violating = [], restarts = 0 }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (incomplete) return { status: 'Unknown', ...incomplete };
  const older =
    restarts === 0
      ? ''
      : `; running pods of ${printCount(restarts, 'workload')} violate the level, but new ones comply: restart them`;
  if (input.evaluation === 'clean') {
    return no(restarts === 0 ? 'NoViolations' : 'RestartsPending', `no workload would be denied${older}`);
  }
  return yes(
    'ViolatingNamespaces',
    `workloads in ${printCount(violating.length, 'namespace')} would be denied: ${summarizeNames(violating)}${older}`,
  );
}

function enforcing({ input, plan, unlabeled }: EnforcementFacts): State {
  const { phase, gate } = input;
  const { spec, status, enforce } = plan;
  if (phase === 'Evaluate') return no('PhaseNotEnforcing', 'phase Evaluate enforces nothing');
  if (phase === 'Enforce' && status !== 'Restricted') {
    return spec === 'Legacy' || (status === 'Legacy' && !isWaiting(input, plan))
      ? no('LegacyMode', 'mode Legacy enforces nothing')
      : no('AwaitingEvaluation', 'enforcement waits for an evaluation of all namespaces');
  }
  if (!gate) return no('FeatureGateDisabled', 'the feature gate is off');
  if (enforce === 'restricted') return yes('Restricted', 'the level restricted applies to namespaces without a label');
  return no('LabelingNamespaces', `the default level is raised after all namespaces are labeled${missing(unlabeled)}`);
}

function progressing(facts: EnforcementFacts): State {
  const { input, plan, unlabeled, unreleased = [] } = facts;
  const { want, enforce } = plan;
  if (enforce === 'privileged' && input.currentEnforce === 'restricted') {
    return yes('RevertingConfiguration', 'replicas change to the default level privileged');
  }
  if (enforce === 'restricted' && input.currentEnforce === 'privileged') {
    return yes('RollingOutConfiguration', 'replicas change to the default level restricted');
  }
  if (want && enforce === 'privileged') {
    return yes('LabelingNamespaces', `namespaces are being labeled${missing(unlabeled)}`);
  }
  if (!want && unreleased.length > 0) {
    return yes('ReleasingLabels', `enforce labels are being removed from ${summarizeNames(unreleased)}`);
  }
  if (isWaiting(input, plan)) return yes('EvaluationPending', 'the decision waits for an evaluation of all namespaces');
  return no('AsExpected');
}

/** True if no mode is requested and the evaluation does not decide. */
function isWaiting({ phase, evaluation }: EnforcementInput, { spec, status }: EnforcementPlan): boolean {
  return phase === 'Enforce' && spec === '' && status !== 'Restricted' && evaluation !== 'violations';
}

function legacyProposed({ input, plan }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  if (plan.spec === 'Legacy' && (input.spec === '' || input.specOwner === 'rollout')) {
    return yes(
      'WrittenByController',
      input.evaluation === 'clean'
        ? 'no workload would be denied any more: clear spec.enforcementMode'
        : 'workloads would be denied: clear spec.enforcementMode after they are fixed',
    );
  }
  if (plan.spec !== '' || input.specOwner !== 'others' || input.evaluation !== 'violations') return undefined;
  return yes('SpecConflict', 'workloads would be denied, and spec.enforcementMode "" belongs to another field manager');
}

function specInvalid({ input: { phase, spec } }: EnforcementFacts): State | undefined {
  if (phase === 'Disabled' || isEnforcementMode(spec)) return undefined;
  const valid = ENFORCEMENT_MODES.map(quote).join(', ');
  return yes(
    'UnknownEnforcementMode',
    `spec.enforcementMode: ${quote(spec)} is not one of ${valid}; the state is not changed`,
  );
}

function missing(unlabeled: readonly string[] = []): string {
  return unlabeled.length === 0 ? '' : `; missing: ${summarizeNames(unlabeled)}`;
}

function yes(reason: string, message = ''): State {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): State {
  return { status: 'False', reason, message };
}

/** The feature gate of enforcement. */
export const ENFORCEMENT_GATE = 'OpenShiftPodSecurityAdmission';

/** Feature sets that enable all features in preview. */
const PREVIEWS: ReadonlySet<string> = new Set(['TechPreviewNoUpgrade', 'DevPreviewNoUpgrade']);

interface GateOptions {
  readonly name: string;
  /** Version of the program. Components read the entry of their own version. */
  readonly version: string;
  /** The value if the object does not decide. */
  readonly fallback: boolean;
}

/**
 * The state of a feature: by the computed entry of the version, else by the custom lists, else by the feature set, else the
 * fallback.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export function isFeatureOn(object: FeatureGate | undefined, { name, version, fallback }: GateOptions): boolean {
  const { spec, status } = object ?? {};
  const computed = status?.featureGates?.find((entry) => entry.version === version);
  return findIn(name, names(computed?.enabled), names(computed?.disabled)) ?? findInSet(name, spec) ?? fallback;
}

function findInSet(name: string, spec: FeatureGate['spec']): boolean | undefined {
  const set = spec?.featureSet ?? '';
  if (set === 'CustomNoUpgrade') {
    return findIn(name, spec?.customNoUpgrade?.enabled ?? [], spec?.customNoUpgrade?.disabled ?? []);
  }
  return PREVIEWS.has(set) ? true : undefined;
}

/** A feature in both lists is disabled. */
function findIn(name: string, enabled: readonly string[], disabled: readonly string[]): boolean | undefined {
  if (disabled.includes(name)) return false;
  return enabled.includes(name) ? true : undefined;
}

function names(list: readonly { readonly name?: string | null }[] | null | undefined): readonly string[] {
  return list?.map(({ name }) => name ?? '') ?? [];
}

/** The warning for a request of `Restricted` despite known violations; `undefined` if there is nothing to warn of. */
export function forcedWarning(
  config: PSAEnforcementConfig,
  before: PSAEnforcementConfig | undefined,
): string | undefined {
  const isForced = config.spec?.enforcementMode === 'Restricted' && before?.spec?.enforcementMode !== 'Restricted';
  const violating = (before ?? config).status?.violatingNamespaces ?? [];
  const names = violating.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  if (!isForced || names.length === 0) return undefined;
  return `spec.enforcementMode: Restricted enforces at once, although workloads in ${printCount(names.length, 'namespace')} would be denied: ${summarizeNames(names)}`;
}

/** Name of the readiness controller and field manager of the modes that it writes. */
export const ROLLOUT_MANAGER = 'PodSecurityReadinessController';

/** The requested and the decided mode of the configuration object. A missing object requests nothing. */
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

/** A field with several owners belongs to the others. */
function findSpecOwner(config: PSAEnforcementConfig | undefined): EnforcementInput['specOwner'] {
  const owners = (config?.metadata?.managedFields ?? []).filter(({ fieldsV1 }) => ownsMode(fieldsV1));
  if (owners.length === 0) return undefined;
  return owners.every(({ manager }) => manager === ROLLOUT_MANAGER) ? 'rollout' : 'others';
}

function ownsMode(fields: unknown): boolean {
  const spec = isObject(fields) ? fields['f:spec'] : undefined;
  return isObject(spec) && spec['f:enforcementMode'] !== undefined;
}

/** The summary of an evaluation of all namespaces. */
export interface SweepSummary {
  /** Milliseconds since 1970. */
  readonly endMs: number;
  readonly violating: number;
  readonly inconclusive: number;
}

interface EvaluationInput {
  readonly status: PSAEnforcementConfig['status'];
  /** The last evaluation of this process. Without one, the stored result counts. */
  readonly newest?: SweepSummary | undefined;
  readonly nowMs: number;
  readonly maxAgeMs: number;
  readonly inconclusivePolicy: InconclusivePolicy;
}

/** The result of the stored and of the newest evaluation. */
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

/** After a restart, the stored condition counts. */
function isInconclusive(status: PSAEnforcementConfig['status'], newest: SweepSummary | undefined): boolean {
  if (newest) return newest.inconclusive > 0;
  return status?.conditions?.some(({ type, reason }) => type === 'Evaluated' && reason === 'Inconclusive') === true;
}
