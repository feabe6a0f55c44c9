/** Defaults and validates SCC objects on create and update. */
import {
  type FieldError,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  tooMany,
} from '../../kube/field-error.ts';
import type { FieldShapes } from '../../kube/field-shape.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { type GroupStrategyOptions, SCC_FIELDS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';
import { MAX_ERRORS } from './budget.ts';
import { VOLUME_TYPES } from './pod.ts';
import { decodeScc, type GroupFields, type Range, type SccFields } from './scc-fields.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';

const PATTERN = '([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]';
const IS_PATTERN = new RegExp(`^${PATTERN}$`);
const MAX_LENGTH = 253;
/**
 * Limits the number of patterns, because every pattern is compared with every other pattern. Linux has few more sysctls
 * than this.
 */
const MAX_PATTERNS = 1000;

function sysctlListErrors(path: string, patterns: readonly string[]): readonly FieldError[] {
  if (patterns.length > MAX_PATTERNS) return [tooMany(path, patterns.length, MAX_PATTERNS)];
  const errors = patterns.flatMap((pattern, index) => patternErrors(`${path}[${index}]`, pattern));
  const isCatchAll = patterns.some((pattern) => pattern.startsWith('*') && isValid(pattern));
  if (!isCatchAll || patterns.length < 2) return errors;
  return [...errors, forbiddenField(`${path}.items`, "if '*' is present, must not specify other sysctls")];
}

/** Returns an error for each pattern that a pattern in the other list covers. */
function sysctlOverlaps(allowed: readonly string[], forbidden: readonly string[]): readonly FieldError[] {
  const errors: FieldError[] = [];
  if (allowed.length > MAX_PATTERNS || forbidden.length > MAX_PATTERNS) return errors;
  for (const [i, allowedPattern] of allowed.entries()) {
    for (const [j, forbiddenPattern] of forbidden.entries()) {
      if (errors.length === MAX_ERRORS) return errors;
      if (covers(forbiddenPattern, allowedPattern))
        errors.push(overlap(`allowedUnsafeSysctls[${i}]`, allowedPattern, forbiddenPattern));
      else if (covers(allowedPattern, forbiddenPattern))
        errors.push(overlap(`forbiddenSysctls[${j}]`, forbiddenPattern, allowedPattern));
    }
  }
  return errors;
}

function patternErrors(path: string, pattern: string): readonly FieldError[] {
  if (pattern === '') return [invalidValue(path, pattern, 'empty sysctl not allowed')];
  if (isValid(pattern)) return [];
  return [invalidValue(path, pattern, `must have at most ${MAX_LENGTH} characters and match regex ${PATTERN}`)];
}

function isValid(pattern: string): boolean {
  return pattern.length <= MAX_LENGTH && IS_PATTERN.test(pattern);
}

/** Returns true if the first pattern matches every name that the second pattern matches. */
function covers(wide: string, narrow: string): boolean {
  if (!wide.endsWith('*')) return wide === narrow;
  return trimWildcard(narrow).startsWith(trimWildcard(wide));
}

function trimWildcard(pattern: string): string {
  return pattern.endsWith('*') ? pattern.slice(0, -1) : pattern;
}

function overlap(path: string, value: string, other: string): FieldError {
  return invalidValue(path, value, `sysctl overlaps with ${other}`);
}

/**
 * Validates an SCC. Returns the errors in the same order as OpenShift. If a field has the wrong type, returns only the
 * first such error.
 * @see
 * https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/admission/customresourcevalidation/securitycontextconstraints/validation/validation.go
 */
export function validateSccObject(scc: unknown): readonly FieldError[] {
  const { fields, error } = decodeScc(scc);
  if (error !== undefined) return [error];
  const errors = [
    ...nameErrors(scc, fields),
    ...(fields.priority < 0 ? [invalidValue('priority', fields.priority, 'priority cannot be negative')] : []),
    ...strategyErrors(fields),
    ...capabilityErrors(fields),
    ...escalationErrors(fields),
    ...volumeErrors(fields),
    ...sysctlListErrors('allowedUnsafeSysctls', fields.allowedUnsafeSysctls),
    ...sysctlListErrors('forbiddenSysctls', fields.forbiddenSysctls),
    ...sysctlOverlaps(fields.allowedUnsafeSysctls, fields.forbiddenSysctls),
  ];
  return errors.length > MAX_ERRORS ? errors.slice(0, MAX_ERRORS) : errors;
}

/** Returns the error for the first field that has the wrong type. */
export function findSccTypeError(scc: unknown): FieldError | undefined {
  return decodeScc(scc).error;
}

function nameErrors(scc: unknown, { name }: SccFields): readonly FieldError[] {
  if (name !== '') return dnsSubdomainErrors(name).map((error) => invalidValue('metadata.name', name, error));
  const { generateName } = objectMember(scc, 'metadata');
  const hasName = typeof generateName === 'string' && generateName !== '';
  return hasName ? [] : [requiredField('metadata.name', 'name or generateName is required')];
}

function strategyErrors({ runAsUser, seLinuxContext, fsGroup, supplementalGroups }: SccFields): readonly FieldError[] {
  const { uid } = runAsUser;
  return [
    ...typeErrors('runAsUser', runAsUser.type, RUN_AS_USER),
    ...(uid !== undefined && uid < 0 ? [invalidValue('runAsUser.uid', uid, 'uid cannot be negative')] : []),
    ...typeErrors('seLinuxContext', seLinuxContext.type, SE_LINUX_CONTEXT),
    ...groupErrors('fsGroup', fsGroup),
    ...groupErrors('supplementalGroups', supplementalGroups),
  ];
}

function typeErrors(field: string, type: string, strategies: ReadonlyMap<string, unknown>): readonly FieldError[] {
  if (strategies.has(type)) return [];
  const valid = sortedSet(strategies.keys()).join(', ');
  return [invalidValue(`${field}.type`, type, `invalid strategy type.  Valid values are ${valid}`)];
}

function groupErrors(field: string, { type, ranges }: GroupFields): readonly FieldError[] {
  const typeError = GROUPS.has(type) ? [] : [notSupported(`${field}.type`, type, sortedSet(GROUPS.keys()))];
  return [...typeError, ...ranges.flatMap((range, index) => rangeErrors(`${field}.ranges[${index}]`, range))];
}

function rangeErrors(path: string, { min, max }: Range): readonly FieldError[] {
  const errors: FieldError[] = [];
  if (min < 0) errors.push(invalidValue(`${path}.min`, min, 'min cannot be negative'));
  if (max < 0) errors.push(invalidValue(`${path}.max`, max, 'max cannot be negative'));
  if (min > max) {
    const range = { ...(min === 0 ? {} : { min }), ...(max === 0 ? {} : { max }) };
    errors.push(invalidValue(`${path}.min`, range, 'min cannot be greater than max'));
  }
  return errors;
}

function capabilityErrors(scc: SccFields): readonly FieldError[] {
  const { defaultAddCapabilities, allowedCapabilities: allowed, requiredDropCapabilities: requiredDrop } = scc;
  const dropped = new Set(requiredDrop);
  const listedTwice = (field: string, names: readonly string[]): readonly FieldError[] =>
    names
      .filter((name) => dropped.has(name))
      .map((name) => invalidValue(field, name, `capability is listed in ${field} and requiredDropCapabilities`));
  const errors = [
    ...listedTwice('defaultAddCapabilities', defaultAddCapabilities),
    ...listedTwice('allowedCapabilities', allowed),
  ];
  if (!allowed.includes('*') || requiredDrop.length === 0) return errors;
  const detail = 'required capabilities must be empty when all capabilities are allowed by a wildcard';
  return [...errors, invalidValue('requiredDropCapabilities', requiredDrop, detail)];
}

function escalationErrors(scc: SccFields): readonly FieldError[] {
  if (scc.defaultAllowPrivilegeEscalation !== true || scc.allowPrivilegeEscalation !== false) return [];
  const detail =
    'Cannot set DefaultAllowPrivilegeEscalation to true without also setting AllowPrivilegeEscalation to true';
  return [invalidValue('defaultAllowPrivilegeEscalation', true, detail)];
}

function volumeErrors({ volumes, allowedFlexVolumes: drivers }: SccFields): readonly FieldError[] {
  const errors: FieldError[] = [];
  if (volumes.includes('none') && volumes.length > 1) {
    errors.push(invalidValue('volumes', volumes, "if 'none' is specified, no other values are allowed"));
  }
  if (drivers.length === 0) return errors;
  if (!volumes.includes('flexVolume') && !volumes.includes('*')) {
    const detail = "volumes does not include 'flexVolume' or '*', so no flex volumes are allowed";
    return [
      ...errors,
      invalidValue(
        'allowedFlexVolumes',
        drivers.map((driver) => ({ driver })),
        detail,
      ),
    ];
  }
  for (const [index, driver] of drivers.entries()) {
    if (driver === '') errors.push(requiredField(`allowedFlexVolumes[${index}].driver`, 'must specify a driver'));
  }
  return errors;
}

/**
 * Sets the SCC defaults that OpenShift sets on create and update. The result has all required fields, and no empty
 * optional fields. Unknown fields are kept. An SCC that has a field of the wrong type is returned unchanged.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccdefaults/defaults.go
 */
export function defaultScc(scc: SecurityContextConstraints): SecurityContextConstraints {
  if (decodeScc(scc).error !== undefined) return scc;
  return {
    ...omitEmpty(scc, SCC_FIELDS),
    priority: scc.priority ?? null,
    allowPrivilegedContainer: scc.allowPrivilegedContainer ?? false,
    defaultAddCapabilities: scc.defaultAddCapabilities ?? null,
    requiredDropCapabilities: scc.requiredDropCapabilities ?? null,
    allowedCapabilities: scc.allowedCapabilities ?? null,
    allowHostDirVolumePlugin: scc.allowHostDirVolumePlugin ?? false,
    volumes: defaultVolumes(scc),
    allowHostNetwork: scc.allowHostNetwork ?? false,
    allowHostPorts: scc.allowHostPorts ?? false,
    allowHostPID: scc.allowHostPID ?? false,
    allowHostIPC: scc.allowHostIPC ?? false,
    // The default preserves the behavior of SCCs that predate the field.
    allowPrivilegeEscalation: scc.allowPrivilegeEscalation ?? true,
    seLinuxContext: defaultSeLinuxContext(scc.seLinuxContext ?? {}),
    runAsUser: omitEmpty(scc.runAsUser ?? {}, SCC_FIELDS.runAsUser),
    supplementalGroups: defaultGroups(scc.supplementalGroups),
    fsGroup: defaultGroups(scc.fsGroup),
    readOnlyRootFilesystem: scc.readOnlyRootFilesystem ?? false,
    users: scc.users ?? [],
    groups: scc.groups ?? [],
  };
}

/**
 * Omits the known fields that Go's encoder omits if they are empty. The numbers and booleans among them are pointers in
 * Go.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
function omitEmpty<T extends object>(object: T, fields: FieldShapes): T {
  const members = Object.entries(object).filter(
    ([name, value]: readonly [string, unknown]) => !Object.hasOwn(fields, name) || !isEmpty(value),
  );
  return Object.fromEntries(members) as T;
}

function isEmpty(value: unknown): boolean {
  return value == null || value === '' || (Array.isArray(value) && value.length === 0);
}

type SeLinuxContext = NonNullable<SecurityContextConstraints['seLinuxContext']>;

function defaultSeLinuxContext(context: SeLinuxContext): SeLinuxContext {
  const fields = SCC_FIELDS.seLinuxContext;
  const { seLinuxOptions, ...rest } = omitEmpty(context, fields);
  return seLinuxOptions ? { ...rest, seLinuxOptions: omitEmpty(seLinuxOptions, fields.seLinuxOptions) } : rest;
}

function defaultGroups(options: GroupStrategyOptions | null | undefined): GroupStrategyOptions {
  const { type = 'RunAsAny', ranges, ...rest } = omitEmpty(options ?? {}, SCC_FIELDS.fsGroup);
  return { ...rest, type, ...(ranges ? { ranges: ranges.map(defaultRange) } : {}) };
}

/** In Go, the bounds are integers rather than pointers, so the encoder omits 0. */
function defaultRange({ min, max, ...rest }: GroupRange): GroupRange {
  return { ...(min ? { min } : {}), ...(max ? { max } : {}), ...rest };
}

type GroupRange = NonNullable<GroupStrategyOptions['ranges']>[number];

/** `allowHostDirVolumePlugin` overrides the list. */
function defaultVolumes({ volumes, allowHostDirVolumePlugin }: SecurityContextConstraints): readonly string[] {
  const types = new Set(listedVolumes(volumes, allowHostDirVolumePlugin ?? false));
  if (!allowHostDirVolumePlugin) {
    const isAnyAllowed = types.delete('*');
    if (isAnyAllowed) for (const type of VOLUME_TYPES) types.add(type);
    types.delete('hostPath');
  } else if (!types.has('*')) types.add('hostPath');
  return [...types].sort(compareBytes);
}

/** An absent list allows all types, and an empty list allows none. */
function listedVolumes(volumes: readonly string[] | null | undefined, isHostPathAllowed: boolean): readonly string[] {
  if (volumes == null) return ['*'];
  if (volumes.length > 0) return volumes;
  return [isHostPathAllowed ? 'hostPath' : 'none'];
}
