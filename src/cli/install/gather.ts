import type { ApiRequest, Connection } from '../../cluster/connect.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import { ApiError } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ClusterFacts } from './facts.ts';

const SCC_DEFINITION =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/securitycontextconstraints.security.openshift.io';
/** Nodes of a managed cluster are alike. */
const SOME = '5';

/** Looks at a cluster. Rejects with an ApiError or a UserError if not even its version can be read. */
export async function gatherFacts(connection: Connection, signal: AbortSignal): Promise<ClusterFacts> {
  const read = (path: string, query: ApiRequest['query'] = {}): Promise<JsonObject> =>
    connection.request({ method: 'GET', path, query, signal });
  const [version, apis, sccDefinition, nodes] = await Promise.all([
    read('/version'),
    read('/apis'),
    read(SCC_DEFINITION).then(originOf, whyNot),
    read('/api/v1/nodes', { limit: SOME }).catch(orEmpty),
  ]);
  return {
    server: connection.server,
    version: String(version['gitVersion']),
    groups: itemsOf(apis, 'groups').map(({ name }) => String(name)),
    sccDefinition,
    nodeLabels: [...new Set(itemsOf(nodes, 'items').flatMap((node) => Object.keys(labelsOf(node))))],
  };
}

function originOf(definition: JsonObject): ClusterFacts['sccDefinition'] {
  return labelsOf(definition)[PART_OF_LABEL] === PART_OF ? 'us' : 'others';
}

function whyNot(error: unknown): ClusterFacts['sccDefinition'] {
  if (!(error instanceof ApiError)) throw error;
  return error.status.code === 404 ? 'nobody' : 'unknown';
}

function orEmpty(error: unknown): JsonObject {
  if (error instanceof ApiError) return {};
  throw error;
}

function itemsOf(list: JsonObject, field: string): readonly JsonObject[] {
  const items = list[field];
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function labelsOf({ metadata }: JsonObject): JsonObject {
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  return isObject(labels) ? labels : {};
}
