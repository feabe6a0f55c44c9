/**
 * Finds the fields that prevent the evaluation of an object, which contain placeholders or values of the wrong type.
 */
import { formatFieldError } from '../kube/field-error.ts';
import { shellQuote } from '../kube/text.ts';
import { isObject } from '../kube/types.ts';
import { EVALUATED_POD, printFieldPath, select } from '../policy/pod/index.ts';
import { exceptionErrors, isException } from './exceptions.ts';
import { decodeErrors, findFieldProblems, findPodFieldProblems } from './field-types.ts';
import { apiGroup, errorAt, type ManifestObject, readPods } from './objects.ts';
import { describeRendering, findPlaceholder, type Placeholder } from './placeholders.ts';
import { type ManifestError, type Path, STDIN } from './yaml.ts';

/** Labels and annotations of namespaces that policies read. */
const READ_IN_NAMESPACE =
  /^metadata\.(?:labels|annotations)\[(?:pod-security\.kubernetes\.io|portcullis\.dev|(?:security\.)?openshift\.io)\//;

/**
 * Returns an error for each placeholder that prevents the evaluation of an object. If there are none, returns an error
 * for each value that API servers cannot decode and each field of an exception that they reject.
 */
export function findUnreadable(object: ManifestObject): readonly ManifestError[] {
  const unrendered = findUnrendered(object);
  if (unrendered.length > 0) return unrendered;
  if (!isException(object)) return decodeErrors(object);
  return exceptionErrors(object).map(({ path, error, fix }) =>
    errorAt(object, path, `${formatFieldError(error)}. ${fix}`),
  );
}

/**
 * Returns an error for each field that contains a placeholder, if a policy reads the field or API servers cannot decode
 * it.
 */
export function findUnrendered(object: ManifestObject): readonly ManifestError[] {
  const placeholders = findPlaceholders(object.value);
  if (placeholders.length === 0) return [];
  const isRead = readFields(object);
  return placeholders
    .filter(({ path }) => isRead(path))
    .map(({ path, placeholder }) => {
      const hint = object.template
        ? describeProcessing(object.document.file, placeholder)
        : describeRendering(placeholder);
      return errorAt(object, path, `not rendered yet: ${printFieldPath(path)} contains ${placeholder.text}. ${hint}`);
    });
}

/** Describes how to set the parameter of an OpenShift Template. */
function describeProcessing(file: string, placeholder: Placeholder): string {
  const [name] = /\w+/.exec(placeholder.text) ?? ['NAME'];
  const source = file === STDIN.name ? STDIN.path : file === '' ? 'FILE' : shellQuote(file);
  return `The parameter has no value, so process the template first: oc process -f ${source} -p ${name}=VALUE | portcullis check -f -`;
}

interface PlaceholderField {
  readonly path: Path;
  readonly placeholder: Placeholder;
}

function findPlaceholders(root: unknown): readonly PlaceholderField[] {
  const found: PlaceholderField[] = [];
  const path: (string | number)[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === 'string') {
      const placeholder = findPlaceholder(value);
      if (placeholder) found.push({ path: [...path], placeholder });
      return;
    }
    const members = Array.isArray(value) ? value.entries() : isObject(value) ? Object.entries(value) : [];
    for (const [step, member] of members) {
      path.push(step);
      visit(member);
      path.pop();
    }
  };
  visit(root);
  return found;
}

/** Returns a function that reports whether the value of a string field affects the evaluation of an object. */
function readFields(object: ManifestObject): (path: Path) => boolean {
  const { apiVersion, kind, value } = object;
  if (isException(object) || apiGroup(apiVersion) === 'security.openshift.io') {
    return ([first, second]) => first !== 'metadata' && second !== 'reason';
  }
  const inPods = readPods(value).pods.flatMap((pod) => [
    ...findPlaceholders(select(pod.pod, EVALUATED_POD)).map(({ path }) => pod.sourcePath(path)),
    ...findPodFieldProblems(pod).map(({ path }) => path),
  ]);
  const wrong = findFieldProblems(object).wrong.map(({ path }) => path);
  const read = new Set(['apiVersion', 'kind', ...[...inPods, ...wrong].map(printFieldPath)]);
  const isNamespace = kind === 'Namespace' && apiVersion === 'v1';
  return (path) => {
    const printed = printFieldPath(path);
    return read.has(printed) || (isNamespace && READ_IN_NAMESPACE.test(printed));
  };
}
