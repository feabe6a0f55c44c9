/** Checks SecurityContextConstraints in manifests against the validation rules of the API server. */
import { describeWrongType } from '../../config/field-types.ts';
import type { ManifestObject } from '../../config/objects.ts';
import { parsePath, type Path } from '../../config/yaml.ts';
import { type FieldError, formatFieldError, notSupported } from '../../kube/field-error.ts';
import { type FieldShape, findShapeErrors } from '../../kube/field-shape.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { SCC_FIELDS, type SecurityContextConstraints, USER_NAMESPACE_LEVELS } from '../../kube/scc.ts';
import { findSimilar, quote } from '../../kube/text.ts';
import { printFieldPath } from '../../policy/pod/index.ts';
import {
  defaultScc,
  findInvalidValues,
  findSccDefect,
  type InvalidValue,
  validateSccObject,
} from '../../policy/scc/index.ts';
import type { ViolatedCheck } from '../output/findings.ts';
import { createFinding, unknownField, wrongType } from './fields.ts';

const SHAPE: FieldShape = { apiVersion: 'string', kind: 'string', metadata: 'any', ...SCC_FIELDS };

/** Returns true for an object that API servers accept as an SCC. */
export function isScc({ apiVersion, kind }: ManifestObject): boolean {
  return kind === 'SecurityContextConstraints' && apiVersion === getApiVersion(kind);
}

/**
 * Returns unknown fields and values with the wrong type. If there are no wrong types, also returns fields that are
 * invalid after defaulting. If all fields are valid, also returns fields and values that make the SCC useless.
 */
export function sccFindings(object: ManifestObject): readonly ViolatedCheck[] {
  const misshapen = findShapeErrors(object.value, SHAPE);
  const findings = misshapen.map((problem) => {
    if ('known' in problem)
      return unknownField(object, problem.path, { fix: unknownFieldFix(problem.path, problem.known) });
    return wrongType(object, describeWrongType(problem));
  });
  return misshapen.every((problem) => 'known' in problem) ? [...findings, ...contentFindings(object)] : findings;
}

function unknownFieldFix(path: Path, known: readonly string[]): string | undefined {
  if (path.length === 1 && path[0] === 'spec') return 'SCCs have no spec: move its fields to the top level.';
  const similar = findSimilar(String(path.at(-1)), known);
  return similar === undefined ? undefined : `Write ${quote(similar)}.`;
}

function contentFindings(object: ManifestObject): readonly ViolatedCheck[] {
  const scc = defaultScc(object.value);
  const errors = [...validateSccObject(scc), ...levelErrors(scc)];
  if (errors.length > 0) return errors.map((error) => invalidField(object, error));
  const defect = findSccDefect(scc);
  const unusable = {
    mode: 'warn',
    check: 'unusable',
    reason: 'incomplete strategy',
    fix: 'For MustRunAs, set uid. For MustRunAsRange, set both bounds in ascending order, or neither.',
  } as const;
  return [
    ...(defect === undefined ? [] : [createFinding(object, ['runAsUser'], { ...unusable, detail: defect })]),
    ...findInvalidValues(object.value).map((value) => mistypedValue(object, value)),
  ];
}

/** Returns an error for a `userNamespaceLevel` that the CRD schema rejects. */
function levelErrors({ userNamespaceLevel: level }: SecurityContextConstraints): readonly FieldError[] {
  if (level == null || USER_NAMESPACE_LEVELS.includes(level)) return [];
  return [notSupported('userNamespaceLevel', level, USER_NAMESPACE_LEVELS)];
}

const ONE_LIST = 'Keep the capability in only one of the lists.';
const SYSCTLS =
  'Keep each sysctl in one of the two lists. A trailing * matches a prefix. A single * must be the only entry.';
const GROUPS = 'Use MustRunAs or RunAsAny. In each range, min must be at least 0 and must not exceed max.';

/** Fixes for invalid fields, by top-level field. */
const FIXES: ReadonlyMap<string, string> = new Map([
  ['metadata', 'Use only lowercase letters, digits, hyphens and dots in the name.'],
  ['priority', 'Use 0 or more, or remove the field.'],
  ['runAsUser', 'Use one of the listed types, and a user ID of at least 0.'],
  ['seLinuxContext', 'Use one of the listed types.'],
  ['fsGroup', GROUPS],
  ['supplementalGroups', GROUPS],
  ['defaultAddCapabilities', ONE_LIST],
  ['allowedCapabilities', ONE_LIST],
  ['requiredDropCapabilities', 'Empty the list, or list the capabilities in allowedCapabilities instead of *.'],
  ['defaultAllowPrivilegeEscalation', 'Set it to false, or set allowPrivilegeEscalation to true.'],
  ['volumes', 'Remove the none type, or all other types. allowHostDirVolumePlugin: true adds hostPath.'],
  ['allowedFlexVolumes', 'Name each driver and add flexVolume to volumes, or remove the field.'],
  ['allowedUnsafeSysctls', SYSCTLS],
  ['forbiddenSysctls', SYSCTLS],
  ['userNamespaceLevel', 'Use one of the listed levels, or remove the field.'],
]);

function invalidField(object: ManifestObject, error: FieldError): ViolatedCheck {
  const path = parsePath(error.path);
  const fix = FIXES.get(String(path[0])) ?? '';
  return createFinding(object, path, { check: 'scc', reason: 'invalid field', detail: formatFieldError(error), fix });
}

const TYPO_FIXES: Partial<Record<InvalidValue['field'], string>> = {
  volumes: 'Use a pod volume type.',
  seccompProfiles: 'Use runtime/default, unconfined, localhost/FILE, or * for all profiles.',
  users: 'Use the namespace and the name of the service account.',
};

function mistypedValue(
  object: ManifestObject,
  { field, index, value, problem, suggestion }: InvalidValue,
): ViolatedCheck {
  const path = [field, index];
  const rule = TYPO_FIXES[field] ?? 'Use capability names such as NET_ADMIN.';
  return createFinding(object, path, {
    mode: 'warn',
    check: 'mistyped',
    reason: 'mistyped value',
    detail: `${printFieldPath(path)}: ${quote(value)} ${problem}`,
    fix: suggestion === undefined ? rule : `Write ${quote(suggestion)}.`,
  });
}
