/**
 * The state machine for the enforcement rollout. It determines whether the cluster enforces the Pod Security Standards
 * by default, and in which order the default level and the namespace labels change.
 */
import {
  type EnforcementMode,
  isEnforcementMode,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { isObject, objectMember, type JsonObject, type FeatureGate } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';
import type { PodSecurityConfiguration } from '../psa/index.ts';
import type { RolloutPhase } from './settings.ts';

/**
 * Result of evaluating the namespaces. `never` means that there has been no evaluation, `stale` means that the last one
 * is too old, and `inconclusive` means that it has no verdict for some namespaces.
 */
export type EvaluationResult = 'never' | 'stale' | 'clean' | 'violations' | 'inconclusive';

/** The level of unlabeled namespaces. */
export type DefaultLevel = 'privileged' | 'restricted';

/**
 * Determines how the label syncer handles enforce labels. It maintains them in `Enforce` mode, leaves existing ones
 * unchanged in `Hold` mode, and removes those that it owns in `Advise` mode. The syncer maintains warn and audit labels
 * in every mode.
 */
export const SYNCER_MODES = ['Enforce', 'Hold', 'Advise'] as const;
export type SyncerMode = (typeof SYNCER_MODES)[number];

export interface EnforcementInput {
  readonly phase: RolloutPhase;
  readonly gate: boolean;
  /** Requested mode (`spec.enforcementMode`), which may be invalid. */
  readonly spec: string;
  /** Decided mode (`status.enforcementMode`). */
  readonly status: EnforcementMode;
  /** Owner of `spec.enforcementMode`. The controller never overwrites a value that another manager owns. */
  readonly specOwner?: 'rollout' | 'others' | undefined;
  readonly evaluation: EvaluationResult;
  /** True if every managed namespace has had its label for the settle time. */
  readonly isSettled: boolean;
  /** The effective default, which is `restricted` if that level is published or any replica enforces it. */
  readonly currentEnforce: DefaultLevel;
}

export interface EnforcementPlan {
  readonly spec: string;
  readonly status: EnforcementMode;
  /** Default level to publish. */
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
  /** True if enforcement is desired. */
  readonly want: boolean;
}

/** Plans the modes, the default level and the syncer mode. Planning is idempotent. */
export function planEnforcement(input: EnforcementInput): EnforcementPlan {
  const { spec, status } = decideEnforcement(input);
  const want = isEnforcementDesired({ ...input, status });
  return { spec, status, want, ...planEffect({ ...input, want }) };
}

/**
 * Decides the modes. It never overwrites a requested mode, and an invalid requested mode changes nothing. It ignores
 * the feature gate, so the gate can be disabled and enabled again without another evaluation.
 */
function decideEnforcement(input: EnforcementInput): Pick<EnforcementPlan, 'spec' | 'status'> {
  const { phase, spec, status, evaluation } = input;
  if (phase === 'Disabled') return { spec, status };
  if (phase === 'Evaluate') return { spec: evaluation === 'violations' ? proposeLegacy(input) : spec, status: '' };
  if (!isEnforcementMode(spec)) return { spec, status };
  if (spec !== '') return { spec, status: spec };
  return status === 'Restricted' ? { spec, status } : decideByEvaluation(input);
}

/** Decides the modes while no mode is requested. Only an evaluation can change the decision in this case. */
function decideByEvaluation(input: EnforcementInput): Pick<EnforcementPlan, 'spec' | 'status'> {
  const { spec, status, evaluation } = input;
  if (evaluation === 'clean') return { spec, status: 'Restricted' };
  return evaluation === 'violations' ? { spec: proposeLegacy(input), status: 'Legacy' } : { spec, status };
}

/** Returns `Legacy`, or the unchanged mode if it is not empty or if another manager owns the empty value. */
function proposeLegacy({ spec, specOwner }: EnforcementInput): string {
  return spec === '' && specOwner !== 'others' ? 'Legacy' : spec;
}

/**
 * Returns true if enforcement is desired. Every replica computes this on its own, so a requested `Legacy` mode takes
 * effect even before a leader has made a decision.
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
 * Returns the default level and the syncer mode. The default is raised only after the labels are written, and lowered
 * before they are removed. While the default is restricted, every namespace therefore has the label that its pods need.
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

/** A default level that is published or that a replica enforces, and its generation. */
export interface PublishedLevel {
  readonly level: DefaultLevel;
  /** Generation of the level. 0 if nothing has been published yet. */
  readonly generation: number;
}

/**
 * Returns the strictest default that any replica may enforce. A replica that has an older generation may still enforce
 * the restricted level. If the default was never raised, no replica enforces that level.
 */
export function defaultInForce(
  published: PublishedLevel,
  replicas: readonly PublishedLevel[],
  wasRaised: boolean,
): DefaultLevel {
  if (!wasRaised) return published.level;
  const isPossible =
    published.generation === 0 ||
    [published, ...replicas].some(
      (replica) => replica.level === 'restricted' || replica.generation < published.generation,
    );
  return isPossible ? 'restricted' : 'privileged';
}

/**
 * Returns true if there is at least one replica and all replicas enforce the restricted default of the published
 * generation.
 */
export function areAllRaised({ generation }: PublishedLevel, replicas: readonly PublishedLevel[]): boolean {
  return (
    replicas.length > 0 &&
    replicas.every((replica) => replica.level === 'restricted' && replica.generation >= generation)
  );
}

/** All times are in milliseconds on the same clock. */
interface RaiseInput {
  readonly nowMs: number;
  /** Time since which every managed namespace has had its label. Absent if a namespace lacks its label. */
  readonly labeledSinceMs?: number | undefined;
  /** Time since which enforcement has been desired. Labels that were observed earlier may be outdated. */
  readonly decidedAtMs?: number | undefined;
  /** Time when the default was last raised. */
  readonly lastRaiseMs?: number | undefined;
  readonly settleMs: number;
}

/** Minimum time between raises, which prevents the default from flapping. */
export const RAISE_INTERVAL_MS = 300_000;

/**
 * Returns true if the labels have settled and the last raise was long enough ago. `waitMs` is the remaining delay if
 * all other conditions are met.
 */
export function planRaise(input: RaiseInput): { readonly isSettled: boolean; readonly waitMs?: number } {
  const { nowMs, labeledSinceMs, decidedAtMs = 0, lastRaiseMs = -Infinity, settleMs } = input;
  if (labeledSinceMs === undefined) return { isSettled: false };
  const settledAtMs = Math.max(labeledSinceMs, decidedAtMs) + settleMs;
  const waitMs = Math.max(settledAtMs, lastRaiseMs + RAISE_INTERVAL_MS) - nowMs;
  return waitMs <= 0 ? { isSettled: true } : { isSettled: false, waitMs };
}

/** Returns the warning, if any, about a write to a PSAEnforcementConfig. Its fields have not been validated yet. */
export function enforcementWarning(object: unknown, oldObject: unknown): string | undefined {
  const config = readConfig(object);
  return config && forcedWarning(config, readConfig(oldObject));
}

/** Reads the fields that the warning needs from an unvalidated object. */
function readConfig(value: unknown): PSAEnforcementConfig | undefined {
  if (!isObject(value)) return undefined;
  const mode = objectMember(value, 'spec')['enforcementMode'];
  const violating = objectMember(value, 'status')['violatingNamespaces'];
  const entries: readonly unknown[] = Array.isArray(violating) ? violating : [];
  return {
    spec: typeof mode === 'string' ? { enforcementMode: mode } : {},
    status: {
      violatingNamespaces: entries.flatMap((entry) =>
        isObject(entry) && typeof entry['name'] === 'string'
          ? [{ name: entry['name'], state: entry['state'] === 'Previous' ? 'Previous' : 'Current' }]
          : [],
      ),
    },
  };
}

/** Returns the warning for requesting `Restricted` mode despite known violations, or `undefined` if there are none. */
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

/** Name of the readiness controller, and field manager of the modes that it writes. */
export const ROLLOUT_MANAGER = 'PodSecurityReadinessController';

/** Returns the requested and decided modes in the configuration object. If there is no object, no mode is requested. */
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

/** Returns the owner of the mode. If several managers own the field, they are treated as another manager. */
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
  /** End of the evaluation in milliseconds since the epoch. */
  readonly endMs: number;
  readonly violating: number;
  readonly inconclusive: number;
}

interface EvaluationInput {
  readonly status: PSAEnforcementConfig['status'];
  /** The last evaluation in this process. Defaults to the stored result. */
  readonly newest?: SweepSummary | undefined;
  readonly nowMs: number;
  readonly maxAgeMs: number;
}

/** Returns the combined result of the stored evaluation and the newest evaluation. */
export function getEvaluationResult({ status, newest, nowMs, maxAgeMs }: EvaluationInput): EvaluationResult {
  const isFresh = (ms: number): boolean => Math.abs(nowMs - ms) <= maxAgeMs;
  const storedMs = parseTimestamp(status?.lastEvaluationTime);
  const hasEntries = status?.violatingNamespaces?.some(({ state }) => state !== 'Previous') === true;
  if (newest && newest.violating > 0 && isFresh(newest.endMs)) return 'violations';
  if (hasEntries && storedMs !== undefined && isFresh(storedMs)) return 'violations';
  if (isInconclusive(status, newest)) return 'inconclusive';
  if (storedMs === undefined) return 'never';
  return isFresh(storedMs) ? 'clean' : 'stale';
}

/** Returns true if the newest evaluation is inconclusive. After a restart, falls back to the stored condition. */
function isInconclusive(status: PSAEnforcementConfig['status'], newest: SweepSummary | undefined): boolean {
  if (newest) return newest.inconclusive > 0;
  return status?.conditions?.some(({ type, reason }) => type === 'Evaluated' && reason === 'Inconclusive') === true;
}

// The Pod Security configuration that the rollout publishes

/** Returns the defaults for an enforced level. The audit and warn levels are always restricted. */
export function podSecurityDefaultsFor(enforce: DefaultLevel): PodSecurityConfiguration['defaults'] {
  return {
    enforce,
    'enforce-version': 'latest',
    audit: 'restricted',
    'audit-version': 'latest',
    warn: 'restricted',
    'warn-version': 'latest',
  };
}

/**
 * Returns an `--admission-control-config-file` that makes kube-apiserver enforce the same defaults.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export function buildAdmissionConfiguration(
  defaults: PodSecurityConfiguration['defaults'],
  exemptions?: PodSecurityConfiguration['exemptions'],
): JsonObject {
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults,
          ...(exemptions ? { exemptions } : {}),
        },
      },
    ],
  };
}

// Feature gates of OpenShift clusters

/** The feature gate for enforcement. */
export const ENFORCEMENT_GATE = 'OpenShiftPodSecurityAdmission';

/** Feature sets that enable all preview features. */
const PREVIEWS: ReadonlySet<string> = new Set(['TechPreviewNoUpgrade', 'DevPreviewNoUpgrade']);

interface GateOptions {
  readonly name: string;
  /** The Portcullis version. Each component reads the entry for its own version. */
  readonly version: string;
  /** The state of the feature if the object does not specify it. */
  readonly fallback: boolean;
}

/**
 * Returns true if a feature is enabled. The computed entry for the version takes precedence, followed by the custom
 * lists, the feature set, and the fallback.
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

/** Finds a feature in the lists. A feature that is in both lists is disabled. */
function findIn(name: string, enabled: readonly string[], disabled: readonly string[]): boolean | undefined {
  if (disabled.includes(name)) return false;
  return enabled.includes(name) ? true : undefined;
}

function names(list: readonly { readonly name?: string | null }[] | null | undefined): readonly string[] {
  return list?.map(({ name }) => name ?? '') ?? [];
}
