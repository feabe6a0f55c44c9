import { type Check, containerRule, forbiddenValue, missing } from '../check.ts';

const FIELD = 'securityContext.allowPrivilegeEscalation';

const RULE = containerRule({
  name: 'escalating',
  reason: 'allowPrivilegeEscalation != false',
  field: FIELD,
  violates: ({ allowPrivilegeEscalation }) => allowPrivilegeEscalation !== false,
  passes: (owner) => `!${owner}.?securityContext.?allowPrivilegeEscalation.orValue(true)`,
  must: () => `must set ${FIELD}=false`,
  value: ({ allowPrivilegeEscalation }) => allowPrivilegeEscalation ?? 'nil',
  error(container) {
    const error = container.hasSecurityContext ? forbiddenValue : missing;
    return error(container, FIELD, container.allowPrivilegeEscalation ?? 'nil');
  },
});

/**
 * Every container must disallow privilege escalation, such as through setuid binaries.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.allowPrivilegeEscalation
 * Allowed  false
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const allowPrivilegeEscalation: Check = {
  id: 'allowPrivilegeEscalation',
  level: 'restricted',
  why: 'Setuid programs and file capabilities give a process more privileges than its parent. With `false`, the kernel sets `no_new_privs`, so a compromised process cannot gain additional privileges.',
  fix: 'Set securityContext.allowPrivilegeEscalation to false in each container.',
  violation: ['spec.containers[0].securityContext.allowPrivilegeEscalation', true],
  cis: '5.2.6',
  nsa: 'no privilege escalation',
  repairs: [{ set: false }],
  versions: [
    { since: 'v1.8', ...RULE },
    { since: 'v1.25', ...RULE, unless: 'windows' },
  ],
};
