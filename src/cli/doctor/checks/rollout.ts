import { PROGRAM } from '../../command.ts';
import { kubectl, printCommand } from '../../output/shell.ts';
import { type DoctorCheck, evaluateFact, type Fix, info } from '../facts.ts';
import { commandFix } from '../fix.ts';

const OBJECT = 'PSAEnforcementConfig cluster';
const PATCH = '{"spec":{"enforcementMode":""}}';
const CLEAR = printCommand(kubectl('patch', 'psaenforcementconfig', 'cluster', '--type=merge', '-p', PATCH));
/** Clearing the mode while workloads violate the level has no lasting effect, because the leader sets it again. */
const FIX: Fix = {
  ...commandFix(PROGRAM, 'rollout', 'plan'),
  note: `fix the listed workloads. Once there are no violations, clear the mode: ${CLEAR}`,
};

/** Reports a cluster that should not be upgraded until it leaves Legacy mode. */
export const rollout: DoctorCheck = {
  name: 'rollout',
  evaluate: ({ upgradeProblem }) =>
    evaluateFact(upgradeProblem, OBJECT, (message) =>
      message === undefined ? [] : [info(OBJECT, `Upgradeable is False: ${message}`, { fix: FIX })],
    ),
};
