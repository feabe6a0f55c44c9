import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { INSTALLATION } from '../../../src/api/names.ts';
import { VERSION } from '../../../src/cli/command.ts';
import { readDocuments } from '../../../src/config/yaml.ts';
import { INITIAL_SETTINGS } from '../../../src/install/deployment.ts';
import { buildManifests, defaultSettings, type ManifestSettings, PROFILES } from '../../../src/install/index.ts';
import type { Kinds } from '../../../src/kube/kinds.ts';
import { isObject, type JsonObject } from '../../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../answers.ts';
import type { ApiClient, ApiResponse } from '../api-client.ts';
import { MANIFESTS, writeOverlay } from '../kubectl.ts';

/** Returns the objects of an installation with SCCs whose webhooks use a loopback port. */
export function localObjects(port: number, more: Partial<ManifestSettings> = {}): readonly JsonObject[] {
  const settings = {
    ...defaultSettings(VERSION),
    ...PROFILES.scc,
    ...more,
    webhooks: { url: `https://127.0.0.1:${port}` },
  };
  return JSON.parse(JSON.stringify(buildManifests(settings))) as JsonObject[];
}

interface ObjectPaths {
  readonly collection: string;
  readonly path: string;
}

const places = new Map<string, { readonly resource: string; readonly namespaced: boolean }>();

/** Finds the paths of an object through discovery. */
export async function resolvePaths(client: ApiClient, object: JsonObject): Promise<ObjectPaths> {
  const apiVersion = String(object['apiVersion']);
  const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const key = `${apiVersion} ${String(object['kind'])}`;
  const { resource, namespaced } = places.get(key) ?? (await discover(client, base, String(object['kind'])));
  places.set(key, { resource, namespaced });
  const { name = '', namespace = 'default' } = objectMetadata(object);
  const collection = `${base}${namespaced ? `/namespaces/${String(namespace)}` : ''}/${resource}`;
  return { collection, path: `${collection}/${String(name)}` };
}

async function discover(
  client: ApiClient,
  base: string,
  kind: string,
): Promise<{ readonly resource: string; readonly namespaced: boolean }> {
  const { resources = [] } = responseObject(await client.send('GET', base)) as {
    readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
  };
  const found = resources.find((resource) => resource.kind === kind && !resource.name.includes('/'));
  assert.ok(found, `${base} serves no ${kind}`);
  return { resource: found.name, namespaced: found.namespaced };
}

/**
 * Creates an object as `kubectl create` does.
 * @param query such as `?dryRun=All`
 */
export async function create(
  client: ApiClient,
  object: JsonObject,
  headers: Readonly<Record<string, string>> = {},
  query = '',
): Promise<ApiResponse> {
  const { collection } = await resolvePaths(client, object);
  return client.send('POST', `${collection}${query}`, object, headers);
}

/** Creates a namespace. */
export async function createNamespace(
  client: ApiClient,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<ApiResponse> {
  return create(client, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
}

/** The rule that permits creating pods. */
export const CREATE_PODS = { apiGroups: [''], resources: ['pods'], verbs: ['create'] };

/** Creates a ClusterRole and binds it to users and to groups, whose names start with `system:`. */
export async function allow(
  client: ApiClient,
  name: string,
  subjects: readonly string[],
  rules: readonly JsonObject[],
): Promise<void> {
  const apiGroup = 'rbac.authorization.k8s.io';
  const type = { apiVersion: `${apiGroup}/v1`, metadata: { name } };
  const binding = {
    ...{ ...type, kind: 'ClusterRoleBinding', roleRef: { apiGroup, kind: 'ClusterRole', name } },
    subjects: subjects.map((subject) => ({
      apiGroup,
      kind: /^system:(?!serviceaccount:)/.test(subject) ? 'Group' : 'User',
      name: subject,
    })),
  };
  for (const object of [{ ...type, kind: 'ClusterRole', rules }, binding]) {
    const answer = await create(client, object);
    assert.equal(answer.status, 201, answer.text);
  }
}

/** Deletes an object as `kubectl delete --wait=false` does. */
export async function remove(client: ApiClient, object: JsonObject): Promise<ApiResponse> {
  const { path } = await resolvePaths(client, object);
  return client.send('DELETE', path);
}

/** Applies objects one at a time as `kubectl apply --server-side` does. Returns the paths of changed objects. */
export async function apply(client: ApiClient, objects: readonly JsonObject[]): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const object of objects) {
    const { path } = await resolvePaths(client, object);
    const before = getVersion(responseObject(await client.send('GET', path)));
    const answer = await client.send('PATCH', `${path}?fieldManager=kubectl`, object, {
      'content-type': 'application/apply-patch+yaml',
    });
    assert.ok(answer.status < 300, `${path}: ${answer.text}`);
    if (getVersion(responseObject(answer)) !== before) changed.push(path);
  }
  return changed;
}

/** Returns the resource versions of existing objects by path. */
export async function resourceVersions(
  client: ApiClient,
  objects: readonly JsonObject[],
): Promise<ReadonlyMap<string, unknown>> {
  const versions = new Map<string, unknown>();
  for (const object of objects) {
    const { path } = await resolvePaths(client, object);
    versions.set(path, getVersion(responseObject(await client.send('GET', path))));
  }
  return versions;
}

function getVersion(object: unknown): unknown {
  return isObject(object) ? objectMetadata(object)['resourceVersion'] : undefined;
}

/** Returns the arguments of a replica process from its Deployment, without addresses. */
export function replicaArguments(objects: readonly JsonObject[]): readonly string[] {
  const [container] =
    (find(objects, 'Deployment', INSTALLATION.name) as Kinds['Deployment']).spec?.template.spec?.containers ?? [];
  const { args = [], env = [] } = container ?? {};
  const own = ['serve', '--in-cluster', '--bind-address', '--secure-port', '--health-probe-bind-address', '--config'];
  const kept = args.filter((argument) => !own.includes(argument.split('=')[0] ?? ''));
  const initial = env.find(({ name }) => name === INITIAL_SETTINGS)?.value;
  return [...(initial === undefined ? [] : [`--initial-settings=${initial}`]), ...kept];
}

export function find(objects: readonly JsonObject[], kind: string, name: string): JsonObject {
  const found = objects.find((object) => object['kind'] === kind && objectMetadata(object)['name'] === name);
  assert.ok(found, `no ${kind} ${name}`);
  return found;
}

/** The address of the webhooks in the `local` profile. */
const ADDRESS = /127\.0\.0\.1:8443/g;

/** Writes an overlay with components, based on a copy of `webhook-config/` whose webhooks use a loopback port. */
export async function copyOverlay(components: readonly string[], folder: string, port: number): Promise<string> {
  const copy = join(folder, 'webhook-config');
  await cp(MANIFESTS, copy, { recursive: true });
  const file = join(copy, 'components/local/kustomization.yaml');
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(ADDRESS, `127.0.0.1:${port}`));
  return writeOverlay(join(folder, 'overlay'), components, copy);
}

const RELEASES = fileURLToPath(new URL('../../fixtures/releases/', import.meta.url));

/** The versions with stored manifests, in ascending order. */
export const VERSIONS = readdirSync(RELEASES).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));

/** Returns the objects of an installation with the given version, whose webhooks use a loopback port. */
export function releaseObjects(version: string, port: number): readonly JsonObject[] {
  const file = `${RELEASES}${version}/install.yaml`;
  const { documents } = readDocuments(readFileSync(file, 'utf8'), file);
  return documents.map(({ value }) => atPort(value as JsonObject, port));
}

function atPort(object: JsonObject, port: number): JsonObject {
  if (object['kind'] === 'Deployment') return withUrl(object, port);
  const { webhooks } = object;
  if (!Array.isArray(webhooks)) return object;
  return {
    ...object,
    webhooks: webhooks.filter(isObject).map((webhook) => ({ ...webhook, clientConfig: url(webhook, port) })),
  };
}

/**
 * The replicas of the earlier installation run this version, and register the webhooks of this version at the same
 * address.
 */
function withUrl(deployment: JsonObject, port: number): JsonObject {
  const text = JSON.stringify(deployment).replace('"serve",', `"serve","--webhook-url=https://127.0.0.1:${port}",`);
  return JSON.parse(text) as JsonObject;
}

function url({ clientConfig }: JsonObject, port: number): JsonObject {
  const { service } = clientConfig as { readonly service: { readonly path: string } };
  return { url: `https://127.0.0.1:${port}${service.path}` };
}
