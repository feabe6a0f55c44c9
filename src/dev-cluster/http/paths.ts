import type { DevCluster } from '../cluster.ts';
import { openApiV2, openApiV3, openApiV3Index } from '../fields/index.ts';
import type { Registry } from '../registry.ts';
import { AGGREGATED, aggregatedDiscovery } from './aggregated-discovery.ts';
import { apiGroup, apiGroups, apiResources, apiVersions, groupVersionsOf } from './discovery.ts';
import { OPENAPI_PROTOBUF, type Form } from './negotiation.ts';
import type { Body } from './replies.ts';

/** Paths that are answered whoever asks. */
export const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/livez', '/readyz']);

const VERSION = {
  major: '1',
  minor: '36',
  emulationMajor: '1',
  emulationMinor: '36',
  minCompatibilityMajor: '1',
  minCompatibilityMinor: '35',
  gitVersion: 'v1.36.0+portcullis-dev',
  gitCommit: '',
  gitTreeState: '',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
  platform: 'development',
};

/**
 * A document that describes nothing, in protobuf: `swagger` and `info`. kubectl asks for it when the v3 documents do not
 * have a kind; from one without the kind it learns that there is nothing to validate, and goes on to say what is missing.
 * @see https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto
 */
const EMPTY_OPENAPI_V2: Body = {
  contentType: `${OPENAPI_PROTOBUF}.v1.0+protobuf`,
  body: '\n\u00032.0\u0012\u0015\n\nKubernetes\u0012\u0007v1.36.0',
};

/** Makes the function that answers for the paths of the server itself; `undefined` for paths that lead nowhere. */
export function createPaths(cluster: DevCluster): (path: string, form: Form, address: string) => Body | undefined {
  const { registry } = cluster;
  const documents = createCache(() => registry.revision());
  const openApi = (path: string, form: Form): Body | undefined => {
    if (form === 'openapi-protobuf') return EMPTY_OPENAPI_V2;
    if (path === '/openapi/v2') return json(documents(path, () => openApiV2()));
    if (path === '/openapi/v3') return json(documents(path, () => openApiV3Index(groupVersionsOf(registry))));
    const found = groupVersionOf(path.slice('/openapi/v3'.length));
    if (!found || !apiResources(registry, found.group, found.version)) return undefined;
    return json(documents(path, () => openApiV3(found, registry.list())));
  };

  return (path, form, address) => {
    if (OPEN_PATHS.has(path)) return text('ok');
    if (path === '/version') return json(VERSION);
    if (path === '/') return json({ paths: rootPaths(registry) });
    if (path.startsWith('/openapi/')) return openApi(path, form);
    if (form === 'discovery' && (path === '/api' || path === '/apis')) {
      const document = aggregatedDiscovery(registry, path === '/api' ? 'core' : 'groups');
      return { contentType: AGGREGATED, cacheControl: 'public', body: JSON.stringify(document) };
    }
    if (path === '/api') return json(apiVersions(address));
    if (path === '/apis') return json(apiGroups(registry));
    const found = groupVersionOf(path);
    const document = found
      ? apiResources(registry, found.group, found.version)
      : apiGroup(registry, path.replace('/apis/', ''));
    return document && json(document);
  };
}

function rootPaths(registry: Registry): string[] {
  const groups = groupVersionsOf(registry).filter(({ group }) => group !== '');
  const paths = groups.flatMap(({ group, version }) => [`/apis/${group}`, `/apis/${group}/${version}`]);
  return ['/api', '/api/v1', '/apis', ...paths, ...OPEN_PATHS, '/openapi/v2', '/openapi/v3', '/version'].toSorted();
}

/** The group version of `/api/v1` or `/apis/<group>/<version>`. */
function groupVersionOf(path: string): { group: string; version: string } | undefined {
  const [root, first, second, more] = path.split('/').slice(1);
  if (root === 'api' && first !== undefined && second === undefined) return { group: '', version: first };
  if (root !== 'apis' || first === undefined || second === undefined || more !== undefined) return undefined;
  return { group: first, version: second };
}

/** Keeps what was made until the revision changes. */
function createCache(revision: () => number): (key: string, make: () => object) => object {
  const made = new Map<string, object>();
  let seen = revision();
  return (key, make) => {
    if (seen !== revision()) made.clear();
    seen = revision();
    const document = made.get(key) ?? make();
    made.set(key, document);
    return document;
  };
}

function json(document: object): Body {
  return { contentType: 'application/json', body: JSON.stringify(document) };
}

function text(body: string): Body {
  return { contentType: 'text/plain; charset=utf-8', body };
}
