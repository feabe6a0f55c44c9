import type { ResourceInfo } from '../../types.ts';

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** What kubectl reads of an operation: its kind, the parameters it takes and the patches it understands. */
interface Operation {
  readonly 'x-kubernetes-action': string;
  readonly 'x-kubernetes-group-version-kind': {
    readonly group: string;
    readonly version: string;
    readonly kind: string;
  };
  readonly parameters?: readonly object[];
  readonly requestBody?: object;
  readonly responses: object;
}

const COLLECTION: Readonly<Partial<Record<Method, string>>> = {
  get: 'list',
  post: 'create',
  delete: 'deletecollection',
};
const ITEM: Readonly<Partial<Record<Method, string>>> = { get: 'get', put: 'update', patch: 'patch', delete: 'delete' };

/** The paths of a resource, its `status` included, with an operation for each of its verbs. */
export function pathsOf(resource: ResourceInfo): [string, object][] {
  const collection = collectionPath(resource);
  const item = `${collection}/{name}`;
  return [
    [collection, operationsOf(resource, COLLECTION)],
    [item, operationsOf(resource, ITEM)],
    ...(resource.subresources.includes('status')
      ? [[`${item}/status`, operationsOf(resource, { put: 'update', patch: 'patch' })] as [string, object]]
      : []),
  ];
}

function collectionPath({ group, version, resource, namespaced }: ResourceInfo): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}${namespaced ? '/namespaces/{namespace}' : ''}/${resource}`;
}

function operationsOf(resource: ResourceInfo, verbs: Readonly<Partial<Record<Method, string>>>): object {
  const methods = (Object.entries(verbs) as [Method, string][]).filter(([, verb]) => resource.verbs.includes(verb));
  return Object.fromEntries(methods.map(([method, verb]) => [method, operationOf(resource, method, verb)]));
}

function operationOf({ group, version, kind, custom }: ResourceInfo, method: Method, verb: string): Operation {
  return {
    'x-kubernetes-action': verb === 'update' ? 'put' : verb,
    'x-kubernetes-group-version-kind': { group, version, kind },
    ...(WRITES.has(method) ? { parameters: parametersOf(method) } : {}),
    ...(method === 'patch' ? { requestBody: { content: patchContent(custom), required: true } } : {}),
    responses: { 200: { description: 'OK' } },
  };
}

const WRITES: ReadonlySet<Method> = new Set(['post', 'put', 'patch']);

function parametersOf(method: Method): object[] {
  const names = ['dryRun', 'fieldManager', 'fieldValidation', ...(method === 'patch' ? ['force'] : [])];
  return names.map((name) => ({
    name,
    in: 'query',
    schema: { type: name === 'force' ? 'boolean' : 'string', uniqueItems: true },
  }));
}

/** Custom resources do not take strategic merge patches. */
function patchContent(custom: boolean): object {
  const types = [
    'apply-patch+yaml',
    'json-patch+json',
    'merge-patch+json',
    ...(custom ? [] : ['strategic-merge-patch+json']),
  ];
  return Object.fromEntries(types.map((type) => [`application/${type}`, { schema: { type: 'object' } }]));
}
