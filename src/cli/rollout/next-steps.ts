import { EVALUATE_ANNOTATION } from '../../kube/installation.ts';
import { ENFORCEMENT_MODES, isEnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { quote } from '../../kube/quote.ts';
import { ENFORCEMENT_GATE } from '../../policy/rollout/enforcement.ts';
import { printSome } from '../../policy/psa/some.ts';
import type { NamespaceCounts, RolloutState } from './types.ts';

/** What keeps the cluster from enforcement, and what to do next; each in one sentence. */
export interface Outlook {
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CONFIG = `psaenforcementconfig ${PSA_ENFORCEMENT_CONFIG}`;
const CLEAR = `Clear the request: kubectl patch ${CONFIG} --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const EVALUATE = `Have all namespaces evaluated: kubectl annotate ${CONFIG} --overwrite ${EVALUATE_ANNOTATION}=$(date -u +%Y-%m-%dT%H:%M:%SZ).`;

/** Says what is in the way, from what is nearest to what comes last. */
export function outlookOn(state: RolloutState, counts: NamespaceCounts): Outlook {
  const { phase, requested = '', decided, gate, published } = state;
  if (!isEnforcementMode(requested)) {
    const valid = ENFORCEMENT_MODES.map(quote).join(', ');
    return outlook(`spec.enforcementMode is ${quote(requested)}, which nobody understands`, [
      `Make it one of ${valid}.`,
    ]);
  }
  if (phase === 'Disabled') {
    return outlook('the rollout is disabled: nothing is evaluated', [
      'Set rollout.phase to Evaluate in the configuration file, and start the replicas anew.',
    ]);
  }
  const findings = findingsOf(counts);
  if (phase === 'Enforce' && decided === 'Restricted') {
    return gate && published === 'restricted' ? { blockers: [], next: findings.next } : onItsWay(state);
  }
  const isLegacy = requested === 'Legacy' || (phase === 'Enforce' && decided === 'Legacy');
  const afterwards = [...(isLegacy ? [CLEAR] : []), ...(phase === 'Evaluate' ? [TO_ENFORCE] : [])];
  const blockers = [
    ...findings.blockers,
    ...(isLegacy ? [`spec.enforcementMode asks for Legacy${by(state)}`] : []),
    ...(phase === 'Evaluate' ? ['phase Evaluate enforces nothing'] : []),
    ...(gate || phase === 'Evaluate' ? [] : [`the feature ${ENFORCEMENT_GATE} is off`]),
  ];
  if (findings.blockers.length > 0) return { blockers, next: [...findings.next, ...afterwards] };
  if (afterwards.length > 0) return { blockers, next: afterwards };
  return { blockers: [...blockers, 'no evaluation of all namespaces has decided yet'], next: [EVALUATE] };
}

const TO_ENFORCE = 'Set rollout.phase to Enforce in the configuration file; replicas follow it.';

/** Enforcement is decided, and not in force yet. */
function onItsWay({ gate, unlabelled, raiseSettleMs }: RolloutState): Outlook {
  if (!gate) {
    return outlook(`the feature ${ENFORCEMENT_GATE} is off`, [`Switch the feature ${ENFORCEMENT_GATE} on.`]);
  }
  if (unlabelled.length > 0) {
    return outlook(`${namespaces(unlabelled.length)} without a label yet: ${printSome(unlabelled)}`, [
      'Wait for the labels; where they do not come, the events of the namespace say why.',
    ]);
  }
  return outlook('the labels have to settle', [
    `Wait: the default goes up once all labels have been there for ${raiseSettleMs / 1000}s, and not twice within 5m.`,
  ]);
}

function findingsOf({ violating, inconclusive, workloads }: NamespaceCounts): Outlook {
  return {
    blockers: [
      ...(violating === 0
        ? []
        : [`${workloads} ${workloads === 1 ? 'workload' : 'workloads'} in ${namespaces(violating)} would be refused`]),
      ...(inconclusive === 0 ? [] : [`${namespaces(inconclusive)} cannot be judged`]),
    ],
    next: [
      ...(violating === 0 ? [] : ['Do what is listed for each namespace.']),
      ...(inconclusive === 0 ? [] : ['See to the namespaces that cannot be judged.']),
    ],
  };
}

function by({ requestedBy }: RolloutState): string {
  return requestedBy === 'rollout' ? ', as the program proposed' : '';
}

function namespaces(count: number): string {
  return `${count} ${count === 1 ? 'namespace' : 'namespaces'}`;
}

function outlook(blocker: string, next: readonly string[]): Outlook {
  return { blockers: [blocker], next };
}
