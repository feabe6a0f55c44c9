import { EVALUATE_ANNOTATION } from '../../kube/well-known.ts';
import { ENFORCEMENT_MODES, isEnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { quote, summarizeNames } from '../../kube/text.ts';
import { ENFORCEMENT_GATE } from '../../policy/rollout/enforcement.ts';
import {
  countNamespaces,
  gatherRollout,
  isBlocking,
  namespaceBlocks,
  type NamespaceCounts,
  planNamespaces,
  printNamespaceCounts,
  rolloutOptions,
  type RolloutState,
} from '../rollout.ts';
import { assumptionBlocks, printable, printCount, printReport, printTable } from '../output/print.ts';
import { defineCommand, EXIT } from '../command.ts';

/** The causes that block enforcement, and the next steps, one sentence each. */
interface Outlook {
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CONFIG = `psaenforcementconfig ${PSA_ENFORCEMENT_CONFIG}`;
const CLEAR = `Clear the request: kubectl patch ${CONFIG} --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const EVALUATE = `Evaluate all namespaces: kubectl annotate ${CONFIG} --overwrite ${EVALUATE_ANNOTATION}=$(date -u +%Y-%m-%dT%H:%M:%SZ).`;

/** Computes the causes that block enforcement, in the order of resolution. */
export function rolloutBlockers(state: RolloutState, counts: NamespaceCounts): Outlook {
  const { phase, requested = '', decided, gate, published } = state;
  if (!isEnforcementMode(requested)) {
    const valid = ENFORCEMENT_MODES.map(quote).join(', ');
    return outlook(`spec.enforcementMode is ${quote(requested)}, which is invalid`, [`Set it to one of ${valid}.`]);
  }
  if (phase === 'Disabled') {
    return outlook('the rollout is disabled: nothing is evaluated', [
      'Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.',
    ]);
  }
  const findings = findingsOutlook(counts);
  if (phase === 'Enforce' && decided === 'Restricted') {
    return gate && published === 'restricted' ? { blockers: [], next: findings.next } : pendingOutlook(state);
  }
  const isLegacy = requested === 'Legacy' || (phase === 'Enforce' && decided === 'Legacy');
  const afterwards = [...(isLegacy ? [CLEAR] : []), ...(phase === 'Evaluate' ? [TO_ENFORCE] : [])];
  const blockers = [
    ...findings.blockers,
    ...(isLegacy ? [`spec.enforcementMode requests Legacy${by(state)}`] : []),
    ...(phase === 'Evaluate' ? ['phase Evaluate enforces nothing'] : []),
    ...(gate || phase === 'Evaluate' ? [] : [`the feature ${ENFORCEMENT_GATE} is off`]),
  ];
  if (findings.blockers.length > 0) return { blockers, next: [...findings.next, ...afterwards] };
  if (afterwards.length > 0) return { blockers, next: afterwards };
  return { blockers: [...blockers, 'no complete evaluation of all namespaces exists'], next: [EVALUATE] };
}

const TO_ENFORCE = 'Set spec.rollout.phase of the PortcullisConfiguration to Enforce.';

/** Enforcement is decided but not in effect. */
function pendingOutlook({ gate, unlabeled, raiseSettleMs }: RolloutState): Outlook {
  if (!gate) {
    return outlook(`the feature ${ENFORCEMENT_GATE} is off`, [`Enable the feature ${ENFORCEMENT_GATE}.`]);
  }
  if (unlabeled.length > 0) {
    return outlook(`${printCount(unlabeled.length, 'namespace')} without a label: ${summarizeNames(unlabeled)}`, [
      'Wait for the labels. Events of the namespaces report errors.',
    ]);
  }
  return outlook('the labels are new', [
    `Wait: the default becomes restricted after all labels have existed for ${raiseSettleMs / 1000}s, at most once within 5m.`,
  ]);
}

function findingsOutlook({ violating, inconclusive, workloads }: NamespaceCounts): Outlook {
  return {
    blockers: [
      ...(violating === 0
        ? []
        : [`${printCount(workloads, 'workload')} in ${printCount(violating, 'namespace')} would be refused`]),
      ...(inconclusive === 0 ? [] : [`${printCount(inconclusive, 'namespace')} cannot be evaluated`]),
    ],
    next: [
      ...(violating === 0 ? [] : ['Follow the next steps of each namespace.']),
      ...(inconclusive === 0 ? [] : ['Resolve the errors of the namespaces that cannot be evaluated.']),
    ],
  };
}

function by({ requestedBy }: RolloutState): string {
  return requestedBy === 'rollout' ? ', as proposed by Portcullis' : '';
}

function outlook(blocker: string, next: readonly string[]): Outlook {
  return { blockers: [blocker], next };
}

function printState(state: RolloutState): string {
  const { phase, enforcementDate, gate, requested, requestedBy, decided, lastEvaluationTime } = state;
  const { published, generation, syncer, conditions } = state;
  const owner = requestedBy === 'rollout' ? ', proposed by Portcullis' : '';
  const rows: readonly (readonly [string, string])[] = [
    ['Phase', `${phase}${enforcementDate === undefined ? '' : `, enforcement announced for ${enforcementDate}`}`],
    // The feature has no effect in the phase Evaluate.
    ...(phase === 'Evaluate' ? [] : [['Feature', `${ENFORCEMENT_GATE} ${gate ? 'on' : 'off'}`] as const]),
    [
      'Requested',
      requested === undefined ? 'no PSAEnforcementConfig' : requested === '' ? 'nothing' : requested + owner,
    ],
    ['Decided', decided || 'nothing'],
    ['Evaluated', lastEvaluationTime ?? 'never'],
    ['Default', generation === 0 ? `${published}, not published` : `${published}, generation ${generation}`],
    ['Labels', LABELS[syncer]],
    ...conditions
      .filter(({ type }) => SHOWN_CONDITIONS.has(type))
      .map(({ type, status, reason, message }): [string, string] => [
        type,
        `${status}, ${reason}${message === '' ? '' : `: ${message}`}`,
      ]),
  ];
  return printTable(rows, { gap: '  ' });
}

const LABELS: Readonly<Record<RolloutState['syncer'], string>> = {
  Enforce: 'warn, audit and enforce managed',
  Hold: 'warn and audit managed, enforce unchanged',
  Advise: 'warn and audit managed, enforce not yet',
};

/** The other conditions repeat the other lines. */
const SHOWN_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'LegacyProposed', 'SpecInvalid']);

function printList(title: string, items: readonly string[]): string {
  return `${title}:\n${items.map((item) => `  ${printable(item)}\n`).join('')}`;
}

const DETAILS = `
Shows the state of the rollout of enforcement, what blocks it, and the next steps. The command evaluates the
current state of all namespaces: every pod, and every pod template as security context constraints (SCCs)
complete it. It changes nothing.

The command reads the PortcullisConfiguration of the cluster. For the development cluster
and for manifests, --config names the file.

Examples:
  portcullis rollout status
  portcullis rollout status -o json
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: rolloutOptions,
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const { state, assumptions, settingsSource: settings } = facts;
    const namespaces = planned.filter(isBlocking);
    const { blockers, next } = rolloutBlockers(state, counts);
    const data = { ...state, blockers, next, summary: counts, namespaces, settings, assumptions };
    printReport(io, options.output, data, (style) => [
      ...assumptionBlocks(assumptions, settings),
      printState(state),
      ...namespaceBlocks(namespaces, style),
      `${style('bold', printNamespaceCounts(counts))}\n`,
      ...(blockers.length === 0 ? [] : [printList('Blocked by', blockers)]),
      next.length === 0 ? 'The cluster is enforcing.\n' : printList('Next', next),
    ]);
    return EXIT.passed;
  },
});
