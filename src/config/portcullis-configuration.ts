/**
 * Decodes the PortcullisConfiguration, which contains all policy settings, from a cluster object or a file. The CRD
 * contains the schema. This module checks the rules that a schema cannot express.
 */
import type { V1LabelSelector } from '@kubernetes/client-node';
import { defined } from '../kube/defined.ts';
import { withoutNulls } from '../kube/equality.ts';
import {
  duplicateValue,
  type FieldError,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
} from '../kube/field-error.ts';
import { labelKeyErrors } from '../kube/names.ts';
import { findKind, RESOURCES } from '../kube/resources.ts';
import type { Result, Wire } from '../kube/types.ts';
import { DAY_MS, parseDurationMs } from '../kube/units.ts';
import { KUBE_SYSTEM } from '../kube/well-known.ts';
import type { LabelerMode } from '../policy/olm/index.ts';
import type { WorkloadResource } from '../policy/pod/index.ts';
import {
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULT_FIELDS,
  type ExceptionSettings,
  type GuardSettings,
  type PodDefaults,
  type PodSecurity,
  type PodSecurityConfiguration,
} from '../policy/psa/index.ts';
import { parseVersion, type Version } from '../policy/pss/index.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../policy/rollout/index.ts';
import { defaultExemptNamespaces, type SccSettings, withKubeSystem } from '../policy/scc/index.ts';
import {
  DEFAULT_RANGES,
  parseMcsRange,
  parseUidRange,
  type RangeSettings,
  validateRangeSettings,
} from '../policy/uid-range/index.ts';
import { compileFields } from './ajv.ts';
import schema from './portcullis-configuration.schema.json' with { type: 'json' };

type LabelSelector = Wire<V1LabelSelector>;

/** Schema of the PortcullisConfiguration, as in its CRD. In files, unknown fields are also rejected. */
export const CONFIGURATION_SCHEMA = schema;

/** All policy settings of an installation. */
export interface Settings {
  /** Name of the cluster in reports. */
  readonly clusterName?: string | undefined;
  /** Defaults and exemptions of Pod Security Admission. */
  readonly podSecurity: PodSecurity;
  /** Exceptions from individual checks. */
  readonly exceptions: ExceptionSettings;
  /**
   * Resources, in addition to the built-in workloads, whose pod templates are evaluated for warnings and audit
   * annotations.
   */
  readonly workloadResources: readonly WorkloadResource[];
  /** Kubernetes version to emulate when evaluating Pod Security. Defaults to the API server's version. */
  readonly emulationVersion?: Version;
  readonly rollout: RolloutSettings;
  /** Security context defaults for new pods. */
  readonly defaults: PodDefaults;
  readonly scc: SccAdmissionSettings;
  readonly ranges: RangeSettings;
  readonly kubelet: KubeletSettings;
  readonly olm: OlmSettings;
  readonly disabledControllers: readonly string[];
  readonly webhooks: WebhookSettings;
  readonly floor: FloorSettings;
  /** Protection of the labels of namespaces. */
  readonly guard: GuardSettings;
}

/** The policies that API servers evaluate even while no replica responds. */
interface FloorSettings {
  readonly mode: 'off' | 'enforce';
}

/** With `managed`, the leader manages the webhook configurations. With `static`, no replica changes them. */
type WebhookManagement = 'managed' | 'static';

interface WebhookSettings {
  readonly management: WebhookManagement;
  /** Timeout of fail-closed webhooks. By default, each webhook uses its own timeout. */
  readonly timeoutSeconds?: number | undefined;
  /** With `Ignore`, the floor policies apply and pods are admitted without review while no replica responds. */
  readonly failurePolicy: 'Fail' | 'Ignore';
}

interface SccAdmissionSettings extends SccSettings {
  /** `rbac` evaluates the roles and bindings in the store. `sar` sends SubjectAccessReviews to the API server. */
  readonly authorization: 'rbac' | 'sar';
}

/** The minimum kubelet version and its enforcement. */
export interface KubeletSettings {
  /** True if the document contains `spec.kubelet`, even if it is empty. */
  readonly isOn: boolean;
  /**
   * Minimum version. If absent, there is no minimum. The `nodes.config.openshift.io` object takes precedence if it
   * exists.
   */
  readonly minimumVersion?: string;
  /**
   * With `openshift`, upgraded nodes do not regain access, new nodes cannot join, and nodes that have not reported a
   * version count as below the minimum. In addition, updates to `nodes.config.openshift.io` that keep the minimum are
   * checked.
   */
  readonly compatibility: 'portcullis' | 'openshift';
  readonly admission: {
    /** True to deny certificate requests from nodes below the minimum. */
    readonly certificates: boolean;
    /** True to deny Leases and mirror pods of nodes below the minimum. */
    readonly nodeWrites: boolean;
  };
  /** True to taint nodes below the minimum. */
  readonly taint: boolean;
  /** LabelSelector for nodes that are exempt from the minimum. If absent, no node is exempt. */
  readonly exemptNodes?: LabelSelector;
}

/** Settings for Operator Lifecycle Manager namespaces and pods. */
export interface OlmSettings {
  readonly autoLabeler: {
    /** Mode of the auto-labeler. Defaults to `managed`, or to `off` in clusters that run OpenShift's labeler. */
    readonly mode?: LabelerMode;
  };
  readonly hardening: { readonly mode: 'off' | 'report' | 'fill' | 'force' };
}

/** The installation to which the settings belong. */
export interface DecodeOptions {
  /** Names of controllers to which the settings may refer. */
  readonly controllers: readonly string[];
  /** Installation namespace, which SCC admission exempts by default. */
  readonly namespace: string;
  /** False if the SCC feature is not installed, so SCC admission is off regardless of the settings. */
  readonly hasSccs?: boolean;
}

/** Creates the default settings, which enforce only namespace labels. */
export function createDefaultSettings(options: DecodeOptions): Settings {
  return toSettings({}, options, []);
}

/** The settings, or all errors with paths from the document root. */
type DecodedSettings = { readonly settings: Settings } | { readonly errors: readonly FieldError[] };

/** Decodes a document and sets defaults. Accepts values of any type. */
export function decodeSettings(document: unknown, options: DecodeOptions): DecodedSettings {
  // Null values are removed, because server-side apply writes null when it removes the last field of an object.
  const content = withoutNulls(document);
  const malformed = validate(content);
  if (malformed.length > 0) return { errors: malformed };
  const { spec = {} } = content as { readonly spec?: Spec };
  const errors: FieldError[] = [];
  const settings = toSettings(spec, options, errors);
  return errors.length > 0 ? { errors } : { settings };
}

const validate = compileFields(schema);

/** The spec after schema validation. */
interface Spec {
  readonly clusterName?: string;
  readonly podSecurity?: {
    readonly defaults?: Partial<Record<(typeof DEFAULTS)[number][0], string>>;
    readonly exemptions?: Partial<PodSecurityConfiguration['exemptions']>;
    readonly exceptions?: Partial<Omit<ExceptionSettings, 'maxDurationMs'>> & { readonly maxDuration?: string };
    readonly workloadResources?: readonly (Omit<WorkloadResource, 'version'> & { readonly version?: string })[];
    readonly emulationVersion?: string;
  };
  readonly defaults?: Partial<Omit<PodDefaults, 'exemptNamespaces'>>;
  readonly scc?: {
    readonly mode?: SccSettings['mode'];
    readonly exemptNamespaces?: readonly string[];
    readonly compatibility?: SccSettings['compatibility'];
    readonly preferUserNamespaces?: boolean;
    readonly authorization?: 'rbac' | 'sar';
  };
  readonly namespaceRanges?: {
    readonly uidRange?: string;
    readonly mcsRange?: string;
  };
  readonly rollout?: Partial<
    Pick<RolloutSettings, 'phase' | 'enforcementDate' | 'reportApi'> &
      Readonly<Record<'evaluationInterval' | 'raiseSettleTime', string>>
  >;
  readonly kubelet?: {
    readonly minimumVersion?: string;
    readonly compatibility?: KubeletSettings['compatibility'];
    readonly admission?: Partial<KubeletSettings['admission']>;
    readonly taint?: boolean;
    readonly exemptNodes?: LabelSelector;
  };
  readonly olm?: {
    readonly autoLabeler?: Partial<OlmSettings['autoLabeler']>;
    readonly hardening?: Partial<OlmSettings['hardening']>;
  };
  readonly controllers?: { readonly disabled?: readonly string[] };
  readonly webhooks?: Partial<WebhookSettings>;
  readonly floor?: Partial<FloorSettings>;
  readonly guard?: Partial<GuardSettings>;
}

/** Maps the fields of `spec.podSecurity.defaults` to the fields in upstream's PodSecurityConfiguration. */
const DEFAULTS = [
  ['enforce', 'enforce'],
  ['enforceVersion', 'enforce-version'],
  ['audit', 'audit'],
  ['auditVersion', 'audit-version'],
  ['warn', 'warn'],
  ['warnVersion', 'warn-version'],
] as const;

function toSettings(spec: Spec, options: DecodeOptions, errors: FieldError[]): Settings {
  const rollout = toRollout(spec, errors);
  const disabledControllers = spec.controllers?.disabled ?? [];
  const emulationVersion = parseVersion(spec.podSecurity?.emulationVersion ?? 'auto');
  for (const [index, name] of disabledControllers.entries()) {
    const known = options.controllers;
    if (!known.includes(name)) errors.push(notSupported(`spec.controllers.disabled[${index}]`, name, known));
  }
  return {
    ...defined({ clusterName: spec.clusterName }),
    podSecurity: toPodSecurity(spec.podSecurity, rollout, errors),
    exceptions: toExceptions(spec.podSecurity, errors),
    workloadResources: toWorkloadResources(spec.podSecurity, errors),
    ...defined({ emulationVersion }),
    rollout,
    defaults: toDefaults(spec.defaults, options, errors),
    scc: toScc(spec.scc, options),
    ranges: toRanges(spec.namespaceRanges, errors),
    kubelet: toKubelet(spec.kubelet, errors),
    olm: toOlm(spec.olm),
    disabledControllers,
    webhooks: toWebhooks(spec, errors),
    floor: { mode: 'off', ...spec.floor },
    guard: { labels: 'off', ...spec.guard },
  };
}

/**
 * Decodes the webhook settings. Webhooks may fail open only if the leader manages both the webhooks and the floor
 * policies, which apply while no replica responds.
 */
function toWebhooks({ webhooks, floor }: Spec, errors: FieldError[]): WebhookSettings {
  const settings: WebhookSettings = { management: 'managed', failurePolicy: 'Fail', ...webhooks };
  const missing = [
    ...(floor?.mode === 'enforce' ? [] : ['spec.floor.mode enforce']),
    ...(settings.management === 'managed' ? [] : ['spec.webhooks.management managed']),
  ];
  if (settings.failurePolicy === 'Ignore' && missing.length > 0) {
    const detail = `Ignore requires ${missing.join(' and ')}: otherwise, nothing is enforced while no replica responds`;
    errors.push(forbiddenField('spec.webhooks.failurePolicy', detail));
  }
  return settings;
}

/** Decodes the Pod Security settings. The document must not set the defaults while a rollout manages them. */
function toPodSecurity(
  { defaults, exemptions }: NonNullable<Spec['podSecurity']> = {},
  { phase }: RolloutSettings,
  errors: FieldError[],
): PodSecurity {
  if (phase !== 'Disabled' && defaults !== undefined) {
    const detail = `cannot be set in rollout phase ${phase}, which manages the defaults`;
    errors.push(forbiddenField('spec.podSecurity.defaults', detail));
  }
  const levels = DEFAULTS.flatMap(([field, upstream]) => {
    const value = defaults?.[field];
    return value === undefined ? [] : [[upstream, value] as const];
  });
  return createPodSecurity({
    defaults: { ...DEFAULT_CONFIGURATION.defaults, ...Object.fromEntries(levels) },
    exemptions: { ...DEFAULT_CONFIGURATION.exemptions, ...exemptions },
  });
}

const DEFAULT_DURATION_MS = 90 * DAY_MS;

/** Minimum of evaluation intervals and of durations of exceptions, as in the CRD. */
const MIN_DURATION_MS = 60_000;

function toExceptions(
  { exceptions: { maxDuration, ...settings } = {} }: NonNullable<Spec['podSecurity']> = {},
  errors: FieldError[],
): ExceptionSettings {
  const maxDurationMs = durationMs('podSecurity.exceptions.maxDuration', maxDuration, errors) ?? DEFAULT_DURATION_MS;
  if (maxDurationMs < MIN_DURATION_MS) {
    errors.push(invalidValue('spec.podSecurity.exceptions.maxDuration', maxDuration, 'must be at least 1m'));
  }
  const defaults = {
    mode: 'off',
    forbiddenChecks: [],
    namespaces: [],
    selfApproval: false,
    trustedApprovers: [],
  } as const;
  return { ...defaults, ...settings, maxDurationMs };
}

function toWorkloadResources(
  { workloadResources = [] }: NonNullable<Spec['podSecurity']> = {},
  errors: FieldError[],
): readonly WorkloadResource[] {
  const names = workloadResources.map(({ group, resource }) => `${resource}.${group}`);
  for (const [index, { group, resource }] of workloadResources.entries()) {
    const path = `spec.podSecurity.workloadResources[${index}]`;
    const name = names[index] ?? '';
    const kind = findKind({ group, resource });
    if (kind !== undefined && RESOURCES[kind].podTemplate) {
      errors.push(invalidValue(path, name, 'is reviewed without this setting: remove it'));
    } else if (names.indexOf(name) < index) errors.push(duplicateValue(path, name));
  }
  return workloadResources.map((resource) => ({ version: '*', ...resource }));
}

function toDefaults(settings: Spec['defaults'] = {}, { namespace }: DecodeOptions, errors: FieldError[]): PodDefaults {
  errors.push(...findSelectorErrors('spec.defaults.namespaceSelector', settings.namespaceSelector ?? {}));
  return {
    mode: 'off',
    fields: DEFAULT_FIELDS,
    namespaceSelector: {},
    ...settings,
    exemptNamespaces: [KUBE_SYSTEM, namespace],
  };
}

function toScc(scc: Spec['scc'] = {}, { namespace, hasSccs = true }: DecodeOptions): SccAdmissionSettings {
  return {
    mode: hasSccs ? (scc.mode ?? 'report') : 'off',
    exemptNamespaces: withKubeSystem(scc.exemptNamespaces ?? defaultExemptNamespaces(namespace)),
    compatibility: scc.compatibility ?? 'portcullis',
    preferUserNamespaces: scc.preferUserNamespaces ?? false,
    authorization: scc.authorization ?? 'rbac',
  };
}

function toRanges(ranges: Spec['namespaceRanges'] = {}, errors: FieldError[]): RangeSettings {
  const read = <T>(field: 'uidRange' | 'mcsRange', parse: (text: string) => Result<T>, fallback: T): T => {
    const text = ranges[field];
    if (text === undefined) return fallback;
    const result = parse(text);
    if ('value' in result) return result.value;
    errors.push(invalidValue(`spec.namespaceRanges.${field}`, text, result.error));
    return fallback;
  };
  const settings: RangeSettings = {
    uidRange: read('uidRange', parseUidRange, DEFAULT_RANGES.uidRange),
    mcsRange: read('mcsRange', parseMcsRange, DEFAULT_RANGES.mcsRange),
    labelsPerBlock: DEFAULT_RANGES.labelsPerBlock,
  };
  const problem = validateRangeSettings(settings);
  if (problem !== undefined) errors.push(invalidValue('spec.namespaceRanges', ranges, problem));
  return settings;
}

const MINIMUM_VERSION = /^(?:(?:0|[1-9]\d*)\.){2}(?:0|[1-9]\d*)$/;

const VERSION_FORMAT = 'must be in a semver compatible format of x.y.z, or empty';

function toKubelet(kubelet: Spec['kubelet'], errors: FieldError[]): KubeletSettings {
  const { minimumVersion = '', compatibility = 'portcullis', exemptNodes, admission, taint = false } = kubelet ?? {};
  if (minimumVersion !== '' && !MINIMUM_VERSION.test(minimumVersion)) {
    errors.push(invalidValue('spec.kubelet.minimumVersion', minimumVersion, VERSION_FORMAT));
  }
  if (exemptNodes) {
    const isEmpty = Object.values(exemptNodes).every((requirements) => Object.keys(requirements).length === 0);
    const detail = 'must have a requirement: an empty selector exempts all nodes';
    errors.push(
      ...(isEmpty ? [invalidValue('spec.kubelet.exemptNodes', exemptNodes, detail)] : []),
      ...findSelectorErrors('spec.kubelet.exemptNodes', exemptNodes),
    );
  }
  return {
    isOn: kubelet !== undefined,
    ...(minimumVersion === '' ? {} : { minimumVersion }),
    compatibility,
    admission: { certificates: false, nodeWrites: false, ...admission },
    taint,
    ...(exemptNodes ? { exemptNodes } : {}),
  };
}

/** Returns the errors of a label selector that the schema cannot express. */
function findSelectorErrors(path: string, { matchLabels = {}, matchExpressions = [] }: LabelSelector): FieldError[] {
  return [
    ...Object.keys(matchLabels).flatMap((key) => {
      const [problem] = labelKeyErrors(key);
      return problem === undefined ? [] : [invalidValue(`${path}.matchLabels`, key, problem)];
    }),
    ...matchExpressions.flatMap(({ operator, values = [] }, index) => {
      const at = `${path}.matchExpressions[${index}].values`;
      const needsValues = operator === 'In' || operator === 'NotIn';
      if (needsValues === values.length > 0) return [];
      return needsValues
        ? [requiredField(at, "must be specified when `operator` is 'In' or 'NotIn'")]
        : [forbiddenField(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")];
    }),
  ];
}

function toOlm({ autoLabeler = {}, hardening }: Spec['olm'] = {}): OlmSettings {
  return {
    autoLabeler,
    hardening: { mode: 'off', ...hardening },
  };
}

const MAX_SETTLE_MS = 3_600_000;

function toRollout({ rollout = {} }: Spec, errors: FieldError[]): RolloutSettings {
  const { evaluationInterval, raiseSettleTime, ...others } = rollout;
  const evaluationIntervalMs =
    durationMs('rollout.evaluationInterval', evaluationInterval, errors) ?? DEFAULT_ROLLOUT.evaluationIntervalMs;
  const invalid = (field: keyof typeof rollout, detail: string): void =>
    void errors.push(invalidValue(`spec.rollout.${field}`, rollout[field], detail));
  const settings: RolloutSettings = {
    ...DEFAULT_ROLLOUT,
    ...others,
    evaluationIntervalMs,
    maxEvaluationAgeMs: 2 * evaluationIntervalMs,
    raiseSettleMs: durationMs('rollout.raiseSettleTime', raiseSettleTime, errors) ?? DEFAULT_ROLLOUT.raiseSettleMs,
  };
  if (settings.enforcementDate !== undefined && !isDate(settings.enforcementDate)) {
    invalid('enforcementDate', 'must be a date such as 2027-01-31');
  }
  if (settings.evaluationIntervalMs < MIN_DURATION_MS) invalid('evaluationInterval', 'must be at least 1m');
  if (settings.raiseSettleMs > MAX_SETTLE_MS) invalid('raiseSettleTime', 'must be at most 1h');
  return settings;
}

/** Reads a duration whose format matches the schema. `field` is its path in the spec. */
function durationMs(field: string, text: string | undefined, errors: FieldError[]): number | undefined {
  const ms = text === undefined ? undefined : parseDurationMs(text);
  if (text !== undefined && ms === undefined)
    errors.push(invalidValue(`spec.${field}`, text, 'must be at most 2562047h, the longest duration in Kubernetes'));
  return ms;
}

/** Returns true for a valid date. `Date.parse` accepts February 30 and returns a day in March. */
function isDate(text: string): boolean {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}
