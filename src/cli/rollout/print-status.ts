import { ENFORCEMENT_GATE } from '../../policy/rollout/enforcement.ts';
import { assumptionBlocks } from '../inventory/print-assumptions.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import type { Outlook } from './next-steps.ts';
import { namespaceBlocks, printCounts } from './print-namespaces.ts';
import type { NamespaceCounts, PlannedNamespace, RolloutState } from './types.ts';

/** Where the cluster stands, and why. */
export interface StatusReport {
  readonly state: RolloutState;
  readonly outlook: Outlook;
  readonly counts: NamespaceCounts;
  readonly namespaces: readonly PlannedNamespace[];
  readonly assumptions: readonly string[];
}

/** For people: where the cluster stands, what is in the way, and what to do next. */
export function printStatus(report: StatusReport, style: Style): string {
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
export function dataOfStatus({ state, outlook, counts, namespaces, assumptions }: StatusReport): unknown {
  return { ...state, ...outlook, summary: counts, namespaces, assumptions };
}
