import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { UserError } from '../../config/files.ts';
import { manifestName, manifestNamespace } from '../../config/objects.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import { createPod, type PodCreator } from '../../kube/controller-pod.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { Kind, Namespace, PodLike, ServiceAccount, UserInfo } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import {
  isSamePolicy,
  MODES,
  printPolicy,
  resolvePolicies,
  setsMode,
  type Labels,
  type Mode,
  type Policies,
} from '../../policy/psa/policy.ts';
import { printFieldPath } from '../../policy/pod/templates.ts';
import { evaluatePod, LEVELS, type Level } from '../../policy/pss/index.ts';
import { getSyncState } from '../../policy/rollout/label-sync.ts';
import { findChanges } from '../../policy/scc/advice/changes.ts';
import { explainScc } from '../../policy/scc/advice/explain.ts';
import { sccMode, type SccMode } from '../../policy/scc/mode.ts';
import { createRangePreview } from '../../policy/uid-range/allocation.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { explainPolicies, printPolicyDecision } from './policies.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { findCustomSources } from '../inventory/custom-resources.ts';
import { parseReference, readWorkloads, type Reference, type Subject } from '../inventory/references.ts';
import { list, option, text, UsageError, type Values } from '../options.ts';
import { assumptionBlocks, printable, printChanges, printReport, printTable, type Style } from '../output/print.ts';
import { gatherRollout, rolloutOptions, type RolloutFacts } from '../rollout/facts.ts';
import { sccInput } from '../scc/input.ts';
import { expectedMode, findSettings, sccSettings, sccReviewOptions, type ExpectedSettings } from '../scc/options.ts';

/** The kinds that the levels of a namespace depend on. */
const NAMESPACE_KINDS: readonly Kind[] = ['Namespace', 'PSAEnforcementConfig', 'FeatureGate', 'Deployment'];

/** Returns the effective policy of each mode with its source, the exemptions, and the SCC mode. */
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
    /** True if no pod of the namespace is evaluated. */
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
    /** Exempt in all namespaces. */
    exemptions: { usernames, runtimeClasses },
    labelSync: labelSyncState(namespace, facts),
    sccMode: sccMode(namespace, management.scc).mode,
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

/** `enforce`: without a label, the level of warn is at least the enforced one. */
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

function printNamespace(namespace: ExplainedNamespace, style: Style): string {
  const { name, exempt, policies, errors, exemptions, labelSync, sccMode: mode } = namespace;
  const enforced = policies.find((one) => one.mode === 'enforce');
  const effect = exempt ? 'exempt from Pod Security' : `enforces ${enforced ? printPolicy(enforced) : ''}`;
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
    ...(exemptions.usernames.length === 0 ? [] : [['Exempt users', exemptions.usernames.join(', ')]]),
    ...(exemptions.runtimeClasses.length === 0
      ? []
      : [['Exempt runtime classes', exemptions.runtimeClasses.join(', ')]]),
    ['Label sync', LABEL_SYNC[labelSync]],
    ['SCC mode', mode],
  ];
  const layout = { indent: '  ', gap: '  ' };
  return [
    style('bold', printable(`Namespace ${name}: ${effect}`)),
    printTable([['MODE', 'POLICY', 'SOURCE', 'SET BY'], ...rows], layout),
    printTable(facts, layout),
  ].join('\n');
}

/** `off`: SCC admission is off in the namespace. `ignored`: the pod is exempt, for example a Windows pod. */
type Outcome = 'admitted' | 'denied' | 'ignored' | 'off';

const ANY_USER: UserInfo = { groups: ['system:authenticated'] };

interface ExplainContext {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  readonly previewRanges: ReturnType<typeof createRangePreview>;
  /** The namespace of objects without one. */
  readonly namespace: string;
  /** The creator of pods without a controller. */
  readonly creator: UserInfo;
  findAccount(name: string, namespace: string): ServiceAccount | undefined;
}

/** An object that creates pods, with its name and namespace. */
interface SubjectSource {
  readonly source: PodCreator;
  readonly name: string;
  readonly namespace: string;
}

/** Lists the workloads, the pods, and the pod templates of custom resources. */
function listSources(subjects: readonly Subject[], fallback: string): readonly SubjectSource[] {
  return subjects.flatMap((subject): readonly SubjectSource[] => {
    const { apiVersion, value } = subject;
    const name = manifestName(value);
    const kind = POD_SOURCES.find((one) => one === subject.kind && getApiVersion(one) === apiVersion);
    if (kind) return [{ source: { kind, object: value }, name, namespace: manifestNamespace(value) ?? fallback }];
    return findCustomSources([subject], fallback).customSources.map((source) => ({
      source,
      name,
      namespace: source.object.metadata?.namespace ?? fallback,
    }));
  });
}

/**
 * Explains the decision about the pods of an object; returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
function explainSource({ source, name, namespace: namespaceName }: SubjectSource, context: ExplainContext) {
  const { store, settings, creator, previewRanges } = context;
  const findAccount = (account: string) => context.findAccount(account, namespaceName);
  const created = createPod(source, { namespace: namespaceName, creator, findAccount });
  if (created === undefined) return undefined;
  const { pod, requester, serviceAccount, denial } = created;
  const namespace = findNamespace(store, namespaceName);
  const mode = expectedMode(namespace, settings);
  const isReported = mode.mode === 'report';
  const { decision, sccs, ...explanation } = explainScc({
    ...sccInput(store, settings),
    operation: 'CREATE',
    object: pod,
    namespace: isReported ? previewRanges(namespace, store.list('Namespace')) : namespace,
    userInfo: requester,
    isReported,
  });
  const message = denial ?? (decision.allowed ? undefined : decision.status.message);
  const explained = {
    kind: source.kind,
    name,
    /** The path of the pod template of a custom resource. */
    template: source.template && printFieldPath(source.template),
    namespace: namespaceName,
    createdBy: requester.username ?? 'any authenticated user (set --as)',
    /** Absent if the pod has none. */
    serviceAccount,
    ...explanation,
    level: decision.allowed ? strictestLevel(decision.object as PodLike, store) : undefined,
    ...mode,
    /** The decision as if SCC admission were on. */
    allowed: message === undefined,
    subjectType: decision.facts?.subjectType,
    /** The message of a denial. */
    message,
    warnings: decision.warnings,
    /** The SCCs, with the changes to a pod that fits. */
    sccs: sccs.map(({ object, ...scc }) => ({ ...scc, changes: object && findChanges(pod, object) })),
  };
  if (denial === undefined && mode.mode === 'off') return { outcome: 'off', explained } as const;
  if (message !== undefined) return { outcome: 'denied', explained } as const;
  return { outcome: explanation.chosen === undefined ? 'ignored' : 'admitted', explained } as const;
}

type ExplainedObject = NonNullable<ReturnType<typeof explainSource>>['explained'];

/** Returns the strictest level that the pod satisfies, in the latest version. */
function strictestLevel(pod: PodLike, { emulationVersion }: Store): Level {
  const policy = { version: 'latest', emulationVersion } as const;
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { ...policy, level }).allowed);
  return strictest ?? 'privileged';
}

/** `2 admitted, 1 denied` */
function printSummary(outcomes: readonly Outcome[]): string {
  const count = (...counted: readonly Outcome[]): number => outcomes.filter((one) => counted.includes(one)).length;
  const ignored = count('ignored', 'off');
  return `${count('admitted')} admitted, ${count('denied')} denied${ignored === 0 ? '' : `, ${ignored} ignored`}`;
}

/** Prints the decision about an object, its reasons, a row for every SCC, and warnings. */
function printObject(object: ExplainedObject, outcome: Outcome, style: Style): string {
  const warnings = object.warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}\n`);
  const blocks = [
    `${style('bold', printable(printTitle(object, outcome)))}\n${printFacts(object)}`,
    ...(object.sccs.length === 0 ? [] : [printSccs(object, style)]),
    ...(warnings.length === 0 ? [] : [warnings.join('')]),
  ];
  return blocks.join('\n');
}

function printTitle(object: ExplainedObject, outcome: Outcome): string {
  const { kind, namespace, name, template, chosen, allowed } = object;
  const path = template === undefined ? '' : ` (${template})`;
  const results: Readonly<Record<Outcome, string>> = {
    admitted: `admitted by SCC ${chosen ?? ''}`,
    denied: specificDenial(object) === undefined ? 'no SCC admits it' : 'denied',
    ignored: 'exempt from SCC admission',
    off: `SCC admission is off in its namespace; otherwise it would be ${allowed ? 'admitted' : 'denied'}`,
  };
  return `${kind} ${namespace}/${name === '' ? '(no name)' : name}${path}: ${results[outcome]}`;
}

const MODE_EFFECTS: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': violations are reported, and pods are neither denied nor changed',
  off: ': pods are neither evaluated nor changed',
};

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

function printFacts(object: ExplainedObject): string {
  const { createdBy, serviceAccount, mode, modeFrom, problem, subjectType, reason, level } = object;
  const facts = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ['Mode', problem ?? `${mode}${modeFrom === undefined ? '' : ', assumed'}${MODE_EFFECTS[mode]}`],
    ['Denied because', specificDenial(object)],
    ['Usable by', subjectType && SUBJECTS.get(subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.flatMap(([title = '', fact]) => (fact === undefined ? [] : [[title, fact]]));
  return printTable(shown, { indent: '  ', gap: '  ' });
}

/** Returns the message of a denial, unless the rows of the SCCs show all reasons. */
function specificDenial({ message }: ExplainedObject): string | undefined {
  return message?.startsWith('unable to validate against any') ? undefined : message;
}

const HEADER = ['SCC', 'PRIORITY', 'SCORE', 'USABLE BY', 'FITS'];

function printSccs({ sccs, chosen }: ExplainedObject, style: Style): string {
  const rows = sccs.map(({ name, priority, score, usableBy, fits, broken }) => [
    name,
    String(priority),
    String(score),
    usableBy.length === 0 ? '-' : usableBy.join(', '),
    fits ? 'yes' : broken === undefined ? 'no' : 'broken',
  ]);
  const [header = '', ...lines] = printTable([HEADER, ...rows], { gap: '  ' })
    .trimEnd()
    .split('\n');
  const blocks = sccs.map((scc, index) => {
    const line = lines[index] ?? '';
    const details = sccDetails(scc).map((text) => `      ${style('dim', printable(text))}\n`);
    return `${scc.name === chosen ? style('bold', `* ${line}`) : `  ${line}`}\n${details.join('')}`;
  });
  return `  ${header}\n${blocks.join('')}`;
}

function sccDetails({ name, isCandidate, errors, broken, changes = [] }: ExplainedObject['sccs'][number]) {
  const prefix = `provider ${name}: `;
  return [
    ...(isCandidate ? [] : ['not tried: the pod requires another SCC']),
    ...(broken === undefined
      ? errors.map((error) => (error.startsWith(prefix) ? error.slice(prefix.length) : error))
      : [broken]),
    ...printChanges(changes),
  ];
}

const DETAILS = `
Without manifests, explains resources of the cluster: workloads and pods, such as deployment/web, and
namespaces, such as namespace/shop. With manifests, explains these resources of the manifests, or all.

For a namespace, it prints the effective level of each mode of Pod Security, its source (a label, the
default, or for warn the enforced level), the managers that set the labels, and the exemptions.

For a pod, it explains the decision of SCC admission before the pod is created. For every SCC
(SecurityContextConstraints), in the order in which SCCs are tried, it prints the subjects that may use it,
whether the pod fits or the reasons why not, and the changes to the pod; also the chosen SCC, and the
level of the Pod Security Standards that the result satisfies. For a workload, it explains the pods that
its controller would create. Without a server, it explains the decision of the policies in the API server.
In manifests, it also explains the pod templates of custom resources, such as Rollouts, which are found by
their shape.

Roles, bindings, SCCs and namespaces come from the cluster of the kubeconfig. Without a cluster, and with
--offline, they come from the manifests; manifests without SCCs are evaluated with the standard SCCs and
their grants.

Exit codes:
  0  every pod is admitted or exempt
  1  a pod is denied
  2  wrong usage, or sources that cannot be read

Examples:
  portcullis explain namespace/shop
  portcullis explain deployment/web -n shop
  portcullis explain -f pod.yaml -n shop
  portcullis explain -f pod.yaml --as alice --as-group developers
  portcullis explain -f deployment.yaml,cluster-dump/ --offline -o json
  helm template shop ./chart | portcullis explain -f - --kubeconfig admin.conf
`;

/** Explains the decisions of SCC admission about the pods of workloads. */
async function explainWorkloads(references: readonly Reference[], options: Values<typeof explainOptions>, io: Io) {
  const { as: user, 'as-group': groups } = options;
  const { objects, subjects, inventory } = await readWorkloads(references, options, io);
  const { store, namespace, assumptions } = inventory;
  const settings = await sccSettings(options, store);
  const found = await findSettings({ config: options.config, store });
  const context: ExplainContext = {
    store,
    settings,
    previewRanges: createRangePreview(() => found.settings.ranges),
    namespace,
    creator: user === undefined ? (inventory.user ?? ANY_USER) : impersonatedUser(user, groups),
    // A service account may be created together with its pods.
    findAccount: (name: string, scope: string) =>
      store.get('ServiceAccount', name, scope) ??
      objects.find(
        ({ kind, value }) =>
          kind === 'ServiceAccount' &&
          manifestName(value) === name &&
          (manifestNamespace(value) ?? namespace) === scope,
      )?.value,
  };
  const sources = listSources(subjects, namespace);
  const policies = found.isServerless ? { ...context, ...found } : undefined;
  const results = sources
    .map((one) => (policies ? describePolicies(one, policies) : describeSccs(one, context)))
    .filter((one) => one !== undefined);
  if (results.length === 0) throw new UserError('no pods or workloads in the manifests');
  return { results, assumptions, settings: settings.source };
}

/** An explanation, and how it is printed. */
function describeSccs(one: SubjectSource, context: ExplainContext) {
  const result = explainSource(one, context);
  return result && { ...result, print: (style: Style) => printObject(result.explained, result.outcome, style) };
}

function describePolicies(one: SubjectSource, context: Parameters<typeof explainPolicies>[1]) {
  const result = explainPolicies(one, context);
  return result && { ...result, print: (style: Style) => printPolicyDecision(result.explained, style) };
}

async function explainNamespaces(names: readonly string[], options: Values<typeof explainOptions>, io: Io) {
  if (names.length === 0) return { namespaces: [], assumptions: [], settings: undefined };
  const only = names.length === 1 ? names[0] : undefined;
  const facts = await gatherRollout(options, io, new Date(), { kinds: NAMESPACE_KINDS, only });
  const { assumptions, settingsSource: settings } = facts;
  return { namespaces: names.map((name) => explainNamespace(name, facts)), assumptions, settings };
}

const explainOptions = {
  as: option('USER', text, undefined, {
    help: 'Creator of pods without a controller. Default: the user of the kubeconfig',
  }),
  'as-group': list('GROUP', text, { help: 'Groups of the creator, in addition to system:authenticated' }),
  ...sccReviewOptions,
  'installation-namespace': rolloutOptions['installation-namespace'],
};

/** Explains the decisions about pods and namespaces. */
export const command = defineCommand({
  operands: '[type/name...]',
  details: DETAILS,
  options: explainOptions,
  async run(options, operands, io) {
    const { as: user, 'as-group': groups, output, filename } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group requires --as');
    if (filename.length + operands.length === 0) {
      throw new UsageError('a resource, such as deployment/web or namespace/shop, or -f is required');
    }
    const references = operands.map(parseReference);
    const names = references.filter(({ kind }) => kind === 'Namespace').map(({ name }) => name);
    const workloads = references.filter(({ kind }) => kind !== 'Namespace');
    const hasWorkloads = workloads.length > 0 || names.length === 0;
    const { namespaces, ...read } = await explainNamespaces(names, options, io);
    const nothing = { results: [], assumptions: [], settings: undefined };
    const explained = hasWorkloads ? await explainWorkloads(workloads, options, io) : nothing;
    const { results } = explained;
    const settings = read.settings ?? explained.settings;
    const assumptions = [...new Set([...read.assumptions, ...explained.assumptions])];
    const outcomes = results.map(({ outcome }) => outcome);
    const data = {
      ...(hasWorkloads ? { objects: results.map((one) => one.explained) } : {}),
      ...(names.length === 0 ? {} : { namespaces }),
      settings,
      assumptions,
    };
    printReport(io, output, data, (style) => [
      ...namespaces.map((namespace) => printNamespace(namespace, style)),
      ...results.map(({ print }) => print(style)),
      ...(results.length > 1 ? [`${style('bold', printSummary(outcomes))}\n`] : []),
      ...assumptionBlocks(assumptions, settings),
    ]);
    return outcomes.includes('denied') ? EXIT.violations : EXIT.passed;
  },
});
