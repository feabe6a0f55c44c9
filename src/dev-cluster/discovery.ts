import type { GroupVersionKind } from '../kube/types.ts';
import { openApiV2, openApiV3, openApiV3Index } from './fields/index.ts';
import { findSubresource, type Registry } from './resources.ts';
import { apiVersionOf, type ResourceInfo } from './types.ts';

export interface Document {
  readonly contentType: string;
  readonly body: string;
}

/** The paths that anonymous clients can read. */
export const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/livez', '/readyz']);

const VERSION = {
  major: '1',
  minor: '36',
  gitVersion: 'v1.36.0+portcullis-dev',
  gitCommit: '',
  gitTreeState: '',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
  platform: 'development',
};

const AGGREGATED_PARAMETERS = ';g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
const OPENAPI_PROTOBUF = 'application/com.github.proto-openapi.spec.v2';

/**
 * An empty OpenAPI v2 document in protobuf. kubectl requests it for a kind that the v3 documents do not contain, and
 * accepts no JSON.
 * @see https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto
 */
const EMPTY_OPENAPI_V2: Document = {
  contentType: `${OPENAPI_PROTOBUF}.v1.0+protobuf`,
  body: '\n\u00032.0\u0012\u0015\n\nKubernetes\u0012\u0007v1.36.0',
};

/** Returns the document at a path outside of the resources; `undefined` for an unknown path. */
export function findDocument(registry: Registry, path: string, accept: string): Document | undefined {
  if (HEALTH_PATHS.has(path)) return { contentType: 'text/plain; charset=utf-8', body: 'ok' };
  if (path === '/version') return json(VERSION);
  if (path === '/openapi/v2') {
    const acceptsJson = accept === '' || /application\/json|\*\/\*/.test(accept);
    return acceptsJson ? json(openApiV2()) : EMPTY_OPENAPI_V2;
  }
  if (path === '/openapi/v3') return json(openApiV3Index(groupVersions(registry)));
  const [root, ...parts] = path
    .replace(/^\/openapi\/v3\//, '/')
    .split('/')
    .slice(1);
  if (root !== 'api' && root !== 'apis') return undefined;
  const isAggregated = accept.includes(AGGREGATED_PARAMETERS);
  if (parts.length === 0 && isAggregated) return aggregated(registry, root);
  if (path === '/api') return json({ kind: 'APIVersions', versions: ['v1'] });
  if (path === '/apis') return json({ kind: 'APIGroupList', apiVersion: 'v1', groups: apiGroups(registry) });
  const [group = '', version, more] = root === 'api' ? ['', ...parts] : parts;
  if (more !== undefined) return undefined;
  if (version === undefined) {
    const found = apiGroups(registry).find(({ name }) => name === group);
    return found && json({ kind: 'APIGroup', apiVersion: 'v1', ...found });
  }
  const resources = resourcesOf(registry, { group, version });
  if (resources.length === 0) return undefined;
  if (path.startsWith('/openapi/')) return json(openApiV3({ group, version }, registry.list()));
  const groupVersion = apiVersionOf({ group, version });
  return json({
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion,
    resources: resources.flatMap(describeResource),
  });
}

function json(document: object): Document {
  return { contentType: 'application/json', body: JSON.stringify(document) };
}

interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** Returns the distinct group versions in the order of the registry. */
function groupVersions(registry: Registry): readonly GroupVersion[] {
  const byKey = new Map(registry.list().map(({ group, version }) => [`${group}/${version}`, { group, version }]));
  return [...byKey.values()];
}

function resourcesOf(registry: Registry, { group, version }: GroupVersion): readonly ResourceInfo[] {
  return registry.list().filter((info) => info.group === group && info.version === version);
}

/** Returns the groups other than the core group. */
function apiGroups(registry: Registry) {
  const byGroup = Map.groupBy(groupVersions(registry), ({ group }) => group);
  byGroup.delete('');
  return [...byGroup].map(([name, list]) => {
    const versions = list.map((one) => ({ groupVersion: apiVersionOf(one), version: one.version }));
    return { name, versions, preferredVersion: versions[0] };
  });
}

function namesOf({ shortNames, categories }: ResourceInfo): object {
  return { ...(shortNames.length === 0 ? {} : { shortNames }), ...(categories.length === 0 ? {} : { categories }) };
}

function describeResource(info: ResourceInfo): object[] {
  const { resource: name, singular: singularName, namespaced, kind, verbs } = info;
  const parts = subresourcesOf(info).map((part) => {
    const { group, version, kind: partKind } = part.kind;
    return {
      name: `${name}/${part.name}`,
      singularName: '',
      namespaced,
      group,
      version,
      kind: partKind,
      verbs: part.verbs,
    };
  });
  return [{ name, singularName, namespaced, kind, verbs, ...namesOf(info) }, ...parts];
}

function subresourcesOf(info: ResourceInfo) {
  return info.subresources.map((name) => findSubresource(info, name)).filter((part) => part !== undefined);
}

/** Returns all resources below `/api` or `/apis` in one document. */
function aggregated(registry: Registry, root: 'api' | 'apis'): Document {
  const byGroup = Map.groupBy(groupVersions(registry), ({ group }) => group);
  const groups = [...byGroup].filter(([group]) => (group === '') === (root === 'api'));
  const document = {
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    metadata: {},
    items: groups.map(([name, versions]) => ({
      metadata: name === '' ? {} : { name },
      versions: versions.map((one) => ({
        version: one.version,
        resources: resourcesOf(registry, one).map(describeAggregated),
        freshness: 'Current',
      })),
    })),
  };
  return { contentType: `application/json${AGGREGATED_PARAMETERS}`, body: JSON.stringify(document) };
}

function describeAggregated(info: ResourceInfo): object {
  const subresources = subresourcesOf(info).map(({ name, kind, verbs }) => {
    return { subresource: name, responseKind: responseKind(kind), verbs };
  });
  return {
    resource: info.resource,
    responseKind: responseKind(info),
    scope: info.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: info.singular,
    verbs: info.verbs,
    ...namesOf(info),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}

function responseKind({ group, version, kind }: GroupVersionKind): GroupVersionKind {
  return { group, version, kind };
}
