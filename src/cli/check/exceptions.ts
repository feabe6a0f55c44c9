/** Finds PodSecurityExceptions in manifests that API servers reject or that have no effect. */
import { exceptionErrors, readManifestException } from '../../config/exceptions.ts';
import { errorAt, type ManifestObject } from '../../config/objects.ts';
import type { ManifestError } from '../../config/yaml.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { type PodFields, printFieldPath } from '../../policy/pod/index.ts';
import { findShadow, type Labels } from '../../policy/psa/index.ts';
import { evaluateExcepted, indexExceptions, type Policy } from '../../policy/pss/index.ts';
import type { ViolatedCheck } from '../output/findings.ts';
import { createFinding } from './fields.ts';

/** Returns the fields that API servers reject. */
export function exceptionFindings(object: ManifestObject): readonly ViolatedCheck[] {
  return exceptionErrors(object).map(({ path, error, fix }) =>
    createFinding(object, path, { check: 'decode', reason: 'invalid field', detail: formatFieldError(error), fix }),
  );
}

interface ExceptionContext {
  /** Namespace for manifests that do not set one. */
  readonly namespace: string;
  readonly at: Date;
  getNamespaceLabels(name: string): Labels;
  /** Returns the pods of a service account, and the enforced policy. */
  getPods(namespace: string, serviceAccount: string): { readonly pods: readonly PodFields[]; readonly policy: Policy };
}

/**
 * Returns warnings for an exception that allows nothing: because it has expired, because other policies deny its pods,
 * or because no pod of the service account has the violations that its entries allow.
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
  const { pods, policy } = context.getPods(namespace, spec.serviceAccountName);
  // The manifests may not contain the pods.
  if (pods.length === 0) return [];
  // Each entry is evaluated as an exception of its own, whose name is the index of the entry.
  const entries = spec.allow.map((entry, index) => ({ ...rule, name: String(index), allow: [entry] }));
  const index = indexExceptions(entries);
  const used = new Set(pods.flatMap((pod) => evaluateExcepted(pod, { ...policy, fields: true }, index).exceptions));
  return entries
    .filter((entry) => !used.has(entry.name))
    .map((entry) => {
      const path = ['spec', 'allow', Number(entry.name)];
      const account = quote(spec.serviceAccountName);
      return errorAt(
        object,
        path,
        `${name}: ${printFieldPath(path)} has no effect, because no field of the pods of service account ${account} that violates the ${policy.level} level matches its check, container, image and values. Remove the entry, or correct it: portcullis exception create prints the required entries`,
      );
    });
}
