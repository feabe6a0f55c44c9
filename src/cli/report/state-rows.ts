/** Formats the state of the rollout as titles and values. */
import {
  ENFORCEMENT_GATE,
  type EvaluationResult,
  type RolloutState,
  type RolloutStatus,
} from '../../policy/rollout/index.ts';
import { CONFIG } from './rollout-status.ts';

/** Formats the state of the rollout and the next action. */
export function describeStatus(
  { phase, enforcementDate, replicas, lastEvaluationTime = '', evaluation, ...state }: RolloutState,
  { state: name, reasons, next }: RolloutStatus,
): readonly (readonly [title: string, text: string])[] {
  const date =
    enforcementDate === undefined || name === 'Off' || name === 'Enforcing'
      ? ''
      : `, enforcement announced for ${enforcementDate}`;
  return [
    ['State', `${name}${date}${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}`],
    ['Next', next ?? 'nothing to do'],
    ['Default', `${state.default} for namespaces without a label`],
    ...(phase === 'Disabled'
      ? []
      : [['Evaluated', lastEvaluationTime === '' ? 'never' : lastEvaluationTime + EVALUATIONS[evaluation]] as const]),
    ...(replicas === undefined ? [] : [['Replicas', printReplicas(replicas)] as const]),
  ];
}

/**
 * Formats the fields of the interface that OpenShift defines: the phase, the PSAEnforcementConfig, the feature gate and
 * the labels of the label syncer.
 */
export function describeInterface(state: RolloutState): readonly (readonly [title: string, text: string])[] {
  const { phase, gate, conditions, sccMode } = state;
  return [
    ['Phase', phase],
    ...(phase === 'Enforce' ? [['Feature', `${ENFORCEMENT_GATE} ${gate ? 'on' : 'off'}`] as const] : []),
    ...(phase === 'Disabled' ? [] : decisionRows(state)),
    ['Published', printPublished(state)],
    ...(sccMode === 'off' ? [] : [['Labels', printLabels(state)] as const]),
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
  const { requested, requestedBy, decided } = state;
  const owner = { rollout: ', proposed by Portcullis', others: '' }[requestedBy ?? 'others'];
  return [
    [
      'Requested',
      requested === undefined ? 'no PSAEnforcementConfig' : requested === '' ? 'nothing' : requested + owner,
    ],
    ['Decided', decided || 'nothing'],
  ];
}

function printPublished({ phase, published, generation }: RolloutState): string {
  if (phase === 'Disabled' || generation === 0) return 'no default level';
  return `${published}, generation ${generation}`;
}

const LABELS: Readonly<Record<RolloutState['syncer'], string>> = {
  Enforce: 'warn, audit and enforce managed',
  Hold: 'warn and audit managed, enforce unchanged',
  Advise: 'warn and audit managed, enforce not yet',
};

function printLabels({ phase, sccMode, syncer, generation }: RolloutState): string {
  if (phase === 'Disabled') return 'not managed in the Disabled phase';
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
