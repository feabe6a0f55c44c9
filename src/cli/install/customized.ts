/** The fields of an installation that its users customized, which new manifests keep. */
import type { AnyObject } from '../../cluster/client.ts';
import { INITIAL_SETTINGS, type Manifest } from '../../install/index.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { deepEqual } from '../../kube/equality.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { INSTALLATION } from '../../kube/well-known.ts';

/** The fields of a Deployment that keep the values of the cluster. */
const DEPLOYMENT_FIELDS = ['minReadySeconds', 'progressDeadlineSeconds', 'revisionHistoryLimit', 'strategy'];
const POD_FIELDS = [
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
];
const CONTAINER_FIELDS = [
  'imagePullPolicy',
  'livenessProbe',
  'ports',
  'readinessProbe',
  'resources',
  'securityContext',
  'startupProbe',
];

/** The arguments and volumes of the serving certificate, which `--cert-manager` replaces. */
const CERTIFICATE_ARGUMENTS = /^--(?:tls-|webhook-annotations)/;

/** The kinds whose specs keep the values of the cluster. */
const POLICY_KINDS = ['NetworkPolicy', 'PodDisruptionBudget', 'ResourceQuota'];

interface Kept {
  readonly manifest: Manifest;
  /** The paths of customized fields. */
  readonly fields: readonly string[];
}

/** The same part of a manifest, of the manifest with the defaults of the API server, and of its object in the cluster. */
interface Versions {
  readonly manifest: JsonObject;
  readonly complete: JsonObject;
  readonly live: JsonObject;
}

/** The part of an object at a path. A name selects the container of the replicas from a list. */
function partAt(object: JsonObject, path: readonly string[]): JsonObject {
  const part = path.reduce<unknown>((value, name) => {
    if (Array.isArray(value)) return value.find((item) => isObject(item) && item['name'] === name);
    return isObject(value) ? value[name] : undefined;
  }, object);
  return isObject(part) ? part : {};
}

function inside({ manifest, complete, live }: Versions, ...path: readonly string[]): Versions {
  return { manifest: partAt(manifest, path), complete: partAt(complete, path), live: partAt(live, path) };
}

/** What replaces values of the cluster. */
interface Replacements {
  readonly initial: JsonObject;
  /** True if the serving certificate gets another source. */
  readonly replacesCertificate: boolean;
}

/** Returns a manifest with the customized fields of its object in the cluster. */
export function keepCustomized(manifest: Manifest, live: AnyObject | undefined, replacements: Replacements): Kept {
  const fields: string[] = [];
  if (!live) return { manifest, fields };
  const complete = structuredClone<Record<string, unknown>>(manifest);
  applyDefaults(complete);
  const versions: Versions = { manifest: { ...manifest }, complete, live: { ...live } };
  const keep = (part: Versions, names: readonly string[], path = ''): JsonObject => {
    const kept = names.filter(
      (name) => part.live[name] !== undefined && !deepEqual(part.live[name], part.complete[name]),
    );
    fields.push(...kept.map((name) => `${path}${name}`));
    return { ...part.manifest, ...Object.fromEntries(kept.map((name) => [name, part.live[name]])) };
  };
  const changed = { ...manifest, ...changedParts(manifest, versions, keep, replacements) };
  return { manifest: changed, fields };
}

type Keep = (part: Versions, names: readonly string[], path?: string) => JsonObject;

function changedParts({ kind }: Manifest, versions: Versions, keep: Keep, replacements: Replacements): JsonObject {
  if (POLICY_KINDS.includes(kind)) return keep(versions, ['spec']);
  if (kind === 'Namespace') {
    const labels = inside(versions, 'metadata', 'labels');
    const metadata = { ...partAt(versions.manifest, ['metadata']), labels: keep(labels, Object.keys(labels.manifest)) };
    return { metadata };
  }
  return kind === 'Deployment' ? { spec: keepDeployment(versions, keep, replacements) } : {};
}

function keepDeployment(versions: Versions, keep: Keep, replacements: Replacements): JsonObject {
  const { name } = INSTALLATION;
  const template = inside(versions, 'spec', 'template');
  const pod = inside(template, 'spec');
  const container = inside(pod, 'containers', name);
  const { initial, replacesCertificate } = replacements;
  const args = mergeArguments(container, replacesCertificate);
  const [mounts, volumes] = replacesCertificate ? [[], []] : [['volumeMounts'], ['volumes']];
  const others = listAt(pod.live, 'containers').filter((one) => isObject(one) && one['name'] !== name);
  const annotations = { ...partAt(template.live, ['metadata', 'annotations']) };
  const metadata = partAt(template.manifest, ['metadata']);
  return {
    ...keep(inside(versions, 'spec'), DEPLOYMENT_FIELDS, 'spec.'),
    template: {
      metadata: { ...metadata, annotations: { ...annotations, ...partAt(metadata, ['annotations']) } },
      spec: {
        ...keep(pod, [...POD_FIELDS, ...volumes], 'pod.'),
        containers: [
          {
            ...keep(container, [...CONTAINER_FIELDS, ...mounts], 'container.'),
            args,
            env: mergeEnvironment(container, initial),
          },
          ...others,
        ],
      },
    },
  };
}

function listAt(part: JsonObject, name: string): readonly unknown[] {
  const value = part[name];
  return Array.isArray(value) ? value : [];
}

function optionName(argument: unknown): string {
  return String(argument).split('=', 1)[0] ?? '';
}

/**
 * The arguments in the cluster, and those in the manifest that the cluster lacks. The features come from the manifest. The
 * certificate has one source.
 */
function mergeArguments({ manifest, live }: Versions, replacesCertificate: boolean): readonly unknown[] {
  const isCertificate = (argument: unknown): boolean => CERTIFICATE_ARGUMENTS.test(String(argument));
  const isFeatures = (argument: unknown): boolean => optionName(argument) === '--features';
  const generated = listAt(manifest, 'args');
  const current = listAt(live, 'args');
  const first = current.find(isFeatures);
  const kept = current
    .filter((argument) =>
      isFeatures(argument) ? argument === first : !replacesCertificate || !isCertificate(argument),
    )
    .map((argument) => (isFeatures(argument) ? generated.find(isFeatures) : argument));
  const names = new Set(kept.map(optionName));
  const added = generated.filter((argument) => replacesCertificate || !isCertificate(argument));
  return [...kept, ...added.filter((argument) => !names.has(optionName(argument)))];
}

/** The variables of the cluster, with the values of the manifest, and those that the cluster lacks. */
function mergeEnvironment({ manifest, live }: Versions, initial: JsonObject): readonly unknown[] {
  const generated = listAt(manifest, 'env')
    .filter(isObject)
    .map((one) => (one['name'] === INITIAL_SETTINGS ? { ...one, value: JSON.stringify(initial) } : one));
  const current = listAt(live, 'env').filter(isObject);
  const find = (variables: readonly JsonObject[], { name }: JsonObject): JsonObject | undefined =>
    variables.find((one) => one['name'] === name);
  const added = generated.filter((one) => !find(current, one));
  return [...current.map((one) => find(generated, one) ?? one), ...added];
}
