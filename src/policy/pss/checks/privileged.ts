import { LOST } from '../../pod/index.ts';
import { type Check, containerRule } from '../check.ts';

const FIELD = 'securityContext.privileged';

const RULE = containerRule({
  name: 'privileged',
  reason: 'privileged',
  field: FIELD,
  violates: ({ privileged }) => privileged,
  passes: (owner) => `!${owner}.?securityContext.?privileged.orValue(false)`,
  must: () => `must not set ${FIELD}=true`,
  value: () => true,
});

/**
 * Containers must not run in privileged mode.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.privileged
 * Allowed  false or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const privileged: Check = {
  id: 'privileged',
  level: 'baseline',
  why: 'A privileged container has all capabilities and access to all devices of the node. A process in it can take over the node.',
  fix: 'Remove securityContext.privileged from the containers, or set it to false.',
  violation: ['spec.containers[0].securityContext', { privileged: true, capabilities: { drop: ['ALL'] } }],
  cis: '5.2.2',
  nsa: 'no privileged containers',
  repairs: [{ set: false, note: LOST.privileged, explicit: true }],
  versions: [{ since: 'v1.0', ...RULE }],
};
