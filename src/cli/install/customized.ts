/** Keeps customized fields of an installation when new manifests are generated. */
import type { AnyObject } from '../../cluster/client.ts';
import { INITIAL_SETTINGS, type Manifest } from '../../install/index.ts';
import { setApiDefaults } from '../../kube/defaults.ts';
import { deepEqual } from '../../kube/equality.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { INSTALLATION, POD_SECURITY_LABELS } from '../../kube/well-known.ts';

const { enforce: ENFORCE, audit: AUDIT, warn: WARN } = POD_SECURITY_LABELS;

type Path = readonly string[];

const POD: Path = ['spec', 'template', 'spec'];
const CONTAINER: Path = [...POD, 'containers', INSTALLATION.name];

/** Fields that keep their values in the cluster, by object kind and parent path. */
const KEPT: Readonly<Record<string, readonly (readonly [path: Path, names: readonly string[]])[]>> = {
  NetworkPolicy: [[[], ['spec']]],
  PodDisruptionBudget: [[[], ['spec']]],
  ResourceQuota: [[[], ['spec']]],
  Namespace: [
    [
      ['metadata', 'labels'],
      [ENFORCE, AUDIT, WARN],
    ],
  ],
  Deployment: [
    [['spec'], ['minReadySeconds', 'progressDeadlineSeconds', 'revisionHistoryLimit', 'strategy']],
    [
      POD,
      [
        'affinity',
        'dnsConfig',
        'dnsPolicy',
        'hostNetwork',
        'imagePullSecrets',
        'initContainers',
        'nodeSelector',
        'priorityClassName',
        'runtimeClassName',
        'securityContext',
        'terminationGracePeriodSeconds',
        'tolerations',
        'topologySpreadConstraints',
        'volumes',
      ],
    ],
    [
      CONTAINER,
      [
        'imagePullPolicy',
        'livenessProbe',
        'ports',
        'readinessProbe',
        'resources',
        'securityContext',
        'startupProbe',
        'volumeMounts',
      ],
    ],
  ],
};

/** Fields and arguments for the serving certificate, which `--cert-manager` replaces. */
const CERTIFICATE_FIELDS: readonly string[] = ['volumes', 'volumeMounts'];
const CERTIFICATE_ARGUMENTS = /^--(?:tls-|webhook-annotations)/;

/** Generated values that replace customized ones. */
interface Replacements {
  readonly initial: JsonObject;
  /** True if the source of the serving certificate changes. */
  readonly replacesCertificate: boolean;
}

/** Returns a manifest with the customized fields of the object in the cluster, and the paths of these fields. */
export function keepCustomized(manifest: Manifest, live: AnyObject | undefined, replacements: Replacements) {
  const fields: string[] = [];
  if (!live) return { manifest, fields };
  const result = structuredClone<Manifest>(manifest);
  const complete = structuredClone<Record<string, unknown>>(manifest);
  setApiDefaults(complete);
  for (const [path, names] of KEPT[manifest.kind] ?? []) {
    const [part, generated, current] = [partAt(result, path), partAt(complete, path), partAt(live, path)];
    for (const name of names) {
      const isReplaced = replacements.replacesCertificate && CERTIFICATE_FIELDS.includes(name);
      if (isReplaced || current[name] === undefined || deepEqual(current[name], generated[name])) continue;
      part[name] = current[name];
      fields.push([...path, name].join('.'));
    }
  }
  if (manifest.kind === 'Deployment') keepContainers(result, live, replacements);
  return { manifest: result, fields };
}

/** Returns the part of an object at a path. In a list, a path segment selects the item by name. */
function partAt(object: object, path: Path): Record<string, unknown> {
  const part = path.reduce<unknown>((value, name) => {
    if (Array.isArray(value)) return value.find((item) => isObject(item) && item['name'] === name);
    return isObject(value) ? value[name] : undefined;
  }, object);
  return isObject(part) ? part : {};
}

/**
 * Adds the pod annotations, replica arguments, environment variables and additional containers of the Deployment in the
 * cluster.
 */
function keepContainers(manifest: Manifest, live: AnyObject, { initial, replacesCertificate }: Replacements): void {
  const [metadata, pod, container] = [
    partAt(manifest, ['spec', 'template', 'metadata']),
    partAt(manifest, POD),
    partAt(manifest, CONTAINER),
  ];
  const current = partAt(live, CONTAINER);
  const annotations = ['spec', 'template', 'metadata', 'annotations'];
  metadata['annotations'] = { ...partAt(live, annotations), ...partAt(manifest, annotations) };
  container['args'] = mergeArguments(listAt(container, 'args'), listAt(current, 'args'), replacesCertificate);
  container['env'] = mergeEnvironment(listAt(container, 'env'), listAt(current, 'env'), initial);
  const others = listAt(partAt(live, POD), 'containers').filter(
    (one) => isObject(one) && one['name'] !== INSTALLATION.name,
  );
  pod['containers'] = [container, ...others];
}

function listAt(part: JsonObject, name: string): readonly unknown[] {
  const value = part[name];
  return Array.isArray(value) ? value : [];
}

function optionName(argument: unknown): string {
  return String(argument).split('=', 1)[0] ?? '';
}

/**
 * Returns the arguments in the cluster with the features from the manifest, followed by the arguments that the cluster
 * lacks. Certificate arguments come either from the manifest or from the cluster.
 */
function mergeArguments(
  generated: readonly unknown[],
  current: readonly unknown[],
  replacesCertificate: boolean,
): readonly unknown[] {
  const isCertificate = (argument: unknown): boolean => CERTIFICATE_ARGUMENTS.test(String(argument));
  const isFeatures = (argument: unknown): boolean => optionName(argument) === '--features';
  const first = current.find(isFeatures);
  const kept = current
    .filter((one) => (isFeatures(one) ? one === first : !replacesCertificate || !isCertificate(one)))
    .map((one) => (isFeatures(one) ? generated.find(isFeatures) : one));
  const names = new Set(kept.map(optionName));
  const added = generated.filter((one) => replacesCertificate || !isCertificate(one));
  return [...kept, ...added.filter((one) => !names.has(optionName(one)))];
}

/**
 * Returns the environment variables in the cluster with the values from the manifest, followed by the variables that
 * the cluster lacks.
 */
function mergeEnvironment(
  manifest: readonly unknown[],
  cluster: readonly unknown[],
  initial: JsonObject,
): readonly unknown[] {
  const generated = manifest
    .filter(isObject)
    .map((one) => (one['name'] === INITIAL_SETTINGS ? { ...one, value: JSON.stringify(initial) } : one));
  const current = cluster.filter(isObject);
  const find = (variables: readonly JsonObject[], { name }: JsonObject): JsonObject | undefined =>
    variables.find((one) => one['name'] === name);
  const added = generated.filter((one) => !find(current, one));
  return [...current.map((one) => find(generated, one) ?? one), ...added];
}
