/**
 * Substitutes the parameters of OpenShift Templates, as `oc process` does.
 * @see https://github.com/openshift/library-go/blob/master/pkg/template/templateprocessing/template.go
 */
import { deepEqual } from '../kube/equality.ts';
import { isObject, type JsonObject, objectMember, withValueAt } from '../kube/types.ts';

/** Returns true for a Template, including its former API version. */
export function isTemplate(apiVersion: string, kind: string): boolean {
  return kind === 'Template' && (apiVersion === 'template.openshift.io/v1' || apiVersion === 'v1');
}

interface TemplateObject {
  readonly value: unknown;
  /** True if the object differs from its text in the template. */
  readonly isProcessed: boolean;
}

/**
 * Returns the objects of a template. A reference to a parameter without a value remains unchanged, because `oc process`
 * generates the value or requires it as an argument. Fixed namespaces are replaced with the namespace of the template,
 * and its labels are added.
 */
export function processTemplate(template: JsonObject): readonly TemplateObject[] {
  const { objects, parameters } = template;
  const values = new Map(
    (Array.isArray(parameters) ? parameters : [])
      .filter(isObject)
      .map(({ name, value }): readonly [string, string] => [String(name), printValue(value)])
      .filter(([, value]) => value !== ''),
  );
  const { namespace } = objectMember(template, 'metadata');
  const labels = substitute(objectMember(template, 'labels'), values);
  return (Array.isArray(objects) ? (objects as readonly unknown[]) : []).map((object) => {
    const value = substitute(withNamespace(object, namespace), values);
    return { value: withLabels(value, labels), isProcessed: !deepEqual(value, object) };
  });
}

/** Adds the labels of a template, which replace the labels of its objects. */
function withLabels(object: unknown, labels: unknown): unknown {
  if (!isObject(labels) || Object.keys(labels).length === 0 || !isObject(object)) return object;
  const own = objectMember(objectMember(object, 'metadata'), 'labels');
  return withValueAt(object, ['metadata', 'labels'], { ...own, ...labels });
}

/** Returns the text of a value. Values that are not strings are written as JSON. */
function printValue(value: unknown): string {
  return typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
}

/** Sets the namespace of an object, unless it contains a reference to a parameter. */
function withNamespace(object: unknown, namespace: unknown): unknown {
  const own = isObject(object) ? objectMember(object, 'metadata')['namespace'] : undefined;
  if (typeof own !== 'string' || REFERENCE.test(own)) return object;
  return withValueAt(object, ['metadata', 'namespace'], namespace);
}

const REFERENCE = /\$\{(\w+)\}/;
const REFERENCES = /\$\{(\w+)\}/g;
/** Matches a reference whose value replaces the whole string, so the value can have any type. */
const TYPED_REFERENCE = /^\$\{\{(\w+)\}\}$/;

function substitute(value: unknown, values: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return substituteText(value, values);
  if (Array.isArray(value)) return value.map((item) => substitute(item, values));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [substituteReferences(key, values), substitute(member, values)]),
  );
}

function substituteText(text: string, values: ReadonlyMap<string, string>): unknown {
  const value = values.get(TYPED_REFERENCE.exec(text)?.[1] ?? '');
  return value === undefined ? substituteReferences(text, values) : parseValue(value);
}

function substituteReferences(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(REFERENCES, (reference, name: string) => values.get(name) ?? reference);
}

/** Parses a value as JSON. Any other text is a string. */
function parseValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
