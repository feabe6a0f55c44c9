import { matchesLabelSelector } from '../kube/webhooks.ts';
import { ApiError, badRequest } from '../kube/status.ts';
import { getMetadata, textAt, type ApiObject, type ResourceInfo } from './types.ts';
import { compareBytes } from '../kube/text.ts';
import { readBoolean, readInteger } from './body.ts';
import type { Call, Core, ListResult } from './request.ts';
import { storageKey, toServed } from './resources.ts';
import { getObjectKey } from './storage.ts';

/** Returns true if an object is selected. */
type Selector = (object: ApiObject) => boolean;

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
    matchExpressions.push(parseRequirement(groups.groups ?? {}));
    rest = rest.slice(groups[0].length);
  }
  return (object) => matchesLabelSelector({ matchExpressions }, getMetadata(object).labels);
}

type Groups = Readonly<Record<string, string | undefined>>;

function parseRequirement({ absent, key = '', equality, value = '', set, values = '' }: Groups) {
  if (absent !== undefined) return { key: absent, operator: 'DoesNotExist', values: [] };
  if (equality !== undefined) return { key, operator: equality === '!=' ? 'NotIn' : 'In', values: [value] };
  if (set === undefined) return { key, operator: 'Exists', values: [] };
  return { key, operator: set === 'in' ? 'In' : 'NotIn', values: values.split(',').map((item) => item.trim()) };
}

/** Parses the `fieldSelector` of a query, such as `metadata.name=a,status.phase!=Running`. Throws ApiError 400. */
export function parseFieldSelector(text: string, { kind, selectableFields = [] }: ResourceInfo): Selector {
  const supported = ['metadata.name', 'metadata.namespace', ...selectableFields];
  const terms = text.split(',').filter((term) => term !== '');
  const selectors = terms.map((term): Selector => {
    const [, field = '', operator, value] = /^(.*?)(!=|==?)(.*)$/s.exec(term) ?? [];
    if (value === undefined) throw new ApiError(badRequest(`invalid selector: '${text}'; can't understand '${term}'`));
    if (!supported.includes(field)) throw new ApiError(badRequest(`field label not supported: ${field} (${kind})`));
    return (object) => (textAt(object, ...field.split('.')) === value) === (operator !== '!=');
  });
  return (object) => selectors.every((selects) => selects(object));
}

/** Returns the name that a field selector requires, by which authorization restricts lists and watches. */
export function selectedName(fieldSelector: string): string {
  return /(?:^|,)metadata\.name==?([^,]*)(?:,|$)/.exec(fieldSelector)?.[1] ?? '';
}

/** The query parameters of a list or a watch. */
export interface ListOptions {
  readonly selects: Selector;
  /** 0: any version. */
  readonly resourceVersion: number;
  /** 0: no limit. */
  readonly limit: number;
  readonly continue: string;
  readonly timeoutSeconds: number;
  readonly allowWatchBookmarks: boolean;
}

/** Parses the query of a list or a watch. Throws ApiError 400. */
export function readListOptions(query: URLSearchParams, info: ResourceInfo): ListOptions {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '');
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', info);
  return {
    selects: (object) => labels(object) && fields(object),
    resourceVersion: readInteger(query, 'resourceVersion') ?? 0,
    limit: readInteger(query, 'limit') ?? 0,
    continue: query.get('continue') ?? '',
    timeoutSeconds: readInteger(query, 'timeoutSeconds') ?? 0,
    allowWatchBookmarks: readBoolean(query, 'allowWatchBookmarks'),
  };
}

/** The state of a list that is read in pages. */
interface Continuation {
  /**
   * The resource version of the first page. Later pages show the latest objects: a watch from this version reports the
   * changes in between again.
   */
  readonly revision: number;
  /** The key of the last object of the previous page. */
  readonly after: string;
}

/** Lists the selected objects of a resource. The list is never older than the requested version. Throws ApiError 400. */
export function list(core: Core, call: Call): ListResult {
  const options = readListOptions(call.query, call.info);
  const from = options.continue === '' ? undefined : readToken(options.continue);
  const revision = from?.revision ?? core.storage.revision();
  const all = currentObjects(core, call).filter(options.selects);
  const rest = from ? all.filter((object) => compareBytes(getObjectKey(object), from.after) > 0) : all;
  const items = options.limit > 0 ? rest.slice(0, options.limit) : rest;
  const last = items.at(-1);
  const hasMore = last !== undefined && items.length < rest.length;
  const token = hasMore ? { continue: writeToken({ revision, after: getObjectKey(last) }) } : {};
  return { kind: 'list', info: call.info, items, metadata: { resourceVersion: String(revision), ...token } };
}

/** Returns the current objects in the scope of a call. */
export function currentObjects(core: Core, { info, scope }: Call): readonly ApiObject[] {
  const objects = core.storage.list(storageKey(info), scope === '' ? undefined : scope);
  return objects.map((object) => toServed(info, object));
}

function writeToken(continuation: Continuation): string {
  return Buffer.from(JSON.stringify(continuation)).toString('base64url');
}

function readToken(token: string): Continuation {
  try {
    const { revision, after } = JSON.parse(Buffer.from(token, 'base64url').toString()) as Partial<Continuation>;
    if (typeof revision === 'number' && typeof after === 'string') return { revision, after };
  } catch {
    // Reported below, as is a token with other content.
  }
  throw new ApiError(badRequest('invalid continue token: continue key is not valid'));
}
