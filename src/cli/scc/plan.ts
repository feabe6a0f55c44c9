import { writeFile } from 'node:fs/promises';
import type { Store } from '../../cluster/store.ts';
import { failureReason } from '../../config/files.ts';
import { printYaml } from '../../config/yaml.ts';
import { errorCode } from '../../kube/error-code.ts';
import { printCount, quote } from '../../kube/text.ts';
import type { ClusterRole, Namespace, RoleBinding } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { readRules, ruleAllows, USE_SCC } from '../../policy/rbac/index.ts';
import {
  type AdmissionPlan,
  describeCustomScc,
  describeDenial,
  grantObjects,
  type NamespaceMode,
  planAdmission,
  planGrants,
  type PlannedGrant,
  type PlannedWorkload,
  SCC_MODE_LABEL,
  sccMode,
  summarizePlan,
  useRoleName,
  type WorkloadName,
} from '../../policy/scc/index.ts';
import { POD_SOURCES } from '../../views/workloads.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  inventoryOptions,
  listNamespaces,
  readInventory,
  selectedNamespace,
  selectionOptions,
  selectorOption,
} from '../inventory/inventory.ts';
import { planInput, SCC_INPUT_KINDS } from '../inventory/scc-input.ts';
import { findSettings, sccOptions, sccSettings } from '../inventory/settings.ts';
import { option, text } from '../options.ts';
import {
  assumptionBlocks,
  DATA_AND_TABLE,
  mapNamespaces,
  outputOption,
  printable,
  printChanges,
  printListing,
  type Style,
} from '../output/print.ts';
import { addFlags, getClusterFlags, kubectl, printCommand } from '../output/shell.ts';

interface Plan {
  /** Namespaces with workloads, sorted by name. */
  readonly namespaces: readonly (AdmissionPlan & NamespaceMode)[];
  readonly grants: readonly PlannedGrant[];
  /** The missing ClusterRoles of the grants, followed by a RoleBinding for each grant. */
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  readonly assumptions: readonly string[];
  /** The source of the settings. Absent for defaults. */
  readonly settings?: string | undefined;
}

/** Returns true if the SCC's ClusterRole exists and grants the SCC. */
export function hasUseRole(store: Store, scc: string): boolean {
  const rules = readRules(store.get('ClusterRole', useRoleName(scc))?.rules);
  return rules.some((rule) => ruleAllows(rule, { ...USE_SCC, name: scc }));
}

function planData({ namespaces, settings, assumptions, grants, bindings }: Plan): object {
  return {
    summary: summarizePlan(namespaces),
    settings,
    assumptions,
    namespaces: namespaces.map(({ name, mode, problem }) => ({ name, mode, problem })),
    workloads: namespaces.flatMap(({ name: namespace, mode, workloads }) =>
      workloads.map(({ result, ...workload }) => ({ namespace, mode, ...workload, ...result })),
    ),
    grants,
    bindings,
  };
}

/** Formats the decision and its reasons for each workload, followed by the bindings, the summary and the next step. */
function printPlan(plan: Plan, style: Style, target: Target): string[] {
  return [
    ...assumptionBlocks(plan.assumptions, plan.settings),
    ...plan.namespaces.map((namespace) => printNamespace(namespace, style)),
    ...(plan.grants.length === 0 ? [] : [printBindings(plan, style)]),
    `${style('bold', printPlanSummary(plan))}\n${printable(printNextStep(plan, target))}\n`,
  ];
}

function printNamespace({ name, mode, problem, workloads }: Plan['namespaces'][number], style: Style): string {
  const title = style('bold', printable(`${name} (${mode})`));
  if (mode === 'off') return `${title}\n  ${printCount(workloads.length, 'workload')}, not evaluated\n`;
  const width = Math.max(...workloads.map((workload) => printName(workload).length));
  const rows = workloads.flatMap((workload) => {
    const [result, ...details] = describeResult(workload);
    const padded = `  ${printName(workload).padEnd(width)}  `;
    return [
      padded + (workload.result.outcome === 'denied' ? style('red', result) : result),
      ...details.map((line) => `    ${style('dim', printable(line))}`),
    ];
  });
  return `${[title, ...(problem === undefined ? [] : [`  ${style('yellow', printable(problem))}`]), ...rows].join('\n')}\n`;
}

/** Returns the name of a workload, such as `Deployment web` or `Rollout web (spec.template)`. */
function printName({ kind, name, template = '' }: WorkloadName): string {
  return printable(`${kind} ${name}${template === '' ? '' : ` (${template})`}`);
}

/** Returns the result for a workload, followed by its details. */
function describeResult({ result, serviceAccount, denial }: PlannedWorkload): [string, ...string[]] {
  const missingAccount = denial === undefined ? [] : [denial];
  switch (result.outcome) {
    case 'off':
      return ['not evaluated'];
    case 'ignored':
      return ['ignored: Windows pod, or no pod template', ...missingAccount];
    case 'admitted':
      return [result.scc, ...printChanges(result.changes), ...missingAccount];
    case 'denied':
      return [
        result.grantable === undefined ? 'denied, and no binding would admit it' : 'denied',
        ...describeDenial(result, serviceAccount),
        ...missingAccount,
      ];
  }
}

function printBindings({ namespaces, grants }: Plan, style: Style): string {
  const { denied, grantable } = summarizePlan(namespaces);
  const title = style('bold', `Bindings that admit ${grantable} of the ${denied} denied workloads`);
  const lines = grants.flatMap((grant) => {
    const { namespace, serviceAccount, scc } = grant;
    const binding = `${namespace}: service account ${quote(serviceAccount)} to ClusterRole ${quote(useRoleName(scc))}`;
    return [`  ${printable(binding)}`, ...describeGrant(grant).map((line) => `    ${style('dim', printable(line))}`)];
  });
  return `${[title, ...lines].join('\n')}\n`;
}

/** Describes the workloads that a binding admits, and its other effects. */
function describeGrant({ serviceAccount, scc, workloads, moves }: PlannedGrant): readonly string[] {
  const byScc = Map.groupBy(moves, ({ from }) => from);
  return [
    `for ${enumerate(workloads)}`,
    ...Array.from(byScc, ([from, moved]) => `moves ${enumerate(moved)} from ${from} to ${scc}`),
    ...(serviceAccount === 'default'
      ? ['applies to all pods with the default service account, so give these workloads their own service accounts']
      : []),
  ];
}

const MAX_WORKLOADS = 5;

function enumerate(workloads: readonly WorkloadName[]): string {
  const shown = workloads.slice(0, MAX_WORKLOADS).map(({ kind, name }) => `${kind} ${name}`);
  const rest = workloads.length - MAX_WORKLOADS;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/**
 * Formats the number of workloads by result, such as `5 workloads: 3 admitted, 1 denied, 1 ignored, 2 not evaluated
 * (off)`.
 */
function printPlanSummary({ namespaces }: Plan): string {
  const { workloads, admitted, denied, ignored, off } = summarizePlan(namespaces);
  const parts = [
    `${admitted} admitted`,
    `${denied} denied`,
    ...(ignored === 0 ? [] : [`${ignored} ignored`]),
    ...(off === 0 ? [] : [`${off} not evaluated (off)`]),
  ];
  return `${printCount(workloads, 'workload')}: ${parts.join(', ')}`;
}

interface Target {
  /** File for the bindings, or `-` if they are printed. */
  readonly file: string | undefined;
  /** Flags that select the cluster in the printed commands. */
  readonly clusterFlags: readonly string[];
}

function printNextStep(plan: Plan, target: Target): string {
  const { workloads, denied, grantable } = summarizePlan(plan.namespaces);
  if (workloads === 0) return 'There are no workloads.';
  const custom = describeNeededSccs(plan).length;
  const isAccountMissing = plan.namespaces.some((namespace) =>
    namespace.workloads.some(({ denial }) => denial !== undefined),
  );
  const steps = [
    ...(isAccountMissing ? ['create the missing service accounts'] : []),
    ...(custom === 0
      ? []
      : [`create the custom ${custom === 1 ? 'SCC' : 'SCCs'} with ${addFlags(CREATE, target.clusterFlags)}`]),
    ...(grantable === 0 ? [] : [printBindingStep(target)]),
    ...(denied === grantable + custom ? [] : ['change the workloads that bindings cannot fix']),
  ];
  return steps.length === 0 ? printEnforceStep(plan) : `Next: ${steps.join('; ')}; then plan again.`;
}

const CREATE = 'portcullis scc create NAME TYPE/NAME';

function printBindingStep({ file, clusterFlags }: Target): string {
  if (file === undefined) return 'write the bindings with --bindings FILE, review and apply them';
  if (file === '-') return 'review and apply the bindings';
  return `review ${file}, then run ${printCommand(kubectl('apply', '-f', file), clusterFlags)}`;
}

const MAX_NAMESPACES = 3;

function printEnforceStep({ namespaces }: Plan): string {
  const reporting = namespaces.filter(({ mode }) => mode === 'report').map(({ name }) => name);
  if (reporting.length === 0) return 'Enforcement denies none of the workloads.';
  const rest = reporting.length - MAX_NAMESPACES;
  const names = [...reporting.slice(0, MAX_NAMESPACES), ...(rest > 0 ? [`${rest} more`] : [])].join(', ');
  return `Next: set ${SCC_MODE_LABEL}=enforce on ${names}. This would not deny any workload.`;
}

/** Returns a sentence for each denied workload that needs a custom SCC. */
function describeNeededSccs({ namespaces }: Plan): readonly string[] {
  return namespaces.flatMap(({ name: namespace, workloads }) =>
    workloads.flatMap(({ kind, name, result }) => {
      if (result.outcome !== 'denied' || result.suggestedScc === undefined) return [];
      const { grantable, isLastResort, suggestedScc } = result;
      if (grantable !== undefined && !isLastResort) return [];
      const only = grantable && ` Of the existing SCCs, only ${grantable}, which allows everything, would admit it.`;
      return `${namespace}: ${kind} ${name} needs ${describeCustomScc(suggestedScc)}.${only ?? ''}`;
    }),
  );
}

/** Formats the bindings as manifests, with their effects and the required custom SCCs as comments. */
function printBindingManifests(plan: Plan): string {
  const comment = (text: string): string => `# ${printable(text)}\n`;
  const custom = describeNeededSccs(plan).map(comment);
  const roles = plan.bindings.length - plan.grants.length;
  const manifests = plan.bindings.map((binding, index) => {
    const grant = plan.grants[index - roles];
    return `${grant ? describeGrant(grant).map(comment).join('') : ''}${printYaml([binding])}`;
  });
  if (manifests.length === 0 && custom.length === 0) return '# No grants are needed.\n';
  return `${custom.join('')}${manifests.join('---\n')}`;
}

/**
 * Writes the bindings to a file.
 * @throws {UserError} if the file cannot be written
 */
async function writeBindings(file: string, plan: Plan): Promise<void> {
  try {
    await writeFile(file, printBindingManifests(plan));
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'the directory does not exist' : failureReason(error);
    throw new UserError(`cannot write ${file}: ${reason}`, { cause: error });
  }
}

const DETAILS = `
Prints the SecurityContextConstraints (SCC) that would admit the pods of each workload, and the fields that it
would change, or the reasons why no SCC admits them. The plan includes pods without a controller, for which the
command evaluates only the grants of their service account.

For denied workloads, --bindings writes bindings that would admit them. Each binding permits the service account
to use the least permissive SCC that allows the pods. Review the file before you apply it.

The exit code is 1 if workloads are denied.

Examples:
  portcullis scc plan
  portcullis scc plan -n shop --bindings bindings.yaml
  helm template shop ./chart | portcullis scc plan -f - -n shop
  portcullis scc plan -f deploy/ -o json
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    ...selectorOption,
    bindings: option('FILE', text, undefined, {
      help: 'File for the bindings that admit denied workloads, or - to print the bindings instead of the plan',
    }),
    output: outputOption([...DATA_AND_TABLE, 'wide', 'name']),
    ...sccOptions,
  },
  async run(options, _operands, io) {
    const namespace = selectedNamespace(options);
    const { bindings: file, output } = options;
    if (file === '-' && output !== 'table') {
      throw new UserError(
        `--bindings=- prints the bindings instead of the plan: remove --output=${output}, or specify a file`,
      );
    }
    const kinds = [...SCC_INPUT_KINDS, ...POD_SOURCES];
    const { store, assumptions, customSources } = await readInventory(options, io, {
      kinds,
      only: namespace,
      gaps: 'fill',
      workloadResources: async (store) =>
        (await findSettings({ config: options.config, store })).settings.workloadResources,
    });
    const settings = await sccSettings(options, store);
    const selected = listNamespaces(store, namespace);
    const inputOf = (namespace: Namespace) => planInput(namespace, { store, customSources }, settings);
    const planSelected = (namespace: Namespace) => {
      const input = inputOf(namespace);
      const sources = input.sources.filter(({ object }) => options.selector(object.metadata?.labels));
      return sources.length === 0 ? [] : [{ ...sccMode(namespace, settings), ...planAdmission({ ...input, sources }) }];
    };
    const namespaces = (await mapNamespaces(selected, planSelected, { verb: 'Planning', io })).flat();
    const grants = namespaces.flatMap((planned) => planGrants(planned, inputOf(findNamespace(store, planned.name))));
    const plan: Plan = {
      namespaces,
      grants,
      bindings: grantObjects(grants, { hasRole: (scc) => hasUseRole(store, scc) }),
      settings: settings.source,
      assumptions: [...assumptions, ...settings.assumptions],
    };
    const target = { file, clusterFlags: getClusterFlags(options) };
    if (file !== undefined && file !== '-') await writeBindings(file, plan);
    if (file === '-') {
      io.stdout.write(printBindingManifests(plan));
      io.stderr.write(`${printPlanSummary(plan)}\n${printNextStep(plan, target)}\n`);
    } else {
      const list = { data: planData(plan), objects: namespaces.flatMap(({ workloads }) => workloads) };
      printListing(io, output, list, (style) => printPlan(plan, style, target));
    }
    return summarizePlan(namespaces).denied === 0 ? EXIT.passed : EXIT.violations;
  },
});
