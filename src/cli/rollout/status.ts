import { EVALUATE_ANNOTATION } from '../../kube/well-known.ts';
import { ENFORCEMENT_MODES, isEnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { quote, summarizeNames } from '../../kube/text.ts';
import { ENFORCEMENT_GATE, type EvaluationResult } from '../../policy/rollout/enforcement.ts';
import type { Values } from '../options.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { countNamespaces, needsFix, type NamespaceCounts } from '../../policy/rollout/plan.ts';
import {
  gatherRollout,
  listedNamespaces,
  namespaceSections,
  planNamespaces,
  printNamespaceCounts,
  rolloutOptions,
  type RolloutState,
  selectNamespaces,
} from './facts.ts';
import { assumptionBlocks, listOptions, printable, printCount, printListing, printTable } from '../output/print.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';

/** The causes that block enforcement, and the next steps, one sentence each. */
interface Outlook {
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CONFIG = `psaenforcementconfig ${PSA_ENFORCEMENT_CONFIG}`;
const CLEAR = `Clear the request: kubectl patch ${CONFIG} --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const EVALUATE = `Evaluate all namespaces: kubectl annotate ${CONFIG} --overwrite ${EVALUATE_ANNOTATION}=$(date -u +%Y-%m-%dT%H:%M:%SZ).`;

const EVALUATE_NEXT: Readonly<Record<EvaluationResult, readonly [blocker: string, next: string]>> = {
  never: ['no complete evaluation of all namespaces exists', EVALUATE],
  stale: ['the last complete evaluation of all namespaces is too old', EVALUATE],
  inconclusive: ['the leader could not evaluate all namespaces', EVALUATE],
  violations: ['the last evaluation of the leader found violations', EVALUATE],
  clean: ['the leader has not decided yet', 'Wait: the leader evaluates all namespaces again and decides.'],
};

/** Computes the causes that block enforcement, in the order of resolution. */
export function rolloutBlockers(state: RolloutState, counts: NamespaceCounts): Outlook {
  const { phase, requested = '', decided, gate, replicas, evaluation } = state;
  if (phase === 'Disabled') {
    return outlook('the rollout is disabled: nothing is evaluated', [
      'Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.',
    ]);
  }
  if (replicas !== undefined && replicas.leader === undefined) {
    return outlook('no replica leads: nothing is evaluated or decided', ['Find the cause: portcullis doctor.']);
  }
  if (!isEnforcementMode(requested)) {
    const valid = ENFORCEMENT_MODES.map(quote).join(', ');
    return outlook(`spec.enforcementMode is ${quote(requested)}, which is invalid`, [`Set it to one of ${valid}.`]);
  }
  const findings = findingsOutlook(counts);
  if (phase === 'Enforce' && decided === 'Restricted' && requested !== 'Legacy') {
    const pending: Outlook = isEnforcing(state) ? { blockers: [], next: [] } : pendingOutlook(state);
    return { ...pending, next: [...pending.next, ...findings.next] };
  }
  const isLegacy = requested === 'Legacy';
  const afterwards = [...(isLegacy ? [CLEAR] : []), ...(phase === 'Evaluate' ? [TO_ENFORCE] : [])];
  const blockers = [
    ...findings.blockers,
    ...(isLegacy ? [`spec.enforcementMode requests Legacy${by(state)}`] : []),
    ...(phase === 'Evaluate' ? ['phase Evaluate enforces nothing'] : []),
    ...(gate || phase === 'Evaluate' ? [] : [`the feature ${ENFORCEMENT_GATE} is off`]),
  ];
  if (findings.blockers.length + afterwards.length > 0) return { blockers, next: [...findings.next, ...afterwards] };
  const [blocker, next] = EVALUATE_NEXT[requested === 'Restricted' ? 'clean' : evaluation];
  return { blockers: [...blockers, blocker], next: [...findings.next, next] };
}

const SERVERLESS = outlook('no server is installed: the policies in the API server have a constant default', [
  'Plan another default: portcullis rollout plan --level baseline, or --level restricted.',
]);

const TO_ENFORCE = 'Set spec.rollout.phase of the PortcullisConfiguration to Enforce.';

function isEnforcing({ conditions }: RolloutState): boolean {
  return conditions.some(({ type, status }) => type === 'Enforcing' && status === 'True');
}

/** Enforcement is decided but not in effect. */
function pendingOutlook({ gate, unlabeled, published, raiseSettleMs, nextRaiseTime }: RolloutState): Outlook {
  if (!gate) {
    return outlook(`the feature ${ENFORCEMENT_GATE} is off`, [`Enable the feature ${ENFORCEMENT_GATE}.`]);
  }
  if (published === 'restricted') {
    return outlook('not every replica enforces the default restricted yet', ['Wait for the replicas.']);
  }
  if (unlabeled.length > 0) {
    return outlook(`${printCount(unlabeled.length, 'namespace')} without a label: ${summarizeNames(unlabeled)}`, [
      'Wait for the labels. Events of the namespaces report errors.',
    ]);
  }
  const earliest = nextRaiseTime === undefined ? '' : `, and not before ${nextRaiseTime}`;
  return outlook('the labels are new', [
    `Wait: the default becomes restricted after all labels have existed for ${raiseSettleMs / 1000}s${earliest}.`,
  ]);
}

/** Workloads that are denied now, and those to restart, do not block enforcement, which does not affect them. */
function findingsOutlook({ violating, inconclusive, workloads }: NamespaceCounts): Outlook {
  const { deniedNow, wouldBeDenied, restart } = workloads;
  const PLAN = 'portcullis rollout plan -o wide';
  return {
    blockers: [
      ...(violating === 0
        ? []
        : [
            `${printCount(wouldBeDenied.workloads, 'workload')} in ${printCount(violating, 'namespace')} would be denied`,
          ]),
      ...(inconclusive === 0 ? [] : [`${printCount(inconclusive, 'namespace')} cannot be evaluated`]),
    ],
    next: [
      ...(violating === 0 ? [] : [`Follow the next steps of each namespace: ${PLAN}.`]),
      ...(deniedNow.workloads === 0 ? [] : [`Fix ${printCount(deniedNow.workloads, 'workload')} denied now: ${PLAN}.`]),
      ...(restart.workloads === 0
        ? []
        : [`Restart ${printCount(restart.workloads, 'workload')} whose new pods comply: ${PLAN}.`]),
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

/** The state as titles and texts. */
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
  if (phase === 'Disabled') return `${level}, as spec.podSecurity.defaults of the settings`;
  if (generation === 0) return `${level}, not published`;
  return `${level}, generation ${generation}${published === level ? '' : `; ${published} is still published`}`;
}

const LABELS: Readonly<Record<RolloutState['syncer'], string>> = {
  Enforce: 'warn, audit and enforce managed',
  Hold: 'warn and audit managed, enforce unchanged',
  Advise: 'warn and audit managed, enforce not yet',
};

function printLabels({ phase, sccMode, syncer, generation }: RolloutState): string {
  if (phase === 'Disabled') return 'not managed in phase Disabled';
  if (sccMode === 'off') return 'not managed: SCC mode off';
  if (generation === 0) return 'not managed yet';
  return `${LABELS[syncer]}${sccMode === 'enforce' ? '' : ', only in namespaces that enforce SCCs'}`;
}

/** What the PSAEnforcementConfig contains and does not apply any more. */
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
  const cause = phase === 'Disabled' ? 'it is not updated in phase Disabled' : reason;
  return [['Outdated', `status of ${CONFIG}, since ${cause}: ${parts.join('; ')}`]];
}

/** The other conditions repeat the other lines. */
const SHOWN_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing']);

function printList(title: string, items: readonly string[]): string {
  return `${title}:\n${items.map((item) => `  ${printable(item)}\n`).join('')}`;
}

const DETAILS = `
Shows the state of the rollout of enforcement, what blocks it, and the next steps. The command evaluates the
current state of all namespaces: every pod, and every pod template as security context constraints (SCCs)
complete it. It changes nothing.

The namespaces with most denied workloads are listed. -o wide lists all of them with their details. With
-n or -l, only the list is restricted: the state is that of the cluster.

The command reads the PortcullisConfiguration of the cluster. For the development cluster
and for manifests, --config names the file.

Exit codes:
  0  the state was printed
  1  Portcullis is not installed in the cluster
  2  wrong usage, or the input cannot be read

Examples:
  portcullis rollout status
  portcullis rollout status -n shop
  portcullis rollout status -o json
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...selectionOptions, ...selectorOption, ...listOptions },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const facts = await gatherRollout(options, io, new Date());
    const { state, assumptions, settingsSource: settings, isInstalled } = facts;
    if (!isInstalled) return printMissing(options, io);
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const selected = selectNamespaces(planned, facts.store, { ...options, namespace: only });
    const namespaces = only === undefined ? selected.filter(needsFix) : selected;
    const { blockers, next } = facts.serverless ? SERVERLESS : rolloutBlockers(state, counts);
    const data = { isInstalled, ...state, blockers, next, summary: counts, namespaces, settings, assumptions };
    printListing(io, options.output, { data, objects: listedNamespaces(namespaces) }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      printTable(describeState(state), { gap: '  ' }),
      ...namespaceSections(namespaces, { ...options, namespace: only }, style),
      `${style('bold', printNamespaceCounts(counts))}\n`,
      ...(blockers.length === 0 ? [] : [printList('Blocked by', blockers)]),
      ...(next.length === 0 ? [] : [printList('Next', next)]),
      ...(blockers.length === 0 ? ['The cluster is enforcing.\n'] : []),
    ]);
    return EXIT.passed;
  },
});

const NOT_INSTALLED =
  'Portcullis is not installed in this cluster: there is no PortcullisConfiguration "cluster", and no Deployment or Lease of a replica.';

function printMissing({ output }: Values<typeof listOptions>, io: Io): number {
  const next = ['Install it: portcullis install --help.', 'Evaluate the cluster before: portcullis rollout plan.'];
  const data = { isInstalled: false, blockers: [NOT_INSTALLED], next };
  printListing(io, output, { data, objects: [] }, () => [`${NOT_INSTALLED}\n`, printList('Next', next)]);
  return EXIT.violations;
}
