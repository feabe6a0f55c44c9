/** Reads charts in a folder and renders them with helm. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocuments } from '../../src/config/yaml.ts';
import { podTemplatePath } from '../../src/kube/pod.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata } from '../support/answers.ts';
import { runHelm } from '../support/helm.ts';

export interface Chart {
  /** The folder name of the chart. */
  readonly name: string;
  readonly folder: string;
  readonly version: string;
  /** URL of the project or of its sources. */
  readonly home: string;
  /** The values that the chart requires, as a YAML text and keyed by path. */
  readonly values: { readonly text: string; readonly settings: readonly (readonly [string, string])[] } | undefined;
}

/** Placeholder in values for the namespace of the release. */
const RELEASE_NAMESPACE = /RELEASE_NAMESPACE/g;

/**
 * Reads the charts in the subfolders of a folder. The file `NAME.yaml` next to the folder `NAME` contains its values.
 */
export function readCharts(root: string): readonly Chart[] {
  const names = readdirSync(root).filter((name) => existsSync(join(root, name, 'Chart.yaml')));
  return names.sort().map((name) => {
    const folder = join(root, name);
    const [chart = {}] = parse(readFileSync(join(folder, 'Chart.yaml'), 'utf8'), folder);
    const file = `${folder}.yaml`;
    const text = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
    const values =
      text === undefined ? undefined : { text, settings: parse(text, file).flatMap((one) => flatten(one)) };
    const { home, sources, version } = chart;
    const source: unknown = Array.isArray(sources) ? sources[0] : undefined;
    return {
      name,
      folder,
      version: String(version),
      home: [home, source].filter((one) => typeof one === 'string')[0] ?? '',
      values,
    };
  });
}

function parse(text: string, file: string): readonly JsonObject[] {
  const { documents, errors } = readDocuments(text, file);
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value).filter(isObject);
}

/** Certificates and keys do not affect admission. */
function flatten(value: unknown, path = ''): readonly (readonly [string, string])[] {
  if (typeof value === 'string' && value.includes('\n')) return [[path, '…']];
  if (typeof value !== 'object' || value === null) return [[path, String(value)]];
  return Object.entries(value).flatMap(([key, item]) => {
    const step = Array.isArray(value) ? `[${key}]` : path === '' ? key : `.${key}`;
    return flatten(item, `${path}${step}`);
  });
}

/** The API that a cluster with the SCC CRD serves. Charts for OpenShift check for it. */
const SCC_APIS = ['security.openshift.io/v1', 'security.openshift.io/v1/SecurityContextConstraints'];

/** Renders a chart for a namespace as `helm install` does. Rejects with helm's message. */
export function render(
  { name, folder, values }: Chart,
  options: { readonly namespace: string; readonly kubeVersion: string; readonly hasSccs: boolean },
): readonly JsonObject[] {
  const args = [
    'template',
    name,
    folder,
    `--namespace=${options.namespace}`,
    `--kube-version=${options.kubeVersion}`,
    '--skip-tests',
    ...(options.hasSccs ? SCC_APIS.map((api) => `--api-versions=${api}`) : []),
    '--values=-',
  ];
  const input = (values?.text ?? '').replaceAll(RELEASE_NAMESPACE, options.namespace);
  const { status, stdout, stderr } = runHelm(args, {}, input);
  assert.equal(status, 0, `${name}: ${stderr}`);
  return parse(stdout, name);
}

/** A workload of a built-in kind, and the pod that its controller creates. */
export interface Workload {
  /** Kind and name, such as `Deployment/web`. */
  readonly id: string;
  readonly pod: JsonObject;
}

export function findWorkloads(objects: readonly JsonObject[], namespace: string): readonly Workload[] {
  return objects
    .filter((object) => (objectMetadata(object)['namespace'] ?? namespace) === namespace)
    .flatMap((object) => {
      const kind = String(object['kind']);
      const [group = ''] = String(object['apiVersion']).split('/', 2).slice(0, -1);
      const path = podTemplatePath(group, kind);
      if (path === undefined) return [];
      const template = path.reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), object);
      assert.ok(isObject(template), `${kind} has no ${path.join('.')}`);
      return [{ id: `${kind}/${String(objectMetadata(object)['name'])}`, pod: toPod(object, template) }];
    });
}

/** API servers store workloads without empty lists, so the pods of controllers have none. */
function withoutEmptyLists(spec: JsonObject): JsonObject {
  const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
  return JSON.parse(JSON.stringify(spec, (_key, value: unknown) => (isEmpty(value) ? undefined : value))) as JsonObject;
}

function toPod(owner: JsonObject, template: JsonObject): JsonObject {
  const { labels, annotations } = objectMetadata(template);
  const { volumeClaimTemplates } = owner['spec'] as JsonObject;
  const spec = withoutEmptyLists(template['spec'] as JsonObject);
  const claims = (Array.isArray(volumeClaimTemplates) ? volumeClaimTemplates.filter(isObject) : []).map((claim) => {
    const { name } = objectMetadata(claim);
    return { name, persistentVolumeClaim: { claimName: `${String(name)}-0` } };
  });
  const isClaim = (volume: unknown): boolean => isObject(volume) && claims.some(({ name }) => name === volume['name']);
  const volumes = [...((spec['volumes'] ?? []) as readonly JsonObject[]).filter((one) => !isClaim(one)), ...claims];
  const metadata = { generateName: 'pod-', labels, annotations } as JsonObject;
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: { ...spec, volumes } };
}

/** The kinds on which pod admission depends. */
const INPUT_KINDS = new Set([
  'ServiceAccount',
  'Role',
  'RoleBinding',
  'ClusterRole',
  'ClusterRoleBinding',
  'SecurityContextConstraints',
  'PriorityClass',
  'RuntimeClass',
]);
const CLUSTER_SCOPED = /^(?:ClusterRole|ClusterRoleBinding|SecurityContextConstraints|PriorityClass|RuntimeClass)$/;

function isClusterScoped({ kind }: JsonObject): boolean {
  return CLUSTER_SCOPED.test(String(kind));
}

/** Returns the objects of a chart on which the admission of its pods in a namespace depends. */
export function findInputs(objects: readonly JsonObject[], namespace: string): readonly JsonObject[] {
  return objects
    .filter(({ kind }) => INPUT_KINDS.has(String(kind)))
    .flatMap((object) => {
      const metadata = objectMetadata(object);
      if (isClusterScoped(object)) return [object];
      const isHere = (metadata['namespace'] ?? namespace) === namespace;
      return isHere ? [{ ...object, metadata: { ...metadata, namespace } }] : [];
    });
}
