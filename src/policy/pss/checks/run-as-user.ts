import { type Check, EXPLICIT_ROOT, securityContextRule } from '../check.ts';

const RULE = securityContextRule({
  name: 'runAsUser',
  reason: 'runAsUser=0',
  field: 'securityContext.runAsUser',
  violates: ({ runAsUser }) => runAsUser === 0,
  passes: (owner) => `${owner}.?securityContext.?runAsUser.orValue(1) != 0`,
  must: () => 'must not set runAsUser=0',
  value: () => 0,
});

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
  why: "User 0 is root, regardless of the image's user. A process that escapes from the container is root on the node.",
  fix: 'Set securityContext.runAsUser to a number other than 0, or remove it.',
  violation: ['spec.securityContext.runAsUser', 0],
  cis: '5.2.7',
  nsa: 'non-root containers',
  repairs: [{ remove: 'field', note: EXPLICIT_ROOT, explicit: true }],
  versions: [
    { since: 'v1.23', ...RULE },
    { since: 'v1.35', ...RULE, unless: 'userNamespace' },
  ],
};
