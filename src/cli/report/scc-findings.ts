import type { ManifestObject, Path } from '../../config/manifests.ts';
import { invalidValue, notSupported, printFieldError, type FieldError } from '../../kube/field-error.ts';
import { findMisshapen, type FieldShape } from '../../kube/field-shape.ts';
import { quote } from '../../kube/quote.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import { SCC_FIELDS, USER_NAMESPACE_LEVELS } from '../../kube/scc-fields.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { defaultScc } from '../../policy/scc/default-scc.ts';
import { sccTypos, type SccTypo } from '../../policy/scc/scc-typos.ts';
import { sccDefect } from '../../policy/scc/scc-warnings.ts';
import { sccObjectErrors } from '../../policy/scc/validate-scc-object.ts';
import { parseFieldPath, printFieldPath } from './field-path.ts';
import { similarTo } from './similar.ts';
import type { Finding } from './types.ts';
import { unknownField } from './unknown-field.ts';

const SHAPE: FieldShape = { apiVersion: 'string', kind: 'string', metadata: 'any', ...SCC_FIELDS };

/** True for an object that API servers take for an SCC. */
export function isScc({ apiVersion, kind }: ManifestObject): boolean {
  return kind === 'SecurityContextConstraints' && apiVersion === apiVersionOf(kind);
}

/**
 * What is wrong with an SCC: fields that nobody knows and values of wrong types; if all can be read, what would be refused
 * once everything that is left open is filled in; and if nothing would, that no pod could use it.
 */
export function sccFindings(object: ManifestObject): readonly Finding[] {
  const misshapen = findMisshapen(object.value, SHAPE);
  const unknown = misshapen.flatMap((one) => ('known' in one ? [unknownField(object, one.path, remedyOf(one))] : []));
  const wrong = misshapen.flatMap((one) => ('known' in one ? [] : [wrongType(object, one)]));
  return [...unknown, ...(wrong.length > 0 ? wrong : contentFindings(object))];
}

/** What was probably meant, if that can be told. */
function remedyOf({ path, known }: { readonly path: Path; readonly known: readonly string[] }): string | undefined {
  if (path.length === 1 && path[0] === 'spec') return 'SCCs have no spec: move its fields up to the top of the object.';
  const meant = similarTo(String(path.at(-1)), known);
  return meant === undefined ? undefined : `Write ${quote(meant)}.`;
}

interface WrongType {
  readonly path: Path;
  readonly value: unknown;
  readonly expected: string;
}

function wrongType(object: ManifestObject, { path, value, expected }: WrongType): Finding {
  return {
    mode: 'enforce',
    check: 'decode',
    reason: 'wrong type',
    detail: printFieldError(invalidValue(printFieldPath(path), value, expected)),
    remedy: 'Give the field a value of the type that it must have.',
    fields: [fieldOf(object, path)],
  };
}

function contentFindings(object: ManifestObject): readonly Finding[] {
  const scc = defaultScc(object.value);
  const errors = [...sccObjectErrors(scc), ...levelErrors(scc)];
  if (errors.length > 0) return errors.map((error) => invalidField(object, error));
  const defect = sccDefect(scc);
  const typos = sccTypos(object.value).map((typo) => mistyped(object, typo));
  return defect === undefined ? typos : [unusable(object, defect), ...typos];
}

/** The schema refuses other values. */
function levelErrors({ userNamespaceLevel: level }: SecurityContextConstraints): readonly FieldError[] {
  if (level == null || USER_NAMESPACE_LEVELS.includes(level)) return [];
  return [notSupported('userNamespaceLevel', level, USER_NAMESPACE_LEVELS)];
}

const LISTED_ONCE = 'Keep the capability in one of the two lists.';
const NAMED_ONCE =
  'Name a sysctl in one of the two lists, or several by a trailing *; a lone * takes no other beside it.';
const GROUPS = 'Use MustRunAs or RunAsAny, and ranges of groups of 0 or more whose min is not above their max.';

/** What to do about a field that is refused. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['metadata', 'Give it a name of lower-case letters, digits, hyphens and dots.'],
  ['priority', 'Use 0 or more, or leave it out.'],
  ['runAsUser', 'Use one of the types that are named, and a uid of 0 or more.'],
  ['seLinuxContext', 'Use one of the types that are named.'],
  ['fsGroup', GROUPS],
  ['supplementalGroups', GROUPS],
  ['defaultAddCapabilities', LISTED_ONCE],
  ['allowedCapabilities', LISTED_ONCE],
  ['requiredDropCapabilities', 'Empty it, or name the capabilities in allowedCapabilities instead of *.'],
  ['defaultAllowPrivilegeEscalation', 'Set it to false, or allowPrivilegeEscalation to true.'],
  ['volumes', 'Remove none, or all others; allowHostDirVolumePlugin: true adds hostPath.'],
  ['allowedFlexVolumes', 'Name each driver and add flexVolume to volumes, or remove the field.'],
  ['allowedUnsafeSysctls', NAMED_ONCE],
  ['forbiddenSysctls', NAMED_ONCE],
  ['userNamespaceLevel', 'Use one of the levels that are named, or leave it out.'],
]);

function invalidField(object: ManifestObject, error: FieldError): Finding {
  const path = parseFieldPath(error.path);
  return {
    mode: 'enforce',
    check: 'scc',
    reason: 'invalid field',
    detail: printFieldError(error),
    remedy: REMEDIES.get(String(path[0])) ?? '',
    fields: [fieldOf(object, path)],
  };
}

function unusable(object: ManifestObject, defect: string): Finding {
  return {
    mode: 'warn',
    check: 'unusable',
    reason: 'incomplete strategy',
    detail: defect,
    remedy: 'Give MustRunAs a uid, and MustRunAsRange both bounds in their order or none.',
    fields: [fieldOf(object, ['runAsUser'])],
  };
}

const TYPO_REMEDIES: Partial<Record<SccTypo['field'], string>> = {
  volumes: 'Name a type of volume as pods name it.',
  seccompProfiles: 'Name a profile: runtime/default, unconfined, localhost/FILE, or * for all.',
  users: 'Name namespace and name of the service account.',
};

function mistyped(object: ManifestObject, { field, index, value, why, meant }: SccTypo): Finding {
  const path = [field, index];
  return {
    mode: 'warn',
    check: 'mistyped',
    reason: 'mistyped value',
    detail: `${printFieldPath(path)}: ${quote(value)} ${why}`,
    remedy:
      meant === undefined ? (TYPO_REMEDIES[field] ?? 'Name capabilities like NET_ADMIN.') : `Write ${quote(meant)}.`,
    fields: [fieldOf(object, path)],
  };
}

function fieldOf(object: ManifestObject, path: Path): Finding['fields'][number] {
  return { path: printFieldPath(path), file: object.document.file, ...object.positionOf(path) };
}
