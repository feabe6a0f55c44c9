import { UserError } from '../../config/user-error.ts';
import { isEnforcementMode, type EnforcementMode } from '../../kube/psa-enforcement-config.ts';
import { quote } from '../../kube/quote.ts';
import { ROLLOUT_PHASES, type RolloutPhase } from '../../policy/rollout/enforcement.ts';
import { defineCommand, EXIT } from '../command.ts';
import { assumptionBlocks } from '../inventory/print-assumptions.ts';
import { option } from '../options.ts';
import { printData } from '../report/print-data.ts';
import { styleOf, type Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import { gatherRollout } from '../rollout/gather.ts';
import { rolloutOptions } from '../rollout/options.ts';
import { countNamespaces, planNamespaces } from '../rollout/plan-namespaces.ts';
import { namespaceBlocks, printCounts } from '../rollout/print-namespaces.ts';
import { simulate, type Simulation } from '../rollout/simulate.ts';
import { boolean, oneOf } from '../values.ts';

const DETAILS = `
Plays through what would happen if somebody asked for a mode of enforcement: what would be decided, which
labels would come or go, what would become of the default, in this order, and what would be refused once
its pods are created again. Nothing is written.

Exit codes:
  0  nothing would be refused
  1  something would be refused
  2  wrong usage, or what cannot be read

Examples:
  portcullis rollout simulate --mode Restricted
  portcullis rollout simulate --mode Legacy
  portcullis rollout simulate --mode '' --phase Enforce -f exported/ --scc-mode enforce
`;

/** Tells what a mode would do, without asking for it. */
export const rolloutSimulate = defineCommand({
  name: 'rollout simulate',
  summary: 'Tell what a mode of enforcement would do, without doing it',
  details: DETAILS,
  options: {
    ...rolloutOptions,
    mode: option('MODE', enforcementMode, 'Restricted', {
      help: "What to ask for, as spec.enforcementMode: Restricted, Legacy, or '' to have it decided",
    }),
    phase: option('PHASE', oneOf<RolloutPhase>(ROLLOUT_PHASES), 'Enforce', {
      help: `In which phase: ${ROLLOUT_PHASES.join(', ')}`,
    }),
    'feature-gate': option('BOOL', boolean, undefined, {
      help: 'Whether the feature OpenShiftPodSecurityAdmission is on; absent, as it is, and on where no FeatureGate is',
    }),
  },
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const namespaces = await planNamespaces(facts, io);
    const counts = countNamespaces(namespaces);
    const { mode, phase, output } = options;
    const hasGate = facts.store.get('FeatureGate', 'cluster') !== undefined;
    const gate = options['feature-gate'] ?? (hasGate ? facts.state.gate : true);
    const simulation = simulate({ mode, phase, gate }, facts, { namespaces, counts });
    const { assumptions } = facts;
    if (output === 'table') {
      const style = styleOf(io);
      const blocks = [
        ...assumptionBlocks(assumptions),
        printEvents(simulation),
        ...namespaceBlocks(simulation.refusing, style),
        printOutcome(simulation, style),
      ];
      io.stdout.write(blocks.join('\n'));
    } else io.stdout.write(printData(output, { ...simulation, summary: counts, assumptions }));
    return simulation.refusing.length === 0 ? EXIT.passed : EXIT.violations;
  },
});

function enforcementMode(value: string): EnforcementMode {
  if (isEnforcementMode(value)) return value;
  throw new UserError("must be one of Restricted, Legacy, ''");
}

function printEvents({ mode, phase, events }: Simulation): string {
  const title = `With spec.enforcementMode ${quote(mode)} in phase ${phase}:`;
  return [title, ...events.map((event, index) => `  ${index + 1}. ${printable(event)}`), ''].join('\n');
}

function printOutcome({ refusing, enforce }: Simulation, style: Style): string {
  if (enforce === 'privileged') return `${style('bold', 'Nothing would be refused: nothing is enforced')}\n`;
  return `${style('bold', printCounts(countNamespaces(refusing)))}\n`;
}
