import type { PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, celOwners, violatingNames } from '../cel.ts';
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
const cel: BuildCel = (inputs) => {
  const { spec, containers } = inputs;
  const explicit = celOwners('runAsRoot', inputs, (owner) => `${valueOf(owner)}.orValue(true)`);
  const values = {
    ...explicit.values,
    runAsNonRootMissing: violatingNames(inputs, `${valueOf('c')}.hasValue()`),
  };
  return {
    // A container that sets no value passes only if the pod sets true.
    passes: `${valueOf(spec)}.orValue(true) && ${containers}.all(c, ${valueOf('c')}.orValue(${valueOf(spec)}.orValue(false)))`,
    text: bind(
      values,
      `"${REASON} (" + (size(${explicit.owners}) > 0 ? ${explicit.owners}.join(" and ") + " must not set ${FIELD}=false" : "pod or " + ${celNames('runAsNonRootMissing')} + " must set ${FIELD}=true") + ")"`,
    ),
  };
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
    { since: 'v1.0', check: mustRunAsNonRoot, cel },
    { since: 'v1.35', check: mustRunAsNonRoot, cel, unless: 'userNamespace' },
  ],
};

/** Returns a finding for values that are explicitly false or, if there are none, for containers that set no value. */
function mustRunAsNonRoot(pod: PodFields): Finding | undefined {
  const explicit = findOwners(pod, (owner) => owner.runAsNonRoot === false);
  const implicit = findContainers(pod, (container) => container.runAsNonRoot === undefined);
  const missingFields = () => implicit.map((container) => missing(container, FIELD));
  if (explicit.length > 0) {
    return {
      reason: REASON,
      detail: `${formatOwners(explicit)} must not set securityContext.runAsNonRoot=false`,
      fields: () => explicit.map((owner) => forbiddenValue(owner, FIELD, false)),
      // If the pod sets a value, containers inherit it.
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
