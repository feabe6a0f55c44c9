import { isObject, type JsonObject } from './types.ts';

const KEY = String.raw`[^\s=!,()<>]+`;
/**
 * Matches one requirement (`!key`, `key`, `key=value` or `key in (a, b)`) up to the next comma or the end of the
 * selector.
 */
const REQUIREMENT = new RegExp(
  String.raw`^\s*(?:!\s*(?<absent>${KEY})|(?<key>${KEY})(?:\s*(?<equality>==?|!=)(?:\s*(?<value>${KEY}))?|\s+(?<set>in|notin)\s*\((?<values>[^()]*)\))?)\s*(?:,(?=\s*[^\s,])|$)`,
);

/**
 * Parses a selector such as `a=b,c in (d,e),!f` into a LabelSelector. Returns `undefined` if the selector is invalid.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/labels/selector.go
 */
export function parseLabelSelector(text: string): JsonObject | undefined {
  const matchExpressions: JsonObject[] = [];
  for (let rest = text.trim(); rest !== '';) {
    const groups = REQUIREMENT.exec(rest);
    if (!groups) return undefined;
    matchExpressions.push(parseRequirement(groups.groups ?? {}));
    rest = rest.slice(groups[0].length);
  }
  return { matchExpressions };
}

type Groups = Readonly<Record<string, string | undefined>>;

function parseRequirement({ absent, key = '', equality, value = '', set, values = '' }: Groups) {
  if (absent !== undefined) return { key: absent, operator: 'DoesNotExist', values: [] };
  if (equality !== undefined) return { key, operator: equality === '!=' ? 'NotIn' : 'In', values: [value] };
  if (set === undefined) return { key, operator: 'Exists', values: [] };
  return { key, operator: set === 'in' ? 'In' : 'NotIn', values: values.split(',').map((item) => item.trim()) };
}

type Labels = Readonly<Record<string, string>>;

/**
 * Returns true if a LabelSelector matches the labels. An empty selector matches all objects, and an absent selector
 * matches none.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/v1/types.go
 */
export function matchesLabelSelector(selector: unknown, labels: Labels | undefined): boolean {
  if (!isObject(selector)) return false;
  const required = isObject(selector['matchLabels']) ? Object.entries(selector['matchLabels']) : [];
  const expressions = Array.isArray(selector['matchExpressions']) ? selector['matchExpressions'] : [];
  return (
    required.every(([key, value]) => labelValue(labels, key) === value) &&
    expressions.every((expression) => isObject(expression) && matchesExpression(expression, labels))
  );
}

/** Returns true if a LabelSelector has no requirements, so it matches everything. */
export function isEmptySelector(selector: JsonObject): boolean {
  const { matchLabels, matchExpressions } = selector;
  const hasLabels = isObject(matchLabels) && Object.keys(matchLabels).length > 0;
  return !hasLabels && !(Array.isArray(matchExpressions) && matchExpressions.length > 0);
}

function matchesExpression(expression: JsonObject, labels: Labels | undefined): boolean {
  const value = labelValue(labels, String(expression['key']));
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

function labelValue(labels: Labels | undefined, key: string): string | undefined {
  return labels && Object.hasOwn(labels, key) ? labels[key] : undefined;
}
