import type { PodFields } from '../../pod/index.ts';
import { celNames, type CelRule, celOwners, violatingNames } from '../cel.ts';
import {
  type Check,
  EXPLICIT_ROOT,
  findContainers,
  type Finding,
  findOwners,
  forbiddenValue,
  formatNames,
  formatOwners,
  IMAGE_USER,
  missing,
} from '../check.ts';

const REASON = 'runAsNonRoot != true';
const FIELD = 'securityContext.runAsNonRoot';

const valueOf = (owner: string): string => `${owner}.?securityContext.?runAsNonRoot`;
const EXPLICIT = celOwners({ name: 'runAsRoot', passes: (owner) => `${valueOf(owner)}.orValue(true)` });
const CEL: CelRule = {
  variables: {
    ...EXPLICIT.variables,
    runAsNonRootMissing: violatingNames(`${valueOf('c')}.hasValue()`),
  },
  // A container that sets no value passes only if the pod sets true.
  passes: `${valueOf('variables.spec')}.orValue(true) && variables.containers.all(c, ${valueOf('c')}.orValue(${valueOf('variables.spec')}.orValue(false)))`,
  text: `"${REASON} (" + (size(${EXPLICIT.owners}) > 0 ? ${EXPLICIT.owners}.join(" and ") + " must not set ${FIELD}=false" : "pod or " + ${celNames('variables.runAsNonRootMissing')} + " must set ${FIELD}=true") + ")"`,
};

/**
 * The kubelet must reject images that run as root, except in user namespaces, where root has no privileges on the host.
 *
 * Fields   spec.securityContext.runAsNonRoot
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsNonRoot
 * Allowed  true, or not set in containers if the pod sets true
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsNonRoot: Check = {
  id: 'runAsNonRoot',
  level: 'restricted',
  why: 'A process that runs as root in a container is root on the node if it escapes. With `true`, the kubelet does not start images that run as root.',
  fix: 'Set runAsNonRoot: true, and do not set it to false in any container.',
  violation: ['spec.securityContext.runAsNonRoot', false],
  cis: '5.2.7',
  nsa: 'non-root containers',
  repairs: [
    { missing: true, path: 'spec.securityContext.runAsNonRoot', set: true, note: IMAGE_USER },
    { set: true, note: EXPLICIT_ROOT, explicit: true },
  ],
  versions: [
    { since: 'v1.0', check: mustRunAsNonRoot, cel: CEL },
    { since: 'v1.35', check: mustRunAsNonRoot, cel: CEL, unless: 'userNamespace' },
  ],
};

/** Containers that set no value are reported only if no value is explicitly false. */
function mustRunAsNonRoot(pod: PodFields): Finding | undefined {
  const explicit = findOwners(pod, (owner) => owner.runAsNonRoot === false);
  const implicit = findContainers(pod, (container) => container.runAsNonRoot === undefined);
  const missingFields = () => implicit.map((container) => missing(container, FIELD));
  if (explicit.length > 0) {
    return {
      reason: REASON,
      detail: `${formatOwners(explicit)} must not set securityContext.runAsNonRoot=false`,
      fields: () => explicit.map((owner) => forbiddenValue(owner, FIELD, false)),
      // Containers inherit the pod's value.
      ...(pod.runAsNonRoot === undefined ? { omitted: missingFields } : {}),
    };
  }
  if (pod.runAsNonRoot || implicit.length === 0) return undefined;
  return {
    reason: REASON,
    detail: `pod or ${formatNames('container', implicit)} must set securityContext.runAsNonRoot=true`,
    fields: missingFields,
  };
}
