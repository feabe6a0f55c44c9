import { ApiError, badRequest } from '../kube/status.ts';
import { at } from './tables/cells.ts';
import type { ApiObject, ResourceInfo } from './types.ts';

interface Term {
  readonly field: string;
  readonly value: string;
  readonly equal: boolean;
}

/** Says whether an object is selected, and which name alone can be. */
export interface FieldSelector {
  matches(object: ApiObject): boolean;
  readonly name?: string;
}

/** By kind: the fields that can be selected beside the name and the namespace. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  Pod: [
    'spec.nodeName',
    'spec.restartPolicy',
    'spec.schedulerName',
    'spec.serviceAccountName',
    'spec.hostNetwork',
    'status.phase',
    'status.podIP',
    'status.podIPs',
    'status.nominatedNodeName',
  ],
  Node: ['spec.unschedulable'],
  ReplicationController: ['status.replicas'],
  ReplicaSet: ['status.replicas'],
  Job: ['status.successful'],
  Namespace: ['status.phase'],
  Secret: ['type'],
  Service: ['spec.clusterIP', 'spec.type'],
  Event: [
    'involvedObject.kind',
    'involvedObject.namespace',
    'involvedObject.name',
    'involvedObject.uid',
    'involvedObject.apiVersion',
    'involvedObject.resourceVersion',
    'involvedObject.fieldPath',
    'reason',
    'reportingComponent',
    'source',
    'type',
  ],
};

/** Fields that are not where their label says. */
const PLACES: Readonly<Record<string, readonly string[]>> = {
  source: ['source', 'component'],
  'status.successful': ['status', 'succeeded'],
};

/**
 * Reads the `fieldSelector` of a query: `metadata.name=a,status.phase!=Running`. Throws ApiError 400.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/fields/selector.go
 */
export function parseFieldSelector(text: string, resource: ResourceInfo): FieldSelector {
  const terms = splitTerms(text)
    .filter((term) => term !== '')
    .map((term) => parseTerm(term, text));
  for (const { field } of terms) checkField(field, resource);
  const name = terms.find(({ field, equal }) => equal && field === 'metadata.name')?.value;
  return {
    matches: (object) => terms.every((term) => (valueOf(object, term.field) === term.value) === term.equal),
    ...(name === undefined ? {} : { name }),
  };
}

/** Splits at commas that no backslash precedes. */
function splitTerms(text: string): string[] {
  return text.match(/(?:\\.|[^,\\])+/gs) ?? [];
}

function parseTerm(term: string, whole: string): Term {
  const found = /^(.*?)(!=|==|=)(.*)$/s.exec(term);
  if (!found) throw new ApiError(badRequest(`invalid selector: '${whole}'; can't understand '${term}'`));
  const [, field = '', operator, value = ''] = found;
  return { field, value: unescape(value), equal: operator !== '!=' };
}

function unescape(value: string): string {
  return value.replaceAll(/\\(.?)|[,=]/gs, (found, escaped: string | undefined) => {
    if (escaped === undefined) {
      throw invalidSelector(`unescaped character in value: ${String(found.codePointAt(0))}`);
    }
    if (!['\\', ',', '='].includes(escaped)) throw invalidSelector(`invalid escape sequence: ${found}`);
    return escaped;
  });
}

function invalidSelector(problem: string): ApiError {
  return new ApiError(badRequest(`invalid field selector: ${problem}`));
}

function checkField(field: string, { kind, namespaced, custom }: ResourceInfo): void {
  if (field === 'metadata.name' || (field === 'metadata.namespace' && (namespaced || custom))) return;
  const special = !custom && Object.hasOwn(FIELDS, kind) ? FIELDS[kind] : undefined;
  if (special?.includes(field)) return;
  const message = special
    ? `field label not supported: ${field}`
    : `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`;
  throw new ApiError(badRequest(message));
}

function valueOf(object: ApiObject, field: string): string {
  const path = Object.hasOwn(PLACES, field) ? PLACES[field] : undefined;
  const value = at(object, ...(path ?? field.split('.')));
  if (field === 'spec.unschedulable' || field === 'spec.hostNetwork') return String(value === true);
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? value : field.startsWith('status.re') || field.startsWith('status.su') ? '0' : '';
}
