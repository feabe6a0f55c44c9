import type { Connection } from '../../cluster/connect.ts';
import { TIER_LABEL } from '../../kube/installation.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { escapeKey } from '../../kube/json-pointer.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { SCC_MODE_LABEL } from '../../policy/scc/mode.ts';
import { FIELD_MANAGER, ifThere } from '../installation/connect.ts';
import { listObjects, objectPath, type AnyObject } from '../installation/resource.ts';
import type { Removal } from './remove.ts';

const LABELS: readonly string[] = [SCC_MODE_LABEL, TIER_LABEL];
const ANNOTATIONS: readonly string[] = Object.values(NAMESPACE_RANGE_ANNOTATIONS);

/** The operations that take our labels and annotations off a namespace; none if it has none. */
export function planPurge({ metadata: { labels, annotations } }: AnyObject): JsonPatchOp[] {
  return [...removals('labels', labels, LABELS), ...removals('annotations', annotations, ANNOTATIONS)];
}

function removals(
  field: 'labels' | 'annotations',
  present: Readonly<Record<string, string>> = {},
  keys: readonly string[],
): JsonPatchOp[] {
  return keys
    .filter((key) => Object.hasOwn(present, key))
    .map((key) => ({ op: 'remove', path: `/metadata/${field}/${escapeKey(key)}` }));
}

/** Takes our labels and annotations off all namespaces; resolves to how many the server refuses to change. */
export async function purgeNamespaces(connection: Connection, { dryRun, signal, tell }: Removal): Promise<number> {
  let refused = 0;
  for (const namespace of await listObjects(connection, RESOURCES.Namespace, { signal })) {
    const ops = planPurge(namespace);
    if (ops.length === 0) continue;
    const { name } = namespace.metadata;
    try {
      await ifThere(() =>
        connection.request({
          method: 'PATCH',
          path: objectPath(RESOURCES.Namespace, name),
          query: { fieldManager: FIELD_MANAGER, ...(dryRun ? { dryRun: 'All' } : {}) },
          contentType: 'application/json-patch+json',
          body: ops,
          signal,
        }),
      );
      tell(`namespaces/${name} cleared of labels and annotations${dryRun ? ' (server dry run)' : ''}`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      tell(`namespaces/${name} keeps its labels and annotations: ${error.message}`);
      refused++;
    }
  }
  return refused;
}
