import type { PodFields } from '../../pod/pod.ts';
import { setterRule, USER_NAMESPACE, type CelRule } from '../cel.ts';
import {
  findSetters,
  forbidden,
  formatSetters,
  unlessUserNamespace,
  EXPLICIT_ROOT,
  type Check,
  type Finding,
} from '../check.ts';

const SETTERS = setterRule({
  name: 'runAsUser',
  passes: (owner) => `${owner}.?securityContext.?runAsUser.orValue(1) != 0`,
});
const CEL: CelRule = {
  variables: SETTERS.variables,
  passes: SETTERS.passes,
  text: `"runAsUser=0 (" + ${SETTERS.setters}.join(" and ") + " must not set runAsUser=0)"`,
};

/**
 * Pods must not run as user 0, except in user namespaces, where user 0 has no privileges on the host.
 *
 * Fields   spec.securityContext.runAsUser
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsUser
 * Allowed  any other number, or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsUser: Check = {
  id: 'runAsUser',
  level: 'restricted',
  fix: 'Set securityContext.runAsUser to a number other than 0, or remove it.',
  repairs: [{ remove: 'field', note: EXPLICIT_ROOT, explicit: true }],
  versions: [
    { since: 'v1.23', check: notUserZero, cel: CEL },
    { since: 'v1.35', check: unlessUserNamespace(notUserZero), cel: { ...CEL, unless: USER_NAMESPACE } },
  ],
};

function notUserZero(pod: PodFields): Finding | undefined {
  const setters = findSetters(pod, (setter) => setter.runAsUser === 0);
  if (setters.length === 0) return undefined;
  return {
    reason: 'runAsUser=0',
    detail: `${formatSetters(setters)} must not set runAsUser=0`,
    fields: () => setters.map((setter) => forbidden(setter, 'securityContext.runAsUser', 0)),
  };
}
