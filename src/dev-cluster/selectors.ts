import { matchesLabelSelector } from '../kube/webhooks.ts';
import { ApiError, badRequest } from '../kube/status.ts';
import { at, metadataOf, type ApiObject, type ResourceInfo } from './types.ts';

/** Returns true if an object is selected. */
export type Selector = (object: ApiObject) => boolean;

const KEY = String.raw`[^\s=!,()<>]+`;
const VALUE = String.raw`[^\s=!,()<>]*`;
/** One requirement up to its comma or the end: `!key`, `key`, `key=value` or `key in (a, b)`. */
const REQUIREMENT = new RegExp(
  String.raw`^\s*(?:!\s*(?<absent>${KEY})|(?<key>${KEY})(?:\s*(?<equality>==?|!=)\s*(?<value>${VALUE})|\s+(?<set>in|notin)\s*\((?<values>[^()]*)\))?)\s*(?:,(?=\s*[^\s,])|$)`,
);

/**
 * Parses the `labelSelector` of a query, such as `a=b,c in (d,e),!f`. Throws ApiError 400.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/labels/selector.go
 */
export function parseLabelSelector(text: string): Selector {
  const matchExpressions: { key: string; operator: string; values: string[] }[] = [];
  for (let rest = text; rest.trim() !== '';) {
    const groups = REQUIREMENT.exec(rest);
    if (!groups) throw new ApiError(badRequest(`unable to parse requirement: invalid label selector '${text}'`));
    matchExpressions.push(expressionOf(groups.groups ?? {}));
    rest = rest.slice(groups[0].length);
  }
  return (object) => matchesLabelSelector({ matchExpressions }, metadataOf(object).labels);
}

type Groups = Readonly<Record<string, string | undefined>>;

function expressionOf({ absent, key = '', equality, value = '', set, values = '' }: Groups) {
  if (absent !== undefined) return { key: absent, operator: 'DoesNotExist', values: [] };
  if (equality !== undefined) return { key, operator: equality === '!=' ? 'NotIn' : 'In', values: [value] };
  if (set === undefined) return { key, operator: 'Exists', values: [] };
  return { key, operator: set === 'in' ? 'In' : 'NotIn', values: values.split(',').map((item) => item.trim()) };
}

/** Parses the `fieldSelector` of a query, such as `metadata.name=a,status.phase!=Running`. Throws ApiError 400. */
export function parseFieldSelector(text: string, { kind, selectableFields = [], custom }: ResourceInfo): Selector {
  const supported = ['metadata.name', 'metadata.namespace', ...selectableFields];
  const terms = text.split(',').filter((term) => term !== '');
  const selectors = terms.map((term): Selector => {
    const [, field = '', operator, value] = /^(.*?)(!=|==?)(.*)$/s.exec(term) ?? [];
    if (value === undefined) throw new ApiError(badRequest(`invalid selector: '${text}'; can't understand '${term}'`));
    if (!supported.includes(field)) throw unsupportedField(field, kind, custom);
    return (object) => (fieldText(object, field) === value) === (operator !== '!=');
  });
  return (object) => selectors.every((selects) => selects(object));
}

function unsupportedField(field: string, kind: string, custom: boolean): ApiError {
  const known = 'only "metadata.name", "metadata.namespace"';
  const message = custom ? `"${field}" is not a known field selector: ${known}` : `field label not supported: ${field}`;
  return new ApiError(badRequest(`${message} (${kind})`));
}

/** Boolean fields that are absent compare as `false`, all others as an empty text. */
function fieldText(object: ApiObject, field: string): string {
  const value = at(object, ...field.split('.'));
  if (value === undefined) return field === 'spec.hostNetwork' || field === 'spec.unschedulable' ? 'false' : '';
  return typeof value === 'string' || typeof value === 'boolean' ? String(value) : '';
}

/** Returns the name that a field selector requires, by which authorization restricts lists and watches. */
export function selectedName(fieldSelector: string): string {
  return /(?:^|,)metadata\.name==?([^,]*)(?:,|$)/.exec(fieldSelector)?.[1] ?? '';
}
