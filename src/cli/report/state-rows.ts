/** Formats the state of the rollout as titles and values. */
import type { EvaluationResult } from '../../policy/rollout/enforcement.ts';
import { ENFORCEMENT_GATE } from '../../policy/rollout/feature-gate.ts';
import { CONFIG, isEnforcing, type RolloutState } from '../../policy/rollout/state.ts';

export function describeState(state: RolloutState): readonly (readonly [title: string, text: string])[] {
  const { phase, enforcementDate, gate, conditions, replicas } = state;
  const isAnnounced = enforcementDate !== undefined && phase !== 'Disabled' && !isEnforcing(state);
  return [
    ['Phase', `${phase}${isAnnounced ? `, enforcement announced for ${enforcementDate}` : ''}`],
    ...(replicas === undefined ? [] : [['Replicas', printReplicas(replicas)] as const]),
    ...(phase === 'Enforce' ? [['Feature', `${ENFORCEMENT_GATE} ${gate ? 'on' : 'off'}`] as const] : []),
    ...(phase === 'Disabled' ? [] : decisionRows(state)),
    ['Default', printDefault(state)],
    ['Labels', printLabels(state)],
    ...conditions
      .filter(({ type }) => SHOWN_CONDITIONS.has(type))
      .map(({ type, status, reason, message }): [string, string] => [
        type,
        `${status}, ${reason}${message === '' ? '' : `: ${message}`}`,
      ]),
    ...outdatedRow(state),
  ];
}

function printReplicas({ running, leader }: NonNullable<RolloutState['replicas']>): string {
  if (running === 0) return 'none running';
  return `${running} running, ${leader === undefined ? 'without a leader' : `leader ${leader}`}`;
}

const EVALUATIONS: Readonly<Record<EvaluationResult, string>> = {
  never: 'never',
  stale: ', too old for a decision',
  inconclusive: ', not all namespaces',
  violations: '',
  clean: '',
};

function decisionRows(state: RolloutState): readonly (readonly [string, string])[] {
  const { requested, requestedBy, decided, lastEvaluationTime = '', evaluation } = state;
  const owner = { rollout: ', proposed by Portcullis', others: '' }[requestedBy ?? 'others'];
  return [
    [
      'Requested',
      requested === undefined ? 'no PSAEnforcementConfig' : requested === '' ? 'nothing' : requested + owner,
    ],
    ['Decided', decided || 'nothing'],
    ['Evaluated', lastEvaluationTime === '' ? 'never' : lastEvaluationTime + EVALUATIONS[evaluation]],
  ];
}

function printDefault({ phase, default: level, published, generation }: RolloutState): string {
  if (phase === 'Disabled') return `${level}, from spec.podSecurity.defaults in the settings`;
  if (generation === 0) return `${level}, not published`;
  return `${level}, generation ${generation}${published === level ? '' : `; ${published} is still published`}`;
}

const LABELS: Readonly<Record<RolloutState['syncer'], string>> = {
  Enforce: 'warn, audit and enforce managed',
  Hold: 'warn and audit managed, enforce unchanged',
  Advise: 'warn and audit managed, enforce not yet',
};

function printLabels({ phase, sccMode, syncer, generation }: RolloutState): string {
  if (phase === 'Disabled') return 'not managed in the Disabled phase';
  if (sccMode === 'off') return 'not managed: SCC mode off';
  if (generation === 0) return 'not managed yet';
  return `${LABELS[syncer]}${sccMode === 'enforce' ? '' : ', only in namespaces that enforce SCCs'}`;
}

/** Returns a row for outdated status fields of the PSAEnforcementConfig, if there are any. */
function outdatedRow(state: RolloutState): readonly (readonly [string, string])[] {
  const { phase, replicas, outdatedMode, outdatedConditions } = state;
  const parts = [
    ...(outdatedMode === '' ? [] : [`enforcementMode ${outdatedMode}`]),
    ...outdatedConditions.map(
      ({ type, status, reason, lastTransitionTime }) => `${type} ${status}, ${reason}, since ${lastTransitionTime}`,
    ),
  ];
  if (parts.length === 0) return [];
  const isUpdated = replicas === undefined || replicas.leader !== undefined;
  const reason = isUpdated ? 'the leader has not updated it yet' : 'no leader updates it';
  const cause = phase === 'Disabled' ? 'it is not updated in the Disabled phase' : reason;
  return [['Outdated', `status of ${CONFIG}, since ${cause}: ${parts.join('; ')}`]];
}

/** Conditions to print. Other conditions would repeat information from other rows. */
const SHOWN_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing']);
