import { manifestName, manifestNamespace } from '../../config/objects.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import type { UserInfo, Namespace } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import {
  listNewerVersions,
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
import type { Version } from '../../policy/pss/index.ts';
import { getSyncState } from '../../policy/rollout/index.ts';
import { sccMode } from '../../policy/scc/index.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { findNamespace } from '../inventory/inventory.ts';
import {
  APPROVED_EXCEPTIONS,
  findExceptions,
  gatherRollout,
  rolloutOptions,
  type RolloutFacts,
} from '../inventory/rollout.ts';
import { expectedSettings, findSettings, sccReviewOptions } from '../inventory/settings.ts';
import { readWorkloads, splitOperands, type Reference, listWorkloads } from '../inventory/workloads.ts';
import { list, option, text, UsageError, type Values } from '../options.ts';
import { assumptionBlocks, printReport, printable, printTable, type Style } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';
import { type Explanation, explainWorkload } from './workload.ts';

const DETAILS = `
Explains workloads and pods, such as deployment/web, and namespaces, such as namespace/shop, in the cluster.
With -f or paths, it explains these resources in the manifests, or all pods and workloads in them.

For a namespace, it prints the effective Pod Security levels with their sources, the exemptions, and the
PodSecurityExceptions.

For pods and workloads, it prints whether the pods would be created and, if not, which policies deny them:
Pod Security with the effective level of the namespace, SCC admission in its mode, or both. For each SCC
(SecurityContextConstraints), in evaluation order, it prints the subjects that may use it, whether it allows the
pod, and the changes to the pod. Without a server, it explains the decision of the policies in the API server.

Without a cluster or with --offline, roles, bindings, SCCs and namespaces come from the manifests. If the
manifests contain no SCCs, the standard SCCs apply.

A finished Job or pod creates no more pods, so no policy denies it. The exit code is 1 if a pod is denied.

Examples:
  portcullis explain namespace/shop
  portcullis explain deployment/web -n shop
  portcullis explain pod.yaml --as alice --as-group developers
  portcullis explain -f deployment.yaml,cluster-dump/ --offline -o json
  helm template shop ./chart | portcullis explain -f - --kubeconfig admin.conf
`;

/** Kinds on which the levels of a namespace depend. */
const NAMESPACE_KINDS: readonly Kind[] = ['Namespace', 'PSAEnforcementConfig', 'FeatureGate', 'Deployment'];

/** Explains the admission decisions on the pods of workloads. */
async function explainWorkloads(references: readonly Reference[], options: Values<typeof explainOptions>, io: Io) {
  const { as: user, 'as-group': groups, config, 'scc-mode': mode, 'installation-namespace': installation } = options;
  const { objects, subjects, inventory } = await readWorkloads(references, options, io);
  const { store, namespace, source } = inventory;
  const found = await findSettings({ config, store, namespace: installation });
  const { settings, isWithoutServer } = found;
  const scc = expectedSettings(found, mode);
  const areSccsOff = isWithoutServer || scc.mode === 'off';
  const exceptions = findExceptions(store, settings.exceptions, source, Date.now());
  const context = {
    store,
    settings,
    installation,
    ...exceptions,
    ...(isWithoutServer ? {} : { scc }),
    creator: user === undefined ? (inventory.user ?? ANY_USER) : impersonatedUser(user, groups),
    isCreatorAssumed: user === undefined,
    files: options.filename,
    clusterFlags: getClusterFlags(options),
    // A missing service account in the manifests may be created together with the pods that use it.
    findAccount: (name: string, scope: string) =>
      store.get('ServiceAccount', name, scope) ??
      objects.find(
        ({ kind, value }) =>
          kind === 'ServiceAccount' &&
          manifestName(value) === name &&
          (manifestNamespace(value) ?? namespace) === scope,
      )?.value,
  };
  const results = listWorkloads(subjects, namespace)
    .map((workload) => explainWorkload(workload, context))
    .filter((namespace) => namespace !== undefined);
  if (results.length === 0) throw new UserError('no pods or workloads in the manifests');
  const isAssumed = results.some(({ data }) => exceptions.exceptions(data.namespace).rules.length > 0);
  const assumptions = [
    ...inventory.assumptions.filter((text) => !areSccsOff || !inventory.sccAssumptions.includes(text)),
    ...describeVersion(settings.emulationVersion ?? store.emulationVersion),
    ...(isWithoutServer ? [] : scc.assumptions),
    ...(source === 'manifests' && isAssumed ? [APPROVED_EXCEPTIONS] : []),
  ];
  return { results, assumptions, settings: scc.source };
}

async function explainNamespaces(names: readonly string[], options: Values<typeof explainOptions>, io: Io) {
  if (names.length === 0) return { namespaces: [], assumptions: [], settings: undefined };
  const only = names.length === 1 ? names[0] : undefined;
  const facts = await gatherRollout(options, io, new Date(), { kinds: NAMESPACE_KINDS, only });
  const { settingsSource: settings } = facts;
  const assumptions = [...facts.assumptions, ...describeVersion(facts.store.emulationVersion)];
  return { namespaces: names.map((name) => explainNamespace(name, facts)), assumptions, settings };
}

/** Returns a note if this program does not know the cluster's version. */
function describeVersion(version: Version = 'latest'): readonly string[] {
  return listNewerVersions([{ level: 'restricted', version }]);
}

const ANY_USER: UserInfo = { groups: ['system:authenticated'] };

/** Formats the number of results, such as `2 admitted, 1 denied, 1 finished`. */
function printSummary(results: readonly Explanation[]): string {
  const denied = results.filter(({ data }) => !data.allowed).length;
  const finished = results.filter(({ data }) => data.finished).length;
  const admitted = results.length - denied - finished;
  return `${admitted} admitted, ${denied} denied${finished === 0 ? '' : `, ${finished} finished`}`;
}

const explainOptions = {
  as: option('USER', text, undefined, { help: 'Creator of pods without a controller. Default: the kubeconfig user' }),
  'as-group': list('GROUP', text, { help: 'Groups of the creator, in addition to system:authenticated' }),
  ...sccReviewOptions,
  'installation-namespace': rolloutOptions['installation-namespace'],
};

export const command = defineCommand({
  operands: '[type/name|path...]',
  details: DETAILS,
  options: explainOptions,
  async run(values, operands, io) {
    const { references, paths } = splitOperands(operands);
    const options = { ...values, filename: [...values.filename, ...paths] };
    const { as: user, 'as-group': groups, output, filename } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group requires --as');
    if (filename.length + references.length === 0) {
      throw new UsageError('a resource, such as deployment/web or namespace/shop, or -f is required');
    }
    const names = references.filter(({ kind }) => kind === 'Namespace').map(({ name }) => name);
    const workloads = references.filter(({ kind }) => kind !== 'Namespace');
    const hasWorkloads = workloads.length > 0 || names.length === 0;
    const { namespaces, ...read } = await explainNamespaces(names, options, io);
    const nothing = { results: [], assumptions: [], settings: undefined };
    const explained = hasWorkloads ? await explainWorkloads(workloads, options, io) : nothing;
    const { results } = explained;
    const settings = read.settings ?? explained.settings;
    const assumptions = [...new Set([...read.assumptions, ...explained.assumptions])];
    const data = {
      ...(hasWorkloads ? { objects: results.map(({ data }) => data) } : {}),
      ...(names.length === 0 ? {} : { namespaces }),
      settings,
      assumptions,
    };
    printReport(io, output, data, (style) => [
      ...namespaces.map((namespace) => printNamespace(namespace, style)),
      ...results.map(({ print }) => print(style)),
      ...(results.length > 1 ? [`${style('bold', printSummary(results))}\n`] : []),
      ...assumptionBlocks(assumptions, settings),
    ]);
    return results.some(({ data }) => !data.allowed) ? EXIT.violations : EXIT.passed;
  },
});

/** Returns the effective policy of each mode with its source, the exemptions, the SCC mode and the exceptions. */
function explainNamespace(name: string, facts: RolloutFacts) {
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
    /** Absent if SCC admission is off in the cluster, for example without the SCC feature. */
    sccMode: management.scc.mode === 'off' ? undefined : sccMode(namespace, management.scc).mode,
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

/**
 * Returns the source of a mode's policy. For a warn level without a label, the source may be `enforce`, because that
 * level is at least as strict as the enforced level.
 */
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

function printNamespace(namespace: ExplainedNamespace, style: Style): string {
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
    ...(mode === undefined ? [] : [['SCC mode', mode]]),
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
