/** Differences between an installation in a cluster and its new manifests. */
import type { AnyObject, ClusterClient } from '../../cluster/client.ts';
import { listSettings } from '../../config/setting-paths.ts';
import { printYaml } from '../../config/yaml.ts';
import type { Manifest, ManifestSettings } from '../../install/index.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { DryRun } from '../cluster.ts';
import { printDiff } from '../output/diff.ts';
import { KUBECTL, manifestPath, NODES_CONFIG } from './installed.ts';

/** An object to apply, and the existing object in the cluster. */
export interface LiveManifest {
  readonly manifest: Manifest;
  readonly live: AnyObject | undefined;
}

/** Differences from the cluster, either as the API server computes them or for the fields in the manifests. */
export async function printDiffs(
  client: ClusterClient,
  objects: readonly LiveManifest[],
  dryRun: DryRun,
): Promise<string> {
  const diffs: string[] = [];
  for (const { manifest, live } of objects) {
    const after = dryRun === 'server' && live ? await applyDryRun(client, manifest, live) : manifest;
    const before = dryRun === 'server' ? live : live && selectFields(live, manifest);
    const [from, to] = [before, after].map((one) => (one ? printYaml([sortFields(withoutBookkeeping(one))]) : ''));
    const name = objectPathName(manifest);
    diffs.push(printDiff({ from: `${name} (cluster)`, to: `${name} (new)` }, from ?? '', to ?? ''));
  }
  return diffs.join('');
}

/** Like kubectl, takes over fields that it applied without `--server-side`. */
async function applyDryRun({ send }: ClusterClient, manifest: Manifest, live: AnyObject): Promise<JsonObject> {
  const owners: readonly JsonObject[] = live.metadata.managedFields ?? [];
  const force = owners.some(({ manager }) => manager === 'kubectl-client-side-apply') ? { force: 'true' } : {};
  return await send({
    method: 'PATCH',
    path: manifestPath(manifest),
    query: { fieldManager: KUBECTL, dryRun: 'All', ...force },
    contentType: 'application/apply-patch+yaml',
    body: manifest,
  });
}

export function objectPathName({ kind, metadata: { name, namespace } }: Pick<Manifest, 'kind' | 'metadata'>): string {
  return namespace === undefined ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}

/** Fields of a value that a manifest contains, in the manifest's order. Objects in lists are matched by name. */
function selectFields(live: unknown, manifest: unknown): unknown {
  if (Array.isArray(live) && Array.isArray(manifest)) {
    return live.map((item, index) => selectFields(item, findItem(manifest, item) ?? manifest[index] ?? item));
  }
  if (!isObject(live) || !isObject(manifest)) return live;
  // API servers do not store empty lists.
  const complete = Object.entries(manifest).map(([name, value]) => {
    const isEmptyList = Array.isArray(value) && value.length === 0;
    return [name, selectFields(live[name] ?? (isEmptyList ? value : undefined), value)] as const;
  });
  return Object.fromEntries(complete.filter(([, value]) => value !== undefined));
}

function findItem(items: readonly unknown[], item: unknown): unknown {
  const name = isObject(item) ? item['name'] : undefined;
  return items.find((one) => name !== undefined && isObject(one) && one['name'] === name);
}

/** Annotation in which `kubectl apply` stores a copy of the object. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** An object without the fields that API servers and kubectl maintain. */
function withoutBookkeeping(object: unknown): unknown {
  if (!isObject(object)) return object;
  const without = (part: JsonObject, ...keys: readonly string[]): JsonObject =>
    Object.fromEntries(Object.entries(part).filter(([key]) => !keys.includes(key)));
  const content = without(object, 'status');
  const { metadata } = content;
  if (!isObject(metadata)) return content;
  const names = ['managedFields', 'resourceVersion', 'generation', 'uid', 'creationTimestamp'];
  const kept = without(metadata, ...names);
  const { annotations } = metadata;
  if (!isObject(annotations)) return { ...content, metadata: kept };
  return { ...content, metadata: { ...kept, annotations: without(annotations, LAST_APPLIED) } };
}

/** The value with the fields of all objects sorted alphabetically. */
function sortFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortFields);
  if (!isObject(value)) return value;
  const names = Object.keys(value).toSorted();
  return Object.fromEntries(names.map((name) => [name, sortFields(value[name])]));
}

/** Summary lines with the settings and customized fields that keep their values, and the settings that change. */
export function summarizeSettings(
  before: Partial<ManifestSettings>,
  after: Partial<ManifestSettings>,
  fields: readonly string[] = [],
): readonly string[] {
  const old = new Map(describeSettings(before));
  const next = describeSettings(after);
  const kept = next.filter(([name, value]) => old.get(name) === value).map(([name, value]) => `${name}=${value}`);
  /** Returns the former value of a setting, or those of its fields. */
  const former = (name: string): string => {
    const fields = [...old].filter(([field]) => field.startsWith(`${name}.`)).map((field) => field.join('='));
    return old.get(name) ?? (fields.join(', ') || 'unset');
  };
  const changed = next
    .filter(([name, value]) => old.size > 0 && old.get(name) !== value)
    .map(([name, value]) => `${name}: ${former(name)} -> ${value}`);
  return [`kept: ${listOrNothing([...kept, ...fields])}`, `changed: ${listOrNothing(changed)}`];
}

export function listOrNothing(items: readonly string[]): string {
  return items.length === 0 ? 'nothing' : items.join(', ');
}

function describeSettings(settings: Partial<ManifestSettings>): readonly (readonly [name: string, value: string])[] {
  const { features, policy = {}, webhooks, ...rest } = settings;
  const isMonitored = settings.monitoring === 'prometheus-operator';
  const named = (['image', 'replicas', 'certificates', 'monitoring', 'runbook'] as const).flatMap((name) =>
    rest[name] === undefined || (name === 'runbook' && !(isMonitored && rest.runbook))
      ? []
      : [[name, String(rest[name])] as const],
  );
  const address = webhooks === undefined || webhooks === 'service' ? [] : [['webhook-url', webhooks.url] as const];
  const definitions = settings.nodesConfig === true ? [[NODES_CONFIG, 'true'] as const] : [];
  const installed = Object.entries(features ?? {}).map(([name, value]) => [name, String(value)] as const);
  const policies = listSettings(policy).map(
    ({ path, value }) => [`spec.${path.join('.')}`, JSON.stringify(value)] as const,
  );
  return [...named, ...address, ...installed, ...definitions, ...policies];
}
