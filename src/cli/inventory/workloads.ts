/**
 * Reads the workloads that a command evaluates, which resource arguments, such as `deployment/web`, or manifests
 * select.
 */
import { existsSync } from 'node:fs';
import { INSTALLATION, POD_SECURITY_CONFIG_MAP } from '../../api/names.ts';
import { findCluster } from '../../cluster/cluster-source.ts';
import type { Scope } from '../../cluster/live-cluster.ts';
import { isManifestName, URL_PATTERN } from '../../config/manifest-files.ts';
import { manifestName, manifestNamespace, type ManifestObject } from '../../config/objects.ts';
import { STDIN } from '../../config/yaml.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import type { Kind } from '../../kube/kinds.ts';
import { hasFinished } from '../../kube/pod.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { getApiVersion, resourceName, RESOURCES } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { POD_SOURCES, type PodSourceKind } from '../../views/workloads.ts';
import type { Io } from '../command.ts';
import { UsageError } from '../options.ts';
import { findCustomSources } from './custom-resources.ts';
import { findNamespace, readInventory, readSubjects, type SubjectValues } from './inventory.ts';
import { SCC_INPUT_KINDS } from './scc-input.ts';

export interface Reference {
  readonly kind: PodSourceKind | 'Namespace';
  readonly name: string;
}

const REFERENCE_KINDS: readonly Reference['kind'][] = ['Namespace', ...POD_SOURCES];

const SHORT_NAMES: Readonly<Record<string, Reference['kind']>> = {
  cj: 'CronJob',
  deploy: 'Deployment',
  ds: 'DaemonSet',
  ns: 'Namespace',
  po: 'Pod',
  rc: 'ReplicationController',
  rs: 'ReplicaSet',
  sts: 'StatefulSet',
};

/**
 * Parses `deployment/web`. The type can be plural, a short name, or qualified by its API group, as in
 * `deployments.apps`. Returns `undefined` for any other text.
 */
function findReference(text: string): Reference | undefined {
  const [, type = '', name = ''] = /^([^/.]+)(?:\.[^/]*)?\/([^/]+)$/.exec(text.toLowerCase()) ?? [];
  const kind =
    REFERENCE_KINDS.find((kind) => kind.toLowerCase() === type || RESOURCES[kind].resource === type) ??
    (Object.hasOwn(SHORT_NAMES, type) ? SHORT_NAMES[type] : undefined);
  return kind && { kind, name };
}

/**
 * Parses a resource argument.
 * @throws {UsageError} for text that is not a resource argument
 */
export function parseReference(text: string): Reference {
  const reference = findReference(text);
  if (reference) return reference;
  const types = REFERENCE_KINDS.map((kind) => kind.toLowerCase()).join(', ');
  throw new UsageError(`${quote(text)} must be TYPE/NAME, where TYPE is one of ${types}`);
}

/**
 * Separates resource arguments from the paths of manifests, which are URLs, names of manifest files, and existing paths
 * that do not have the form of a resource argument.
 * @throws {UsageError} for text that is neither
 */
export function splitOperands(operands: readonly string[]) {
  const isPath = (text: string): boolean =>
    text === STDIN.path || URL_PATTERN.test(text) || isManifestName(text) || (!findReference(text) && existsSync(text));
  const paths = operands.filter(isPath);
  return { paths, references: operands.filter((text) => !paths.includes(text)).map(parseReference) };
}

type Subject = Pick<ManifestObject, 'apiVersion' | 'kind' | 'value'>;

/**
 * Reads the workloads that a command evaluates, and their inventory, from manifests or from the cluster.
 * @throws {UserError} for a resource that does not exist
 */
export async function readWorkloads(
  references: readonly Reference[],
  options: SubjectValues & { readonly 'installation-namespace'?: string },
  io: Io,
) {
  const optional = policyScopes(options['installation-namespace']);
  if (options.filename.length > 0) {
    const needs = { kinds: SCC_INPUT_KINDS, optional, gaps: 'ranges' as const };
    const { objects, inventory } = await readSubjects(options, { io, needs });
    const { namespace } = inventory;
    const named = references.map(({ kind, name }) => {
      const found = objects.find(
        (object) =>
          object.kind === kind &&
          manifestName(object.value) === name &&
          (manifestNamespace(object.value) ?? namespace) === namespace,
      );
      return found ?? notFound(kind, name, namespace);
    });
    return { inventory, objects, subjects: references.length === 0 ? objects : named };
  }
  const { kubeconfig, context } = options;
  const only = options.namespace ?? (await findCluster({ kubeconfig, context, env: io.env }))?.namespace;
  const kinds = [...SCC_INPUT_KINDS, ...new Set(references.map(({ kind }) => kind))];
  const inventory = await readInventory(options, io, { kinds, only, optional, gaps: 'ranges' });
  const { store, namespace } = inventory;
  const subjects = references.map(({ kind, name }): Subject => {
    findNamespace(store, namespace);
    const value = store.get(kind, name, namespace) ?? notFound(kind, name, namespace);
    return { apiVersion: getApiVersion(kind), kind, value };
  });
  return { inventory, objects: [], subjects };
}

/**
 * Reads the workload for which a command creates an object, and its inventory.
 * @throws {UserError} for a workload that does not exist or that creates no more pods
 */
export async function readWorkload(reference: Reference, options: SubjectValues, io: Io) {
  const { inventory, subjects } = await readWorkloads([reference], options, io);
  const [subject] = listWorkloads(subjects, inventory.namespace);
  const name = `${reference.kind.toLowerCase()}/${reference.name}`;
  if (subject === undefined) throw new UserError(`${name} has no pod template`);
  if (hasFinished(subject.source.object)) throw new UserError(`${name} has finished and creates no more pods`);
  return { ...subject, inventory };
}

/** Returns the objects besides namespaces and SCCs on which admission decisions about pods depend. */
function policyScopes(installation: string = INSTALLATION.namespace): readonly Scope[] {
  return [
    { kind: 'PodSecurityException' },
    { kind: 'PSAEnforcementConfig', name: PSA_ENFORCEMENT_CONFIG },
    { kind: 'FeatureGate', name: 'cluster' },
    { kind: 'ConfigMap', namespace: installation, name: POD_SECURITY_CONFIG_MAP },
  ];
}

function notFound(kind: Kind, name: string, namespace: string): never {
  throw new UserError(`${resourceName(kind)} ${quote(name)} not found in namespace ${quote(namespace)}`);
}

/** An object that creates pods, with its name and namespace. */
export interface Workload {
  readonly source: PodCreator;
  readonly name: string;
  readonly namespace: string;
}

/** Lists the workloads, the pods, and the pod templates of custom resources. */
export function listWorkloads(subjects: readonly Subject[], fallback: string): readonly Workload[] {
  return subjects.flatMap((subject): readonly Workload[] => {
    const { apiVersion, value } = subject;
    const name = manifestName(value);
    const kind = POD_SOURCES.find((source) => source === subject.kind && getApiVersion(source) === apiVersion);
    if (kind) return [{ source: { kind, object: value }, name, namespace: manifestNamespace(value) ?? fallback }];
    return findCustomSources([subject], fallback).customSources.map((source) => ({
      source,
      name,
      namespace: source.object.metadata?.namespace ?? fallback,
    }));
  });
}
