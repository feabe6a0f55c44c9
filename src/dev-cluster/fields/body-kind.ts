import { quote } from '../../kube/text.ts';
import { isObject, type GroupVersionKind } from '../../kube/types.ts';
import { jsonTypeName } from '../../kube/field-error.ts';

/** What `apiVersion` and `kind` of a value say. */
export function kindOf(value: unknown): GroupVersionKind | { error: string } {
  if (value != null && !isObject(value))
    return { error: parseError(`${CANNOT} ${jsonTypeName(value)} into Go value of type ${KIND_STRUCT}`) };
  const apiVersion = value?.['apiVersion'] ?? '';
  const kind = value?.['kind'] ?? '';
  if (typeof apiVersion !== 'string') return wrongMember('apiVersion', apiVersion);
  if (typeof kind !== 'string') return wrongMember('kind', kind);
  const parts = apiVersion.split('/');
  if (parts.length > 2) return { error: `unexpected GroupVersion string: ${apiVersion}` };
  return { group: parts.length === 2 ? (parts[0] ?? '') : '', version: parts.at(-1) ?? '', kind };
}

function wrongMember(name: string, value: unknown): { error: string } {
  return { error: parseError(`${CANNOT} ${jsonTypeName(value)} into Go struct field .${name} of type string`) };
}

const KIND_STRUCT =
  'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

const CANNOT = 'json: cannot unmarshal';

/** The error of a body that is no JSON, or whose kind cannot be read. */
export function parseError(text: string): string {
  return `couldn't get version/kind; json parse error: ${text}`;
}

/** The kind that a body is of: what it does not say is as the URL says. */
export function withDefaults(sent: GroupVersionKind, expected: GroupVersionKind): GroupVersionKind {
  const kind = sent.kind === '' ? expected.kind : sent.kind;
  if (sent.version === '' && (sent.group === '' || sent.group === expected.group)) return { ...expected, kind };
  return { ...sent, kind };
}

/** Why a body of one kind is none of another; `undefined` if it is. */
export function kindError(kind: GroupVersionKind, expected: GroupVersionKind): string | undefined {
  const { group, version } = expected;
  if (kind.group === group && kind.version === version) {
    if (kind.kind === expected.kind) return undefined;
    return `converting (${version}.${kind.kind}) to (${group === '' ? 'core' : group.split('.')[0]}.${expected.kind}): unknown conversion`;
  }
  const apiVersion = kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
  return `no kind ${quote(kind.kind)} is registered for version ${quote(apiVersion)} in scheme "pkg/api/legacyscheme/scheme.go:30"`;
}
