import { celString } from '../../../kube/cel.ts';
import { LOST } from '../../pod/index.ts';
import { type Check, containerRule } from '../check.ts';

const FIELD = 'securityContext.procMount';
const ALLOWED = 'Default';

/** Denies all types except `Default`, including the empty string. */
export const ONLY_DEFAULT_PROC_MOUNT = containerRule({
  name: 'procMount',
  reason: 'procMount',
  field: FIELD,
  violates: ({ procMount: type = ALLOWED }) => type !== ALLOWED,
  passes: (owner) => `${owner}.?securityContext.?procMount.orValue(${celString(ALLOWED)}) == ${celString(ALLOWED)}`,
  must: (types) => `must not set ${FIELD} to ${types}`,
  value: ({ procMount: type }) => type,
  celValue: (owner) => `${owner}.securityContext.procMount`,
});

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
  why: "The container runtime masks paths in /proc that expose or modify the node's kernel. An unmasked /proc exposes them.",
  fix: 'Remove securityContext.procMount from the containers, or set it to Default.',
  violation: ['spec.containers[0].securityContext.procMount', 'Unmasked'],
  cis: '5.6.3',
  repairs: [{ remove: 'field', note: LOST.procMount, explicit: true }],
  versions: [
    { since: 'v1.0', ...ONLY_DEFAULT_PROC_MOUNT },
    { since: 'v1.35', ...ONLY_DEFAULT_PROC_MOUNT, unless: 'userNamespace' },
  ],
};
