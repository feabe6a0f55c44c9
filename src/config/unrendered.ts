/** Finds placeholders in fields that policies read, because the object must be rendered before it can be evaluated. */
import { shellQuote } from '../kube/text.ts';
import { isObject, valueAt } from '../kube/types.ts';
import { findPodTemplates, printFieldPath } from '../policy/pod/templates.ts';
import { isException } from './exceptions.ts';
import { findFieldProblems, findPodFieldProblems } from './field-types.ts';
import { STDIN } from './manifest-files.ts';
import { apiGroup, type ManifestObject } from './objects.ts';
import { describeRendering, findPlaceholder, type Placeholder } from './placeholders.ts';
import type { ManifestError, Path } from './yaml.ts';

/** String fields of a pod that policies read. Policies also read all fields of other types. */
const READ_IN_POD =
  /^(?:spec\.os\.name|metadata\.annotations\[(?:container\.apparmor\.|(?:container\.)?seccomp\.|openshift\.io\/required-scc).*|spec\.(?:(?:containers|initContainers|ephemeralContainers)\[\d+\]\.)?(?:securityContext\.(?:procMount|seccompProfile|appArmorProfile|seLinuxOptions|capabilities|sysctls\[\d+\]\.name).*|\w+(?:\.\w+)?\.(?:httpGet|tcpSocket)\.host))$/;

/** Labels and annotations of namespaces that policies read. */
const READ_IN_NAMESPACE =
  /^metadata\.(?:labels|annotations)\[(?:pod-security\.kubernetes\.io|portcullis\.dev|openshift\.io)\//;

/** Returns an error for each field that contains a placeholder and that a policy reads or API servers cannot decode. */
export function findUnrendered(object: ManifestObject): readonly ManifestError[] {
  const placeholders: PlaceholderField[] = [];
  collect(object.value, [], placeholders);
  if (placeholders.length === 0) return [];
  const isRead = readFields(object);
  const { document, locate } = object;
  return placeholders
    .filter(({ path }) => isRead(path))
    .map(({ path, placeholder }) => {
      const hint = object.template ? describeProcessing(document.file, placeholder) : describeRendering(placeholder);
      const message = `not rendered yet: ${printFieldPath(path)} contains ${placeholder.text}. ${hint}`;
      return { file: document.file, ...locate(path), message };
    });
}

/** Describes how to set the parameter of an OpenShift Template. */
function describeProcessing(file: string, placeholder: Placeholder): string {
  const [name] = /\w+/.exec(placeholder.text) ?? ['NAME'];
  const source = file === STDIN.name ? STDIN.path : shellQuote(file);
  return `The parameter has no value, so process the template first: oc process -f ${source} -p ${name}=VALUE | portcullis check -f -`;
}

interface PlaceholderField {
  readonly path: Path;
  readonly placeholder: Placeholder;
}

function collect(value: unknown, path: (string | number)[], found: PlaceholderField[]): void {
  if (typeof value === 'string') {
    const placeholder = findPlaceholder(value);
    if (placeholder) found.push({ path: [...path], placeholder });
    return;
  }
  const members = Array.isArray(value) ? value.entries() : isObject(value) ? Object.entries(value) : [];
  for (const [step, member] of members) {
    path.push(step);
    collect(member, path, found);
    path.pop();
  }
}

/** Returns a function that reports whether the value of a string field affects the evaluation of an object. */
function readFields(object: ManifestObject): (path: Path) => boolean {
  const { apiVersion, kind, value } = object;
  if (isException(object) || apiGroup(apiVersion) === 'security.openshift.io') {
    return ([first, second]) => first !== 'metadata' && second !== 'reason';
  }
  const { templates, composed } = findPodTemplates(value);
  const wrong = [
    ...findFieldProblems(object).wrong.map(({ path }) => path),
    ...templates.flatMap((template) =>
      findPodFieldProblems(valueAt(value, template)).map(({ path }) => [...template, ...path]),
    ),
  ];
  const undecodable = new Set(['apiVersion', 'kind', ...wrong.map(printFieldPath)]);
  for (const { pod, sourcePath } of composed) {
    const found: PlaceholderField[] = [];
    collect(pod, [], found);
    const read = found.map(({ path }) => path).filter((path) => READ_IN_POD.test(printFieldPath(path)));
    for (const path of [...read, ...findPodFieldProblems(pod).map((one) => one.path)]) {
      undecodable.add(printFieldPath(sourcePath(path)));
    }
  }
  return (path) => {
    const printed = printFieldPath(path);
    if (undecodable.has(printed)) return true;
    if (kind === 'Namespace' && apiVersion === 'v1') return READ_IN_NAMESPACE.test(printed);
    return templates.some((template) => {
      const isBelow = template.every((step, index) => step === path[index]);
      return isBelow && READ_IN_POD.test(printFieldPath(path.slice(template.length)));
    });
  };
}
