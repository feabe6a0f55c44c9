/** Finds pod templates of custom resources in manifests and in a cluster. */
import type { Connection } from '../../cluster/connection.ts';
import { readPages } from '../../cluster/lists.ts';
import { fieldNamespace, manifestName, manifestNamespace } from '../../config/objects.ts';
import { parsePath } from '../../config/yaml.ts';
import type { CustomPodSource } from '../../kube/controller-pod.ts';
import { metadataProblem } from '../../kube/names.ts';
import { ApiError } from '../../kube/status.ts';
import { summarizeNames } from '../../kube/text.ts';
import { isObject, type JsonObject, type ObjectMeta, withValueAt } from '../../kube/types.ts';
import { type FieldPath, findPodTemplates, printFieldPath, type WorkloadResource } from '../../policy/pod/index.ts';
import { isKnownKind } from '../../policy/psa/index.ts';

/** An object of any kind, with the path of its pod template if the settings configure one. */
interface CustomObject extends Pick<WorkloadResource, 'templatePath'> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly value: JsonObject;
}

interface CustomSources {
  readonly customSources: readonly CustomPodSource[];
  /** Descriptions of the objects that are not evaluated. */
  readonly assumptions: readonly string[];
}

const MAX_SHOWN = 5;

/**
 * Finds the pod templates of custom resources, and describes containers and security fields outside a pod template,
 * such as `Workflow shop/hello (PATH)`.
 */
export function findCustomSources(objects: readonly CustomObject[], namespace: string): CustomSources {
  const customSources: CustomPodSource[] = [];
  const containers: string[] = [];
  const fields: string[] = [];
  for (const { apiVersion, kind, value, templatePath } of objects) {
    if (isKnownKind(apiVersion, kind)) continue;
    const found = findPodTemplates(value, templatePath);
    const name = manifestName(value);
    const labels = readLabels(value);
    const getMetadata = (path: FieldPath) => ({
      ...labels,
      name,
      namespace: fieldNamespace(value, path) ?? namespace,
    });
    for (const template of found.templates) {
      customSources.push({ kind, object: { ...value, metadata: getMetadata(template) }, template });
    }
    for (const { path, pod, sourcePath } of found.composed) {
      const copy = withValueAt(value, path, pod) as JsonObject;
      const sourceField = (field: string): string => printFieldPath(sourcePath(parsePath(field)));
      customSources.push({ kind, object: { ...copy, metadata: getMetadata(path) }, template: path, sourceField });
    }
    const scope = manifestNamespace(value) ?? namespace;
    const describe = (path: FieldPath): string => `${kind} ${scope}/${name} (${printFieldPath(path)})`;
    for (const path of found.unknown) containers.push(describe(path));
    for (const path of found.fields) fields.push(describe(path));
  }
  const assume = (noun: string, names: readonly string[]): readonly string[] =>
    names.length === 0 ? [] : [`no pods for ${noun} outside pod templates: ${summarizeNames(names, MAX_SHOWN)}`];
  return { customSources, assumptions: [...assume('containers', containers), ...assume('security fields', fields)] };
}

/** Returns the labels of an object, or none if its metadata is invalid. */
function readLabels({ metadata }: JsonObject): Pick<ObjectMeta, 'labels'> {
  if (!isObject(metadata) || metadataProblem(metadata)) return {};
  return Object.fromEntries(Object.entries(metadata).filter(([field, value]) => field === 'labels' && value !== null));
}

interface ReadOptions {
  readonly connection: Pick<Connection, 'read' | 'request'>;
  /** If set, only this namespace is read. */
  readonly only: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Reads the pod templates of the resources that the settings configure. Rejects with the errors of
 * `Connection.request`, except for 403 and 404.
 */
export async function readCustomSources(
  resources: readonly WorkloadResource[],
  options: ReadOptions,
): Promise<CustomSources> {
  const lists = await Promise.all(resources.map((resource) => listResource(resource, options)));
  const { customSources, assumptions } = findCustomSources(
    lists.flatMap((list) => (typeof list === 'string' ? [] : list)),
    '',
  );
  return { customSources, assumptions: [...lists.filter((list) => typeof list === 'string'), ...assumptions] };
}

/** Lists the objects of a resource, or returns a description if they cannot be evaluated. */
async function listResource(
  { group, version, resource, templatePath }: WorkloadResource,
  { connection, only, signal }: ReadOptions,
): Promise<readonly CustomObject[] | string> {
  const name = `${resource}.${group}`;
  try {
    const groupVersion = `${group}/${version === '*' ? await preferredVersion(group, connection, signal) : version}`;
    const { resources } = await connection.request({ method: 'GET', path: `/apis/${groupVersion}`, signal });
    const served: readonly unknown[] = Array.isArray(resources) ? resources : [];
    const info = served.filter(isObject).find((entry) => entry['name'] === resource);
    if (typeof info?.['kind'] !== 'string') return `no ${name}: the cluster does not serve them`;
    if (info['namespaced'] !== true)
      return `no ${name}: they are cluster-scoped, and the namespace of their pods is unknown`;
    const type = { apiVersion: groupVersion, kind: info['kind'] };
    const path = `/apis/${groupVersion}/${only === undefined ? '' : `namespaces/${only}/`}${resource}`;
    let objects: CustomObject[] = [];
    await readPages(connection, { path, signal }, () => {
      objects = [];
      return (items) => {
        for (const item of items)
          objects.push({ ...type, value: { ...item, ...type }, ...(templatePath && { templatePath }) });
      };
    });
    return objects;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code } = error.status;
    if (code === 403) return `${name} not read: the user is not allowed to list them`;
    if (code === 404) return `no ${name}: the cluster does not serve them`;
    throw error;
  }
}

/** Returns the preferred version of an API group. Rejects with the errors of `Connection.request`. */
export async function preferredVersion(
  group: string,
  connection: Pick<Connection, 'request'>,
  signal: AbortSignal,
): Promise<string> {
  const { preferredVersion } = await connection.request({ method: 'GET', path: `/apis/${group}`, signal });
  return isObject(preferredVersion) ? String(preferredVersion['version']) : '';
}
