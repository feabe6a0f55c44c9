import { celString } from '../../../kube/cel.ts';
import type { ContainerFields, PodFields } from '../../pod/pod.ts';
import { celNames, offendingNames, celQuotedList, sortedSet, USER_NAMESPACE, type CelRule } from '../cel.ts';
import {
  distinct,
  findContainers,
  forbidden,
  formatNames,
  quotedList,
  unlessUserNamespace,
  type Check,
  type Finding,
} from '../check.ts';

const FIELD = 'securityContext.procMount';
const ALLOWED = 'Default';

const TYPE = `c.?securityContext.?procMount.orValue(${celString(ALLOWED)})`;
const PASSES = `${TYPE} == ${celString(ALLOWED)}`;
export const PROC_MOUNT_CEL: CelRule = {
  variables: {
    procMountContainers: offendingNames(PASSES),
    procMountTypes: sortedSet(`[variables.containers.filter(c, !(${PASSES})).map(c, c.securityContext.procMount)]`),
  },
  passes: `variables.containers.all(c, ${PASSES})`,
  text: `"procMount (" + ${celNames('variables.procMountContainers')} + " must not set ${FIELD} to " + ${celQuotedList('variables.procMountTypes')} + ")"`,
};

/**
 * The masked paths in /proc must stay masked, except in user namespaces, where they do not expose the host.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.procMount
 * Allowed  Default or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const procMount: Check = {
  id: 'procMount',
  level: 'baseline',
  fix: 'Remove securityContext.procMount from the containers, or set it to Default.',
  repairs: [{ remove: 'field' }],
  versions: [
    { since: 'v1.0', check: onlyDefaultProcMount, cel: PROC_MOUNT_CEL },
    {
      since: 'v1.35',
      check: unlessUserNamespace(onlyDefaultProcMount),
      cel: { ...PROC_MOUNT_CEL, unless: USER_NAMESPACE },
    },
  ],
};

/** Denies every type other than `Default`, including the empty string. */
export function onlyDefaultProcMount(pod: PodFields): Finding | undefined {
  const offenders = findContainers(pod, isNotDefault);
  if (offenders.length === 0) return undefined;
  const types = quotedList(distinct(offenders.map((container) => container.procMount ?? '')));
  return {
    reason: 'procMount',
    detail: `${formatNames('container', offenders)} must not set securityContext.procMount to ${types}`,
    fields: () => offenders.map((container) => forbidden(container, FIELD, container.procMount)),
  };
}

function isNotDefault({ procMount: type }: ContainerFields): boolean {
  return type !== undefined && type !== ALLOWED;
}
