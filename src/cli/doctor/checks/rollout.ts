import { PROGRAM } from '../../command.ts';
import { type DoctorCheck, evaluateFact, type Fix, info } from '../facts.ts';
import { commandFix } from '../fix.ts';

const OBJECT = 'PSAEnforcementConfig cluster';
/** Clearing the mode while workloads violate the level has no lasting effect, because the leader sets it again. */
const FIX: Fix = {
  ...commandFix(PROGRAM, 'rollout', 'plan'),
  note: 'fix the listed workloads. Once there are no violations, portcullis rollout status prints the command that clears the mode',
};

/** Reports a cluster that should not be upgraded until it leaves Legacy mode. */
export const rollout: DoctorCheck = {
  name: 'rollout',
  evaluate: ({ upgradeProblem }) =>
    evaluateFact(upgradeProblem, OBJECT, (message) =>
      message === undefined ? [] : [info(OBJECT, `Upgradeable is False: ${message}`, { fix: FIX })],
    ),
};
