/** Validates SCC objects on create and update. */
import {
  type FieldError,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  tooMany,
} from '../../kube/field-error.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { sortedSet } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';
import { MAX_ERRORS } from './budget.ts';
import { decodeScc, type GroupFields, type Range, type SccFields } from './scc-fields.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';

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

const PATTERN = '([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]';
const IS_PATTERN = new RegExp(`^${PATTERN}$`);
const MAX_LENGTH = 253;
/**
 * Maximum number of patterns, because every pattern in one list is compared with every pattern in the other. Linux has
 * only slightly more sysctls.
 */
const MAX_PATTERNS = 1000;

function sysctlListErrors(path: string, patterns: readonly string[]): readonly FieldError[] {
  if (patterns.length > MAX_PATTERNS) return [tooMany(path, patterns.length, MAX_PATTERNS)];
  const errors = patterns.flatMap((pattern, index) => patternErrors(`${path}[${index}]`, pattern));
  const isCatchAll = patterns.some((pattern) => pattern.startsWith('*') && isValid(pattern));
  if (!isCatchAll || patterns.length < 2) return errors;
  return [...errors, forbiddenField(`${path}.items`, "if '*' is present, must not specify other sysctls")];
}

/** Returns an error for each pattern that is covered by a pattern in the other list. */
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
