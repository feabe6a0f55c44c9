import { formatApiVersion } from '../kube/resources.ts';
import type { ServedResource } from './resource-info.ts';
import { findSubresource, type Registry } from './resources.ts';

export interface Document {
  readonly contentType: string;
  readonly body: string;
}

/** Paths that anonymous clients can read. */
export const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/livez', '/readyz']);

export const KUBERNETES_VERSION = 'v1.36';

const VERSION = {
  major: '1',
  minor: KUBERNETES_VERSION.slice('v1.'.length),
  gitVersion: `${KUBERNETES_VERSION}.0+portcullis-dev`,
  platform: 'development',
};

/**
 * An empty OpenAPI v2 document in protobuf. kubectl requests it for kinds that the v3 documents do not contain.
 * @see https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto
 */
const EMPTY_OPENAPI_V2: Document = {
  contentType: 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf',
  body: '\n\u00032.0\u0012\u0015\n\nKubernetes\u0012\u0007v1.36.0',
};

/**
 * Returns the document at a non-resource path, or `undefined` for an unknown path. Aggregated discovery is not
 * supported, because clients that request it also accept separate documents.
 */
export function findDocument(registry: Registry, path: string): Document | undefined {
  if (HEALTH_PATHS.has(path)) return { contentType: 'text/plain; charset=utf-8', body: 'ok' };
  if (path === '/version') return json(VERSION);
  if (path === '/api') return json({ kind: 'APIVersions', versions: ['v1'] });
  if (path === '/apis') return json({ kind: 'APIGroupList', apiVersion: 'v1', groups: apiGroups(registry) });
  if (path === '/openapi/v2') return EMPTY_OPENAPI_V2;
  if (path === '/openapi/v3') return json(openApiIndex(registry));
  const isOpenApi = path.startsWith('/openapi/v3/');
  const [root, ...parts] = path.slice(isOpenApi ? '/openapi/v3/'.length : 1).split('/');
  if (root !== 'api' && root !== 'apis') return undefined;
  const [group = '', version, more] = root === 'api' ? ['', ...parts] : parts;
  if (more !== undefined) return undefined;
  if (version === undefined) {
    const found = apiGroups(registry).find(({ name }) => name === group);
    return found && json({ kind: 'APIGroup', apiVersion: 'v1', ...found });
  }
  const resources = registry.list().filter((info) => info.group === group && info.version === version);
  if (resources.length === 0) return undefined;
  return json(isOpenApi ? openApi(resources) : resourceList(resources, formatApiVersion({ group, version })));
}

function json(document: object): Document {
  return { contentType: 'application/json', body: JSON.stringify(document) };
}

/** Returns all groups except the core group. */
function apiGroups(registry: Registry) {
  const byGroup = Map.groupBy(registry.list(), ({ group }) => group);
  byGroup.delete('');
  return [...byGroup].map(([name, resources]) => {
    const versions = [...new Set(resources.map(({ version }) => version))].map((version) => {
      return { groupVersion: `${name}/${version}`, version };
    });
    return { name, versions, preferredVersion: versions[0] };
  });
}

function resourceList(resources: readonly ServedResource[], groupVersion: string): object {
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: resources.flatMap(describeResource) };
}

function describeResource(info: ServedResource): object[] {
  const { resource: name, singular: singularName, namespaced, kind, verbs, shortNames, categories } = info;
  const subresources = info.subresources
    .map((subresource) => findSubresource(info, subresource))
    .filter((part) => part !== undefined)
    .map((part) => ({ name: `${name}/${part.name}`, singularName: '', namespaced, ...part.kind, verbs: part.verbs }));
  return [{ name, singularName, namespaced, kind, verbs, shortNames, categories }, ...subresources];
}

const OPENAPI_INFO = { title: 'Kubernetes', version: 'unversioned' } as const;

/** Returns the paths of the OpenAPI documents of all group versions. */
function openApiIndex(registry: Registry): object {
  const roots = new Set(registry.list().map((info) => apiRoot(info).slice(1)));
  return { paths: Object.fromEntries([...roots].map((root) => [root, { serverRelativeURL: `/openapi/v3/${root}` }])) };
}

/**
 * Returns an OpenAPI document that contains no schemas. From this document, kubectl determines that the server supports
 * dry runs and field validation.
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
 */
function openApi(resources: readonly ServedResource[]): object {
  const paths = Object.fromEntries(resources.map(patchPath));
  return { openapi: '3.0.0', info: OPENAPI_INFO, paths, components: { schemas: {} } };
}

function apiRoot({ group, version }: ServedResource): string {
  return group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
}

/**
 * Describes the PATCH operation. It has no request body, so kubectl computes strategic merge patches from its own types
 * instead of the document.
 */
function patchPath(info: ServedResource): [string, object] {
  const { group, version, kind, namespaced, resource } = info;
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map((name) => ({ name, in: 'query' }));
  const operation = { 'x-kubernetes-group-version-kind': { group, version, kind }, parameters };
  return [`${apiRoot(info)}${namespaced ? '/namespaces/{namespace}' : ''}/${resource}/{name}`, { patch: operation }];
}
