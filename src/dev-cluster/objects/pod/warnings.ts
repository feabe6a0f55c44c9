import { dnsLabelErrors } from '../../../kube/names.ts';
import { CONTAINER_LISTS } from '../../../kube/pod.ts';
import { quote } from '../../../kube/text.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from '../read.ts';
import type { ApiObject } from '../../types.ts';

const SECCOMP_POD = 'seccomp.security.alpha.kubernetes.io/pod';
const SECCOMP_CONTAINER = 'container.seccomp.security.alpha.kubernetes.io/';
const APP_ARMOR = 'container.apparmor.security.beta.kubernetes.io/';

/**
 * What is legal in a pod, yet of no use.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/api/pod/warnings.go
 */
export function podWarnings(pod: ApiObject): string[] {
  const name = textAt(pod.metadata, 'name');
  const errors = dnsLabelErrors(name);
  const hostname = `metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [${errors.join(' ')}]`;
  return [...(errors.length > 0 ? [hostname] : []), ...templateWarnings(pod.metadata, objectAt(pod, 'spec'), '')];
}

/** The same for a pod template; `path` leads to it. */
export function templateWarnings(metadata: JsonObject | undefined, spec: JsonObject, path: string): string[] {
  const annotations = objectAt(metadata, 'annotations');
  return [
    ...volumeWarnings(spec, path),
    ...(hasField(annotations, SECCOMP_POD) && !hasSeccomp(spec) ? [seccomp(path, SECCOMP_POD)] : []),
    ...CONTAINER_LISTS.flatMap((list) =>
      objectsAt(spec, list).flatMap((container, index) => [
        ...annotationWarnings(annotations, container, path),
        ...containerWarnings(container, `${path}spec.${list}[${index}]`),
      ]),
    ),
    ...((numberAt(spec, 'terminationGracePeriodSeconds') ?? 0) < 0
      ? [
          `${path}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
        ]
      : []),
  ];
}

function seccomp(path: string, key: string): string {
  return `${path}metadata.annotations[${key}]: non-functional in v1.27+; use the "seccompProfile" field instead`;
}

function hasSeccomp(holder: JsonObject): boolean {
  return hasField(objectAt(holder, 'securityContext'), 'seccompProfile');
}

function annotationWarnings(annotations: JsonObject, container: JsonObject, path: string): string[] {
  const name = textAt(container, 'name');
  const [old, armor] = [`${SECCOMP_CONTAINER}${name}`, `${APP_ARMOR}${name}`];
  const hasProfile = hasField(objectAt(container, 'securityContext'), 'appArmorProfile');
  return [
    ...(hasField(annotations, old) && !hasSeccomp(container) ? [seccomp(path, old)] : []),
    ...(hasField(annotations, armor) && !hasProfile
      ? [`${path}metadata.annotations[${armor}]: deprecated since v1.30; use the "appArmorProfile" field instead`]
      : []),
  ];
}

const DEAD_VOLUMES: Readonly<Record<string, string>> = {
  photonPersistentDisk: 'deprecated in v1.11, non-functional in v1.16+',
  gitRepo: 'deprecated in v1.11, and disabled by default in v1.33+',
  scaleIO: 'deprecated in v1.16, non-functional in v1.22+',
  flocker: 'deprecated in v1.22, non-functional in v1.25+',
  storageos: 'deprecated in v1.22, non-functional in v1.25+',
  quobyte: 'deprecated in v1.22, non-functional in v1.25+',
  glusterfs: 'deprecated in v1.25, non-functional in v1.26+',
  cephfs: 'deprecated in v1.28, non-functional in v1.31+',
  rbd: 'deprecated in v1.28, non-functional in v1.31+',
};

function volumeWarnings(spec: JsonObject, path: string): string[] {
  return objectsAt(spec, 'volumes').flatMap((volume, index) =>
    Object.entries(DEAD_VOLUMES)
      .filter(([source]) => hasField(volume, source))
      .map(([source, fate]) => `${path}spec.volumes[${index}].${source}: ${fate}`),
  );
}

function containerWarnings(container: JsonObject, path: string): string[] {
  return [...envWarnings(container, path), ...portWarnings(container, path)];
}

/** A later variable hides an earlier one of its name, unless its value refers to that. */
function envWarnings(container: JsonObject, path: string): string[] {
  const seen = new Set<string>();
  return objectsAt(container, 'env').flatMap((variable, index) => {
    const name = textAt(variable, 'name');
    const isHidden = seen.has(name) && !textAt(variable, 'value').includes(`$(${name})`);
    seen.add(name);
    return isHidden
      ? [`${path}.env[${index}]: hides previous definition of ${quote(name)}, which may be dropped when using apply`]
      : [];
  });
}

function portWarnings(container: JsonObject, path: string): string[] {
  const seen = new Map<string, string>();
  return objectsAt(container, 'ports').flatMap((port, index) => {
    const key = ['containerPort', 'protocol', 'hostPort', 'hostIP'].map((field) => String(port[field])).join('/');
    const at = `${path}.ports[${index}]`;
    const other = seen.get(key);
    if (other !== undefined) return [`${at}: duplicate port definition with ${other}`];
    seen.set(key, at);
    return [];
  });
}
