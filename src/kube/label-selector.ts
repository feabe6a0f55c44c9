import { isObject, type JsonObject } from './types.ts';

type Labels = Readonly<Record<string, string>>;

/**
 * True if the labels satisfy a LabelSelector object; an empty one matches everything, an absent one nothing.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/v1/types.go
 */
export function matchesLabelSelector(selector: unknown, labels: Labels | undefined): boolean {
  if (!isObject(selector)) return false;
  const wanted = isObject(selector['matchLabels']) ? Object.entries(selector['matchLabels']) : [];
  const expressions = Array.isArray(selector['matchExpressions']) ? selector['matchExpressions'] : [];
  return (
    wanted.every(([key, value]) => valueOf(labels, key) === value) &&
    expressions.every((expression) => isObject(expression) && matchesExpression(expression, labels))
  );
}

function matchesExpression(expression: JsonObject, labels: Labels | undefined): boolean {
  const value = valueOf(labels, String(expression['key']));
  const values = Array.isArray(expression['values']) ? expression['values'] : [];
  switch (expression['operator']) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    default:
      return false;
  }
}

function valueOf(labels: Labels | undefined, key: string): string | undefined {
  return labels && Object.hasOwn(labels, key) ? labels[key] : undefined;
}
