import { UserError } from '../../config/user-error.ts';
import type { Kind } from '../../kube/types.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { RBAC_KINDS } from '../../policy/rbac/types.ts';
import { defineCommand, type Io } from '../command.ts';
import { inventoryOptions, selectedNamespace, selectionOptions } from '../inventory/options.ts';
import { readInventory } from '../inventory/inventory.ts';
import { option } from '../options.ts';
import { makePlan } from '../plan/make-plan.ts';
import { dataOfPlan } from '../plan/print-data.ts';
import { printPlan } from '../plan/print-table.ts';
import { exitCodeOfPlan, printNextStep, printPlanSummary } from '../plan/summary.ts';
import type { Plan } from '../plan/types.ts';
import { printBindingManifests, writeBindings } from '../plan/write-bindings.ts';
import { DATA_AND_TABLE, outputOption } from '../report/output-option.ts';
import { printData } from '../report/print-data.ts';
import { styleOf } from '../report/style.ts';
import { foretoldSettingsOf, sccOptions } from '../scc-options.ts';
import { text } from '../values.ts';

const DETAILS = `
Says of every workload, and of every pod that no workload made, which SecurityContextConstraints
(SCC) its pods would get and what would change in them, or why none admits them. Pods are judged as
their controller would create them; a pod that nobody made, by its service account alone.

For workloads that are refused, --bindings writes what would admit them: the least permissive SCC
that they fit, granted to their service account in their namespace. Review it before you apply it.
What only privileged would admit, though no container is privileged, needs an SCC of its own.

Exit codes:
  0  everything is admitted, where SCCs count
  1  something is refused
  2  wrong usage, or what cannot be read

Examples:
  portcullis scc plan
  portcullis scc plan -n shop --bindings bindings.yaml
  helm template shop ./chart | portcullis scc plan -f - -n shop
  portcullis scc plan -f deploy/ -o json
`;

const KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
];

/** Says what security context constraints would do to a cluster, before they are enforced. */
export const sccPlan = defineCommand({
  name: 'scc plan',
  summary: 'Plan what security context constraints would admit, change and refuse',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    bindings: option('FILE', text, undefined, {
      help: 'Write the bindings that would help to this file; - writes them instead of the plan',
    }),
    output: outputOption(DATA_AND_TABLE),
    ...sccOptions,
  },
  async run(options, _operands, io) {
    const namespace = selectedNamespace(options);
    const { bindings: file, output } = options;
    if (file === '-' && output !== 'table') {
      throw new UserError(
        `--bindings=- writes the bindings instead of the plan: leave out --output=${output}, or name a file`,
      );
    }
    const inventory = await readInventory(options, io, { kinds: KINDS, only: namespace, gaps: 'fill' });
    const plan = await makePlan(inventory, { settings: foretoldSettingsOf(options), namespace }, io);
    if (file === '-') writeBindingsOnly(plan, io);
    else {
      if (file !== undefined) await writeBindings(file, plan);
      if (output === 'table') io.stdout.write(printPlan(plan, { style: styleOf(io), bindingsFile: file }));
      else io.stdout.write(printData(output, dataOfPlan(plan)));
    }
    return exitCodeOfPlan(plan);
  },
});

/** The summary goes where it does not get among the manifests. */
function writeBindingsOnly(plan: Plan, { stdout, stderr }: Io): void {
  stdout.write(printBindingManifests(plan));
  stderr.write(`${printPlanSummary(plan)}\n${printNextStep(plan, '-')}\n`);
}
