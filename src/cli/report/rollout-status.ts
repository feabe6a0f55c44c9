/** Describes the state of the enforcement rollout, the reasons why it is blocked, and the next action. */
import { EVALUATE_ANNOTATION } from '../../api/names.ts';
import { ENFORCEMENT_MODES, isEnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { printCount, quote, summarizeNames } from '../../kube/text.ts';
import {
  ENFORCEMENT_GATE,
  type EvaluationResult,
  type NamespaceCounts,
  type NextStep,
  printRaiseTimes,
  type RolloutState,
  type RolloutStatus,
  type RolloutStep,
} from '../../policy/rollout/index.ts';
import { printStep } from './next-steps.ts';

const CONFIG = `psaenforcementconfig ${PSA_ENFORCEMENT_CONFIG}`;
const CLEAR: NextStep = {
  text: 'Resume it',
  command: `kubectl patch ${CONFIG} --type=merge -p '{"spec":{"enforcementMode":""}}'`,
};
const EVALUATE: NextStep = {
  text: 'Evaluate all namespaces',
  command: `kubectl annotate ${CONFIG} --overwrite ${EVALUATE_ANNOTATION}=$(date -u +%Y-%m-%dT%H:%M:%SZ)`,
};

const EVALUATE_NEXT: Readonly<Record<EvaluationResult, readonly [blocker: string, next: NextStep]>> = {
  never: ['there is no complete evaluation of all namespaces yet', EVALUATE],
  stale: ['the last complete evaluation of all namespaces is too old', EVALUATE],
  inconclusive: ['the leader could not evaluate all namespaces', EVALUATE],
  violations: ["the leader's last evaluation found violations", EVALUATE],
  clean: [
    'the leader has not decided yet',
    { text: 'Wait until the leader evaluates all namespaces again and decides.' },
  ],
};

/**
 * Computes the state of the rollout, and the next action that the user should take. The flags select the cluster in the
 * command of this action.
 */
export function rolloutStatus(
  state: RolloutState,
  counts: NamespaceCounts,
  clusterFlags: readonly string[] = [],
): RolloutStatus {
  const { next, ...status } = findStatus(state, counts);
  return { ...status, next: next && printStep(next, clusterFlags) };
}

type Status = Omit<RolloutStatus, 'next'> & { readonly next?: NextStep | undefined };

function findStatus(state: RolloutState, counts: NamespaceCounts): Status {
  const { phase, requested = '', requestedBy, decided, gate, replicas, evaluation, isBreakGlassOn } = state;
  if (phase === 'Disabled') {
    return status('Off', 'the planned levels are only a preview', {
      text: 'Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.',
    });
  }
  if (isBreakGlassOn) {
    const next = { text: 'End it', command: 'portcullis break-glass off' };
    return status('Blocked', 'break-glass is on, so nothing is enforced', next);
  }
  if (replicas !== undefined && replicas.leader === undefined) {
    const reason = 'there is no leader, so nothing is evaluated or decided';
    return status('Blocked', reason, { text: 'Find the cause', command: 'portcullis doctor' });
  }
  if (!isEnforcementMode(requested)) {
    const valid = ENFORCEMENT_MODES.map(quote).join(', ');
    const reason = `spec.enforcementMode is ${quote(requested)}, which is invalid`;
    return status('Blocked', reason, { text: `Set it to one of ${valid}.` });
  }
  const { reasons, blocking, other } = findingsStatus(counts);
  const isLegacy = requested === 'Legacy';
  if (phase === 'Enforce' && decided === 'Restricted' && !isLegacy) {
    return isEnforcing(state) ? { state: 'Enforcing', reasons: [], next: blocking ?? other } : pendingStatus(state);
  }
  // Portcullis itself proposes Legacy because of violations, so the violations are printed as the reason.
  const isConsequence = requestedBy === 'rollout' && reasons.length > 0;
  const requests = isLegacy && !isConsequence ? [printLegacy(state)] : [];
  const clear = isLegacy ? CLEAR : undefined;
  if (phase === 'Evaluate') {
    const found = [...reasons, ...requests];
    const next = blocking ?? clear ?? TO_ENFORCE;
    return { state: 'Evaluating', reasons: found.length === 0 ? ['no workload would be denied'] : found, next };
  }
  const all = [...reasons, ...requests, ...(gate ? [] : [FEATURE_OFF])];
  if (all.length > 0) return { state: 'Blocked', reasons: all, next: blocking ?? clear ?? ENABLE_FEATURE };
  return status('Evaluating', ...EVALUATE_NEXT[requested === 'Restricted' ? 'clean' : evaluation]);
}

const TO_ENFORCE: NextStep = { text: 'Set spec.rollout.phase of the PortcullisConfiguration to Enforce.' };
const FEATURE_OFF = `the ${ENFORCEMENT_GATE} feature is off`;
const ENABLE_FEATURE: NextStep = { text: `Enable the ${ENFORCEMENT_GATE} feature.` };

function isEnforcing({ conditions }: RolloutState): boolean {
  return conditions.some(({ type, status }) => type === 'Enforcing' && status === 'True');
}

/** Returns the status after the decision to enforce, before enforcement is in effect. */
function pendingStatus(state: RolloutState): Status {
  const { gate, unlabeled, published } = state;
  if (!gate) return status('Blocked', FEATURE_OFF, ENABLE_FEATURE);
  if (published === 'restricted') {
    const next = { text: 'Wait until all replicas enforce it.' };
    return status('Evaluating', 'not every replica enforces the restricted default yet', next);
  }
  if (unlabeled.length > 0) {
    const reason = `${printCount(unlabeled.length, 'namespace')} without a label: ${summarizeNames(unlabeled)}`;
    const text = 'Wait until the namespaces are labeled. Errors are reported as events in the namespaces.';
    return status('Evaluating', reason, { text });
  }
  const next = { text: `Wait. The default becomes restricted ${printRaiseTimes(state)}.` };
  return status('Evaluating', 'the default level is raised after a waiting period', next);
}

/**
 * Returns the findings that block enforcement, and the first action for them. Also returns the first action for
 * findings that do not block enforcement. Enforcement does not affect workloads that are already denied or need a
 * restart.
 */
function findingsStatus({ violating, inconclusive, workloads }: NamespaceCounts) {
  const { deniedNow, wouldBeDenied, restart } = workloads;
  const command = 'portcullis rollout plan -o wide';
  const reasons = [
    ...(violating === 0
      ? []
      : [
          `${printCount(wouldBeDenied.workloads, 'workload')} in ${printCount(violating, 'namespace')} would be denied`,
        ]),
    ...(inconclusive === 0 ? [] : [`${printCount(inconclusive, 'namespace')} cannot be evaluated`]),
  ];
  const [blocking]: readonly NextStep[] = [
    ...(violating === 0 ? [] : [{ text: 'Follow the next steps for each namespace', command }]),
    ...(inconclusive === 0 ? [] : [{ text: 'Resolve the errors of the namespaces that cannot be evaluated.' }]),
  ];
  const verb = deniedNow.workloads === 1 ? 'is' : 'are';
  const [other]: readonly NextStep[] = [
    ...(deniedNow.workloads === 0
      ? []
      : [{ text: `Fix ${printCount(deniedNow.workloads, 'workload')} that ${verb} denied now`, command }]),
    ...(restart.workloads === 0
      ? []
      : [{ text: `Restart ${printCount(restart.workloads, 'workload')} whose new pods comply`, command }]),
  ];
  return { reasons, blocking, other };
}

function printLegacy({ requestedBy }: RolloutState): string {
  const reason = requestedBy === 'rollout' ? 'an evaluation found violations' : 'spec.enforcementMode requests Legacy';
  return `enforcement is paused, because ${reason}`;
}

function status(state: RolloutStatus['state'], reason: string, next: NextStep): Status {
  return { state, reasons: [reason], next };
}

/** Returns the rollout steps. The first unfinished step is the current one. */
export function rolloutSteps(state: RolloutState, counts: NamespaceCounts): readonly RolloutStep[] {
  const { phase } = state;
  const denied = `${printCount(counts.workloads.wouldBeDenied.workloads, 'workload')} in ${printCount(counts.violating, 'namespace')}`;
  const evaluated =
    counts.inconclusive === 0 ? printCount(counts.namespaces, 'namespace') : `${counts.inconclusive} inconclusive`;
  const steps: readonly (readonly [name: string, isDone: boolean, detail: string])[] = [
    ['Evaluate', phase !== 'Disabled' && counts.inconclusive === 0, phase === 'Disabled' ? 'off' : evaluated],
    ['Fix', counts.violating === 0, counts.violating === 0 ? 'no violations' : denied],
    ['Enforce', isEnforcing(state), `default ${state.default}`],
  ];
  const current = steps.findIndex(([, isDone]) => !isDone);
  return steps.map(([name, isDone, detail], index) => {
    return { name, detail, state: isDone ? 'done' : index === current ? 'current' : 'waiting' };
  });
}

// State as titles and values

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
    ...(phase === 'Disabled' || (replicas === undefined && lastEvaluationTime === '')
      ? []
      : [['Evaluated', lastEvaluationTime === '' ? 'never' : lastEvaluationTime + EVALUATIONS[evaluation]] as const]),
    ...(replicas === undefined ? [] : [['Replicas', printReplicas(replicas)] as const]),
  ];
}

/**
 * Formats the fields of the interface that OpenShift defines, which are the phase, the PSAEnforcementConfig, the
 * feature gate and the labels of the label syncer.
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
  Advise: 'warn and audit managed, enforce not managed yet',
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
