/** Explains the effective Pod Security policies of a namespace and their sources. */
import { formatFieldErrors } from '../../kube/field-error.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import type { Namespace } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import {
  findUnusedKeys,
  isSamePolicy,
  type Labels,
  type Mode,
  MODES,
  type Policies,
  printEvaluatedAs,
  printPolicy,
  resolvePolicies,
  setsMode,
} from '../../policy/psa/index.ts';
import { getSyncState } from '../../policy/rollout/index.ts';
import { sccMode } from '../../policy/scc/index.ts';
import { findNamespace } from '../inventory/inventory.ts';
import type { RolloutFacts } from '../inventory/rollout.ts';
import { printable, printTable, type Style } from '../output/print.ts';

/** Returns the effective policy of each mode with its source, the exemptions, the SCC mode and the exceptions. */
export function explainNamespace(name: string, facts: RolloutFacts) {
  const { store, podSecurity, management } = facts;
  const namespace = findNamespace(store, name);
  const { labels } = namespace.metadata ?? {};
  const { configuration, defaults, exemptions } = podSecurity;
  const policies = resolvePolicies(labels, defaults);
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const { usernames, runtimeClasses } = configuration.exemptions;
  return {
    name,
    /** True if no pods in the namespace are evaluated. */
    exempt: exemptions.namespace(name),
    policies: MODES.map((mode) => ({
      mode,
      ...policies[mode],
      source: policySource(mode, labels, { policies, defaults }),
      setBy: owners
        .filter((owner) => modeLabels(mode).some((label) => owner.labels.has(label)))
        .map(({ manager, operation, time }) => ({ manager, operation, ...(time === '' ? {} : { time }) })),
    })),
    errors: policies.errors.map((error) => formatFieldErrors([error])),
    /** Labels and annotations that look like Pod Security labels but have no effect. */
    unused: findUnusedKeys(namespace.metadata, 'Namespace'),
    /** Exemptions that apply in all namespaces. */
    exemptions: { usernames, runtimeClasses },
    labelSync: labelSyncState(namespace, facts),
    sccMode: sccMode(namespace, management.scc).mode,
    exceptions: facts.listExceptions(name),
  };
}

type ExplainedNamespace = ReturnType<typeof explainNamespace>;

function labelSyncState(namespace: Namespace, { state, management }: RolloutFacts): 'off' | 'managed' | 'unmanaged' {
  if (state.phase === 'Disabled') return 'off';
  return getSyncState(namespace, management).isManaged ? 'managed' : 'unmanaged';
}

function modeLabels(mode: Mode): readonly string[] {
  return [POD_SECURITY_LABELS[mode], POD_SECURITY_LABELS[`${mode}Version`]];
}

/** `enforce` for a warn level without a label, because it is at least as strict as the enforced level. */
function policySource(
  mode: Mode,
  labels: Labels | undefined,
  { policies, defaults }: { readonly policies: Policies; readonly defaults: Policies },
): 'label' | 'default' | 'enforce' {
  if (setsMode(labels, mode)) return 'label';
  return isSamePolicy(policies[mode], defaults[mode]) ? 'default' : 'enforce';
}

const LABEL_SYNC: Readonly<Record<ExplainedNamespace['labelSync'], string>> = {
  off: 'off',
  managed: 'Portcullis manages the labels',
  unmanaged: 'Portcullis does not manage the labels',
};

const LAYOUT = { indent: '  ', gap: '  ' };

export function printNamespace(namespace: ExplainedNamespace, style: Style): string {
  const { name, exempt, policies, errors, unused, exemptions, labelSync, sccMode: mode, exceptions } = namespace;
  const enforced = policies.find((policy) => policy.mode === 'enforce');
  const effect = exempt
    ? 'exempt from Pod Security'
    : `enforces ${enforced ? printPolicy(enforced) + printEvaluatedAs(enforced) : ''}`;
  const rows = policies.map((policy) => [
    policy.mode,
    printPolicy(policy),
    policy.source,
    policy.setBy
      .map(({ manager, operation, time = '' }) => `${manager} (${[operation, time].filter(Boolean).join(', ')})`)
      .join(', '),
  ]);
  const facts = [
    ...errors.map((error) => ['Invalid', error]),
    ...unused.map(({ field, key, fix }) => ['No effect', `metadata.${field}[${key}]: ${fix}`]),
    ...(exemptions.usernames.length === 0 ? [] : [['Exempt users', exemptions.usernames.join(', ')]]),
    ...(exemptions.runtimeClasses.length === 0
      ? []
      : [['Exempt runtime classes', exemptions.runtimeClasses.join(', ')]]),
    ['Label sync', LABEL_SYNC[labelSync]],
    ['SCC mode', mode],
  ];
  return [
    style('bold', printable(`Namespace ${name}: ${effect}`)),
    printTable([['MODE', 'POLICY', 'SOURCE', 'SET BY'], ...rows], LAYOUT),
    printTable(facts, LAYOUT),
    ...(exceptions.length === 0 ? [] : [printExceptions(exceptions)]),
  ].join('\n');
}

function printExceptions(exceptions: ExplainedNamespace['exceptions']): string {
  const rows = exceptions.map((exception) => [
    exception.name,
    exception.state,
    exception.expiresAt,
    exception.approvedBy ?? '-',
    String(exception.uses),
  ]);
  const problems = exceptions.flatMap(({ name, problem }) =>
    problem === undefined ? [] : [`  ${printable(`${name}: ${problem}`)}\n`],
  );
  const table = printTable([['EXCEPTION', 'STATE', 'UNTIL', 'APPROVED BY', 'USES'], ...rows], LAYOUT);
  return `${table}${problems.join('')}`;
}
