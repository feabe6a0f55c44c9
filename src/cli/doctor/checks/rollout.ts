import { type DoctorCheck, evaluateFact, info } from '../facts.ts';
import { commandFix } from '../fix.ts';

const OBJECT = 'PSAEnforcementConfig cluster';
const PATCH = '{"spec":{"enforcementMode":""}}';
const CLEAR = commandFix('kubectl', 'patch', 'psaenforcementconfig', 'cluster', '--type=merge', '-p', PATCH);

/** Reports a cluster that should not be upgraded until it leaves Legacy mode. */
export const rollout: DoctorCheck = {
  name: 'rollout',
  evaluate: ({ upgradeProblem }) =>
    evaluateFact(upgradeProblem, OBJECT, (message) =>
      message === undefined ? [] : [info(OBJECT, `Upgradeable is False: ${message}`, { fix: CLEAR })],
    ),
};
