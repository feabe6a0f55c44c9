import { UserError } from '../../config/files.ts';
import { type EnforcementMode, isEnforcementMode } from '../../kube/psa-enforcement-config.ts';
import { objectName } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import { getSyncState } from '../../policy/rollout/label-sync.ts';
import { countNamespaces } from '../../policy/rollout/plan.ts';
import { ROLLOUT_PHASES, type RolloutPhase } from '../../policy/rollout/settings.ts';
import { simulateEnforcement, type Simulation } from '../../policy/rollout/simulation.ts';
import { defineCommand, EXIT } from '../command.ts';
import { boolean, oneOf, option } from '../options.ts';
import { assumptionBlocks, printable, printReport, type Style } from '../output/print.ts';
import { gatherRollout, type RolloutFacts, rolloutOptions } from './facts.ts';
import { namespaceSections, printNamespaceCounts } from './namespace-table.ts';
import { planNamespaces } from './namespaces.ts';

const DETAILS = `
Simulates a request for an enforcement mode: the decision, the changes of labels and of the default, and
the workloads that would be denied when their pods are created again. The command changes nothing.

Exit codes:
  0  no workload is or would be denied
  1  some workloads are or would be denied
  2  wrong usage, or the input cannot be read

Examples:
  portcullis rollout simulate --mode Restricted
  portcullis rollout simulate --mode Legacy
  portcullis rollout simulate --mode '' --phase Enforce -f exported/ --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    mode: option('MODE', enforcementMode, 'Restricted', {
      help: "Requested spec.enforcementMode: Restricted, Legacy, or '' to let an evaluation decide",
    }),
    phase: option('PHASE', oneOf<RolloutPhase>(ROLLOUT_PHASES), 'Enforce', {
      help: `Simulated phase: ${ROLLOUT_PHASES.join(', ')}`,
    }),
    'feature-gate': option('BOOL', boolean, undefined, {
      help: 'State of the OpenShiftPodSecurityAdmission feature gate. Default: its current state, or true if it is not set',
    }),
  },
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const namespaces = await planNamespaces(facts, io);
    const { mode, phase, output } = options;
    const { assumptions, settingsSource: settings } = facts;
    const hasGate = facts.store.get('FeatureGate', 'cluster') !== undefined;
    const gate = options['feature-gate'] ?? (hasGate ? facts.state.gate : true);
    const simulation = simulateEnforcement(
      { mode, phase, gate },
      { state: facts.state, namespaces, ...findLabeled(facts) },
    );
    printReport(io, output, { ...simulation, settings, assumptions }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      printEvents(simulation),
      ...namespaceSections(simulation.denying, { output }, style),
      printOutcome(simulation, style),
    ]);
    return simulation.denying.length === 0 ? EXIT.passed : EXIT.violations;
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

function printOutcome({ denying, enforce }: Simulation, style: Style): string {
  if (enforce === 'privileged' && denying.length === 0)
    return `${style('bold', 'No workload would be denied: enforcement is off')}\n`;
  return `${style('bold', printNamespaceCounts(countNamespaces(denying)))}\n`;
}

/** Returns the namespaces whose labels the syncer manages, and those with a label that the syncer set. */
function findLabeled({ store, management }: RolloutFacts) {
  const states = store.list('Namespace').map((namespace) => {
    return { name: objectName(namespace), ...getSyncState(namespace, management) };
  });
  const named = (isNamed: (one: (typeof states)[number]) => boolean) => states.filter(isNamed).map(({ name }) => name);
  return {
    managed: new Set(named(({ isManaged }) => isManaged)),
    released: named(({ ownsEnforceLabel }) => ownsEnforceLabel),
  };
}
