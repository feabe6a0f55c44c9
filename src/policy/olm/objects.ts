import { diff, escapeKey, type JsonPatchOp } from '../../kube/json-patch.ts';
import type { Kind, Kinds } from '../../kube/kinds.ts';
import { type PodFieldChange, findChanges } from '../../kube/pod-changes.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { compareBy } from '../../kube/text.ts';
import { isObject, type JsonObject, type KubeObject, type Namespace, valueAt, objectMember } from '../../kube/types.ts';
import { decodeMutablePod, type FieldPath, printFieldPath } from '../pod/index.ts';
import { isCopied } from './auto-labeler.ts';
import { catalogMode, hasCatalogPods, rewriteDisableSecurity } from './catalog-source.ts';
import { type HardeningInput, hardenPod } from './hardening.ts';
import { containerNames, findOwningCsv, recognizeWorkload } from './recognition.ts';

/** An OLM object and the patch that hardens it. */
export interface HardenedObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** Path of the Deployment in a ClusterServiceVersion. */
  readonly path?: string;
  readonly profile?: string;
  /** Mode of a CatalogSource's pods. */
  readonly mode?: string;
  readonly changes: readonly PodFieldChange[];
  /** Describes the values that are kept, or the reason why an object is not patched. */
  readonly notes: readonly string[];
  /** The JSON patch. Absent if nothing changes or the object cannot be patched. */
  readonly patch?: readonly JsonPatchOp[];
}

export const OLM_WORKLOADS = ['Deployment', 'CronJob', 'Job'] as const satisfies readonly Kind[];

interface OlmInput extends Pick<HardeningInput, 'isOpenShift' | 'isForced'> {
  /** True for objects in a cluster rather than in manifests. Jobs in a cluster are immutable. */
  readonly isCluster: boolean;
  /** Returns the objects of a kind in one or all namespaces. */
  list<K extends (typeof OLM_WORKLOADS)[number] | 'ClusterServiceVersion' | 'CatalogSource'>(
    kind: K,
    namespace?: string,
  ): readonly Kinds[K][];
  findNamespace(name: string): Namespace | undefined;
}

/** Returns the hardened OLM workloads, Deployments in ClusterServiceVersions, and CatalogSources. */
export function hardenObjects(input: OlmInput): readonly HardenedObject[] {
  return [
    ...OLM_WORKLOADS.flatMap((kind) => hardenWorkloads(kind, input)),
    ...hardenCsvs(input),
    ...hardenCatalogs(input),
  ].sort(compareBy(({ namespace, kind, name, path = '' }) => [namespace, kind, name, path]));
}

interface Template {
  readonly kind: string;
  readonly object: KubeObject;
  readonly path: FieldPath;
  /** Metadata by which the workload is recognized, if it differs from the object's metadata. */
  readonly metadata?: KubeObject['metadata'];
}

/** Hardens the pod template of an OLM workload. Returns `undefined` for other workloads. */
function hardenTemplate({ kind, object, path, metadata = object.metadata }: Template, input: OlmInput) {
  const template = getPodTemplate(object, path);
  const decoded = decodeMutablePod(template ?? {});
  const spec = objectMember(template, 'spec');
  const candidate = {
    kind,
    ...(metadata ? { metadata } : {}),
    templateLabels: template?.metadata?.labels,
    containers: containerNames(spec['containers']),
    initContainers: containerNames(spec['initContainers']),
  };
  const recognized = recognizeWorkload(candidate);
  if (recognized === undefined || template === undefined) return undefined;
  if ('error' in decoded) {
    const note = `${printFieldPath(path)}.${decoded.error.path} ${decoded.error.detail}`;
    return { profile: recognized.profile, changes: [], notes: [note] };
  }
  const { pod } = decoded;
  const { isOpenShift, isForced } = input;
  const hardened = hardenPod({ ...recognized, isOpenShift, isForced, isJob: kind === 'Job', pod });
  return {
    profile: recognized.profile,
    changes: findChanges(pod.json, hardened.pod).map((change) => ({
      ...change,
      path: `${printFieldPath(path)}.${change.path}`,
    })),
    notes: hardened.conflicts.map(({ message }) => `${printFieldPath(path)}.${message}`),
    patch: templatePatch(path, pod.json, hardened.pod),
  };
}

const PATCHED_FIELDS = ['securityContext', 'volumes', 'volumeMounts'] as const;

/** Returns a patch that replaces whole fields, because their parents may be absent in manifests. */
function templatePatch(path: FieldPath, before: JsonObject, after: JsonObject): readonly JsonPatchOp[] {
  const base = ['', ...path.map((step) => escapeKey(String(step))), 'spec'].join('/');
  const [old, next] = [objectMember(before, 'spec'), objectMember(after, 'spec')];
  const containers = ['initContainers', 'containers'].flatMap((list) => {
    const [from, to] = [old[list], next[list]];
    if (!Array.isArray(from) || !Array.isArray(to)) return [];
    return to.flatMap((item: JsonObject, index) => {
      const operations = fieldPatch(`${base}/${list}/${index}`, from[index] as JsonObject, item);
      const name = { op: 'test', path: `${base}/${list}/${index}/name`, value: item['name'] } as const;
      return operations.length === 0 ? [] : [name, ...operations];
    });
  });
  return [...fieldPatch(base, old, next), ...containers];
}

function fieldPatch(base: string, before: JsonObject, after: JsonObject): readonly JsonPatchOp[] {
  return PATCHED_FIELDS.filter((field) => diff(before[field] ?? null, after[field] ?? null).length > 0).map(
    (field) => ({
      op: 'add',
      path: `${base}/${field}`,
      value: after[field],
    }),
  );
}

function identify(kind: string, object: KubeObject): Pick<HardenedObject, 'kind' | 'namespace' | 'name'> {
  return { kind, namespace: object.metadata?.namespace ?? '', name: objectName(object) };
}

function hardenWorkloads(kind: (typeof OLM_WORKLOADS)[number], input: OlmInput): readonly HardenedObject[] {
  const path = podTemplatePath(RESOURCES[kind].group, kind) ?? [];
  return input.list(kind).flatMap((object) => {
    const isCreatedByCronJob = object.metadata?.ownerReferences?.some((owner) => owner.kind === 'CronJob') === true;
    const hardened = isCreatedByCronJob ? undefined : hardenTemplate({ kind, object, path }, input);
    if (hardened === undefined) return [];
    const obstacle = findObstacle(kind, object, input);
    if (obstacle === undefined || hardened.changes.length === 0) return [{ ...identify(kind, object), ...hardened }];
    const { profile, changes, notes } = hardened;
    return [{ ...identify(kind, object), profile, changes, notes: [obstacle, ...notes] }];
  });
}

function findObstacle(kind: string, object: KubeObject, { list, isCluster }: OlmInput): string | undefined {
  const csv = findOwningCsv(object);
  if (csv !== undefined) {
    const { namespace } = object.metadata ?? {};
    const deployments = list('ClusterServiceVersion', namespace)
      .filter((candidate) => objectName(candidate) === csv)
      .flatMap((candidate) => csvDeployments({ ...candidate }));
    const index = deployments.findIndex(({ name }) => name === objectName(object));
    const field = `spec.install.spec.deployments[${index === -1 ? '*' : index}]`;
    return `OLM restores this Deployment: change ${field} of the ClusterServiceVersion ${namespace ?? ''}/${csv}`;
  }
  if (kind !== 'Job' || !isCluster) return undefined;
  return 'the pods of an existing Job cannot be changed: set spec.olm.hardening.mode, which hardens new pods';
}

interface CsvDeployment {
  readonly name: string;
  readonly path: FieldPath;
  readonly labels: unknown;
}

function csvDeployments(csv: JsonObject): readonly CsvDeployment[] {
  const path = ['spec', 'install', 'spec', 'deployments'];
  const list = valueAt(csv, path);
  const items: readonly unknown[] = Array.isArray(list) ? list : [];
  return items.flatMap((item, index) => {
    if (!isObject(item)) return [];
    const { name, label: labels } = item;
    return [{ name: typeof name === 'string' ? name : '', path: [...path, index, 'spec', 'template'], labels }];
  });
}

/** Hardens the OLM Deployments in ClusterServiceVersions. Skips copies, because OLM restores them. */
function hardenCsvs(input: OlmInput): readonly HardenedObject[] {
  const kind = 'ClusterServiceVersion';
  return input.list(kind).flatMap((object) =>
    (isCopied(object) ? [] : csvDeployments({ ...object })).flatMap(({ path, labels }) => {
      const { namespace = '' } = object.metadata ?? {};
      const metadata = { namespace, ...(isStrings(labels) ? { labels } : {}) };
      const hardened = hardenTemplate({ kind: 'Deployment', object, path, metadata }, input);
      return hardened ? [{ ...identify(kind, object), path: printFieldPath(path.slice(0, -2)), ...hardened }] : [];
    }),
  );
}

function isStrings(value: unknown): value is Readonly<Record<string, string>> {
  return isObject(value) && Object.values(value).every((item) => typeof item === 'string');
}

/** Reports the mode of each CatalogSource, and replaces `disableSecurity` with the supported field. */
function hardenCatalogs({ list, findNamespace }: OlmInput): readonly HardenedObject[] {
  return list('CatalogSource').map((catalog) => {
    const { namespace = '' } = catalog.metadata ?? {};
    const spec = rewriteDisableSecurity(catalog);
    const hasPods = hasCatalogPods(catalog);
    const { mode, from, problems } = catalogMode(catalog, findNamespace(namespace)?.metadata?.labels);
    return {
      ...identify('CatalogSource', catalog),
      profile: 'catalog-source',
      mode: hasPods ? `${mode} (${from})` : 'no pods',
      changes: findChanges({ spec: catalog.spec }, { spec: spec ?? catalog.spec }),
      notes: [...(spec ? [REWRITTEN] : []), ...(hasPods ? problems : [])],
      ...(spec ? { patch: diff({ spec: catalog.spec }, { spec }) } : {}),
    };
  });
}

const REWRITTEN =
  'the OLM CRD drops spec.disableSecurity, and no release reads it. Use spec.grpcPodConfig.securityContextConfig instead';
