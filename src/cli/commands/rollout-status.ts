import { EVALUATE_ANNOTATION } from '../../kube/well-known.ts';
import { ENFORCEMENT_MODES, isEnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { quote, summarizeNames } from '../../kube/text.ts';
import { ENFORCEMENT_GATE } from '../../policy/rollout/enforcement.ts';
import {
  type NamespaceCounts,
  type RolloutState,
  type PlannedNamespace,
  gatherRollout,
  rolloutOptions,
} from '../rollout/gather.ts';
import { assumptionBlocks } from '../output/print.ts';
import { type Style, styleOf, printable, printData } from '../output/print.ts';
import { namespaceBlocks, printCounts, countNamespaces, planNamespaces } from '../rollout/namespaces.ts';
import { defineCommand, EXIT } from '../command.ts';

/** What keeps the cluster from enforcement, and what to do next; each in one sentence. */
interface Outlook {
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
    return outlook(`${namespaces(unlabelled.length)} without a label yet: ${summarizeNames(unlabelled)}`, [
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

/** Where the cluster stands, and why. */
interface StatusReport {
  readonly state: RolloutState;
  readonly outlook: Outlook;
  readonly counts: NamespaceCounts;
  readonly namespaces: readonly PlannedNamespace[];
  readonly assumptions: readonly string[];
}

/** For people: where the cluster stands, what is in the way, and what to do next. */
function printStatus(report: StatusReport, style: Style): string {
  const { state, outlook, counts, namespaces, assumptions } = report;
  const blocks = [
    ...assumptionBlocks(assumptions),
    printState(state),
    ...namespaceBlocks(namespaces, style),
    `${style('bold', printCounts(counts))}\n`,
    ...(outlook.blockers.length === 0 ? [] : [printList('In the way', outlook.blockers)]),
    outlook.next.length === 0 ? 'The cluster enforces; there is nothing to do.\n' : printList('Next', outlook.next),
  ];
  return blocks.join('\n');
}

function printState(state: RolloutState): string {
  const { phase, enforcementDate, gate, requested, requestedBy, decided, lastEvaluationTime } = state;
  const { published, generation, syncer, conditions } = state;
  const owner = requestedBy === 'rollout' ? ', proposed by the program' : '';
  const rows: readonly (readonly [string, string])[] = [
    ['Phase', `${phase}${enforcementDate === undefined ? '' : `, enforcement announced for ${enforcementDate}`}`],
    // In the phase Evaluate it changes nothing.
    ...(phase === 'Evaluate' ? [] : [['Feature', `${ENFORCEMENT_GATE} ${gate ? 'on' : 'off'}`] as const]),
    [
      'Requested',
      requested === undefined ? 'no PSAEnforcementConfig' : requested === '' ? 'nothing' : requested + owner,
    ],
    ['Decided', decided || 'nothing'],
    ['Evaluated', lastEvaluationTime ?? 'never'],
    ['Default', generation === 0 ? `${published}, nothing published yet` : `${published}, generation ${generation}`],
    ['Labels', LABELS[syncer]],
    ...conditions
      .filter(({ type }) => TOLD.has(type))
      .map(({ type, status, reason, message }): [string, string] => [
        type,
        `${status}, ${reason}${message === '' ? '' : `: ${message}`}`,
      ]),
  ];
  const width = rows.reduce((longest, [title]) => Math.max(longest, title.length), 0);
  return rows.map(([title, text]) => `${title.padEnd(width)}  ${printable(text)}\n`).join('');
}

const LABELS: Readonly<Record<RolloutState['syncer'], string>> = {
  Enforce: 'kept, those that enforce among them',
  Hold: 'those that enforce stay as they are',
  Advise: 'kept, but those that enforce',
};

/** What else conditions say stands in the other lines. */
const TOLD: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'LegacyProposed', 'SpecInvalid']);

function printList(title: string, items: readonly string[]): string {
  return `${title}:\n${items.map((item) => `  ${printable(item)}\n`).join('')}`;
}

/** For programs: everything that is known. */
function dataOfStatus({ state, outlook, counts, namespaces, assumptions }: StatusReport): unknown {
  return { ...state, ...outlook, summary: counts, namespaces, assumptions };
}

const DETAILS = `
Says where a cluster stands on its way to enforcing the Pod Security Standards, what is in the way, and
what to do next. Namespaces are evaluated as they are now, whatever the server found last: every pod, and
every pod template as security context constraints (SCCs) complete it. Nothing is written.

Reads the configuration file of the installation in the cluster; for the development cluster and for
manifests, name it with --config.

Examples:
  portcullis rollout status
  portcullis rollout status -o json
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

/** Tells where the rollout of enforcement stands. */
export const command = defineCommand({
  details: DETAILS,
  options: rolloutOptions,
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const { state, assumptions } = facts;
    const namespaces = planned.filter(({ verdict }) => verdict === 'violating' || verdict === 'inconclusive');
    const report = { state, outlook: outlookOn(state, counts), counts, namespaces, assumptions };
    const { output } = options;
    io.stdout.write(output === 'table' ? printStatus(report, styleOf(io)) : printData(output, dataOfStatus(report)));
    return EXIT.passed;
  },
});
