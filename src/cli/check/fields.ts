/** Finds fields, labels, annotations and PodSecurityExceptions in manifests that are invalid or have no effect. */
import { exceptionErrors, readManifestException } from '../../config/exceptions.ts';
import { findFieldProblems, findInvalidFields, type WrongType } from '../../config/field-types.ts';
import { describePlace, findUnknownFields } from '../../config/misplaced-fields.ts';
import { type ManifestObject, manifestLabels, errorAt } from '../../config/objects.ts';
import { type Path, parsePath, type ManifestError } from '../../config/yaml.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { valueAt } from '../../kube/types.ts';
import { printFieldPath, type PodFields } from '../../policy/pod/index.ts';
import { type Mode, findUnusedKeys, type NamespacePolicy, findShadow, type Labels } from '../../policy/psa/index.ts';
import {
  evaluateExcepted,
  type ExceptionIndex,
  findUnusable,
  indexExceptions,
  type Policy,
} from '../../policy/pss/index.ts';
import { SCC_MODE_LABEL, SCC_MODES, sccMode } from '../../policy/scc/index.ts';
import type { FieldPosition, ViolatedCheck, OtherCheck } from '../output/findings.ts';

/** Returns a field with its position in the file. */
export function fieldPosition(object: ManifestObject, path: Path): FieldPosition {
  return { path: printFieldPath(path), file: object.document.file, ...object.locate(path) };
}

interface NewFinding extends Pick<ViolatedCheck, 'reason' | 'detail' | 'fix'> {
  readonly mode?: Mode;
  readonly check: OtherCheck;
}

/** Creates a finding about one field, in `enforce` mode by default. */
export function createFinding(
  object: ManifestObject,
  path: Path,
  { mode = 'enforce', check, reason, detail, fix }: NewFinding,
): ViolatedCheck {
  return { mode, check, reason, detail, fix, fields: [fieldPosition(object, path)] };
}

const UNKNOWN_FIELD_FIX = 'Correct the name or remove the field: API servers may drop it silently.';

/**
 * Creates a finding about a field that is not in the API server's schema. The API server rejects the object or drops
 * the field.
 */
export function unknownField(
  object: ManifestObject,
  path: Path,
  { fix = UNKNOWN_FIELD_FIX, mode = 'enforce' }: { readonly fix?: string | undefined; readonly mode?: Mode },
): ViolatedCheck {
  const detail = quote(printFieldPath(path));
  return createFinding(object, path, { mode, check: 'unknownField', reason: 'unknown field', detail, fix });
}

/** Creates a finding about a value that API servers cannot decode. */
export function wrongType(object: ManifestObject, { path, error, fix }: WrongType): ViolatedCheck {
  return createFinding(object, path, { check: 'decode', reason: 'wrong type', detail: formatFieldError(error), fix });
}

/**
 * Returns findings for the fields of a built-in kind that API servers reject, and for unknown fields. Unknown fields
 * are reported in `warn` mode because API servers drop them unless the client requests strict validation.
 */
export function builtInFindings(object: ManifestObject): readonly ViolatedCheck[] {
  const { wrong, unknown } = findFieldProblems(object);
  const rejected =
    wrong.length > 0
      ? wrong.map((value) => wrongType(object, value))
      : findInvalidFields(object).map((field) => invalidField(object, field));
  if (unknown.length === 0) return rejected;
  return [
    ...rejected,
    ...findUnknownFields(object).map((field) =>
      unknownField(object, field.path, { mode: 'warn', fix: describePlace(field) }),
    ),
  ];
}

function invalidField(object: ManifestObject, { path, error, fix }: WrongType): ViolatedCheck {
  const reason = error.type === 'FieldValueRequired' ? 'missing field' : 'invalid field';
  return createFinding(object, path, { check: 'invalid', reason, detail: formatFieldError(error), fix });
}

/** Returns findings for the invalid Pod Security labels of a Namespace. The API server rejects these labels. */
export function labelFindings(object: ManifestObject, { errors }: NamespacePolicy): ViolatedCheck[] {
  return errors.map((error) =>
    createFinding(object, parsePath(error.path), {
      check: 'labels',
      reason: 'invalid label',
      detail: formatFieldError(error),
      fix: 'Use a level (privileged, baseline, restricted) or a version (latest, v1.N), in lower case.',
    }),
  );
}

/**
 * Returns a finding for an invalid SCC mode of a Namespace. The API server accepts any string, and Portcullis treats
 * invalid values as enforce.
 */
export function sccModeFindings(object: ManifestObject): ViolatedCheck[] {
  const path = ['metadata', 'labels', SCC_MODE_LABEL];
  const label = manifestLabels(object.value)[SCC_MODE_LABEL];
  const fix = `Use one of ${SCC_MODES.join(', ')}, in lower case.`;
  if (typeof label !== 'string') return [];
  const namespace = { metadata: { labels: { [SCC_MODE_LABEL]: label } } };
  const { problem: detail } = sccMode(namespace, { mode: 'report', exemptNamespaces: [] });
  return detail === undefined
    ? []
    : [createFinding(object, path, { mode: 'warn', check: 'scc-label', reason: 'invalid label', detail, fix })];
}

/**
 * Returns findings for the Pod Security labels and annotations that have no effect on an object or on its pod template.
 */
export function unusedKeyFindings(object: ManifestObject, path: Path = []): ViolatedCheck[] {
  const metadata = [...path, 'metadata'];
  return findUnusedKeys(valueAt(object.value, metadata), object.kind).map(({ field, key, fix }) =>
    createFinding(object, [...metadata, field, key], {
      mode: 'warn',
      check: 'labels',
      reason: `${field === 'labels' ? 'label' : 'annotation'} without effect`,
      detail: quote(key),
      fix,
    }),
  );
}

/** Returns findings for the fields of a PodSecurityException that API servers reject. */
export function exceptionFindings(object: ManifestObject): readonly ViolatedCheck[] {
  return exceptionErrors(object).map((field) => invalidField(object, field));
}

interface ExceptionContext {
  /** Namespace for manifests that do not set one. */
  readonly namespace: string;
  readonly at: Date;
  getNamespaceLabels(name: string): Labels;
  getExceptions(namespace: string): ExceptionIndex | undefined;
  /** Returns the pods that use a service account, and the policy that is enforced on them. */
  getPods(namespace: string, serviceAccount: string): { readonly pods: readonly PodFields[]; readonly policy: Policy };
}

/**
 * Returns warnings for an exception that allows nothing because it has expired, other policies deny its pods, or no pod
 * of the service account has the violations that its entries allow.
 */
export function exceptionWarnings(object: ManifestObject, context: ExceptionContext): readonly ManifestError[] {
  const exception = readManifestException(object, context.namespace);
  if (exception === undefined) return [];
  const { namespace, spec, rule } = exception;
  const name = `the exception ${quote(exception.name)}`;
  if (context.at.getTime() >= rule.expiresAtMs) {
    return [errorAt(object, ['spec', 'expiresAt'], `${name} expired at ${spec.expiresAt} and allows nothing`)];
  }
  const shadow = findShadow(exception, context.getNamespaceLabels(namespace));
  if (shadow !== undefined) return [errorAt(object, [], `${name}: ${shadow}`)];
  const parts = findUnusable(spec.allow);
  const unusable = parts.map(({ path, reason }) =>
    errorAt(object, path, `${name}: ${printFieldPath(path)} has no effect, because ${reason}`),
  );
  const { pods, policy } = context.getPods(namespace, spec.serviceAccountName);
  // Without pods, an entry may still match pods that the manifests do not contain.
  if (pods.length === 0) return unusable;
  // Each entry is evaluated as a separate exception, which is named after the entry's index. Other exceptions may cover
  // the remaining fields of a violation. Their name follows the indexes, so the entries are preferred.
  const entries = spec.allow.map((entry, index) => ({ ...rule, name: String(index), allow: [entry] }));
  const others = (context.getExceptions(namespace)?.rules ?? []).filter((other) => other.name !== rule.name);
  const index = indexExceptions([...entries, ...others.map((other) => ({ ...other, name: 'other' }))]);
  const reported = parts.map(({ path }) => String(path[2]));
  const used = new Set(pods.flatMap((pod) => evaluateExcepted(pod, { ...policy, fields: true }, index).exceptions));
  const unused = entries
    .filter((entry) => !used.has(entry.name) && !reported.includes(entry.name))
    .map((entry) => {
      const path = ['spec', 'allow', Number(entry.name)];
      const account = quote(spec.serviceAccountName);
      return errorAt(
        object,
        path,
        `${name}: ${printFieldPath(path)} has no effect, because it matches no violation of the ${policy.level} level in the pods of service account ${account}. Correct its check, container, image and values, or remove the entry. To print the required entries: portcullis exception create`,
      );
    });
  return [...unusable, ...unused];
}
