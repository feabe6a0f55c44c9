import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { UserError } from '../../config/files.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { PodLike, ServiceAccount, UserInfo } from '../../kube/types.ts';
import { evaluatePod, LEVELS, type Level } from '../../policy/pss/index.ts';
import { findChanges } from '../../policy/scc/advice/changes.ts';
import { explainScc } from '../../policy/scc/advice/explain.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findNamespace, readSubjects } from '../inventory/inventory.ts';
import { manifestName, manifestNamespace } from '../inventory/manifests.ts';
import { list, option, text } from '../options.ts';
import { assumptionBlocks, printable, printChanges, printReport, printTable, type Style } from '../output/print.ts';
import { createPod, SCC_INPUT_KINDS, sccInput } from '../scc-input.ts';
import { expectedMode, sccSettings, sccReviewOptions, type ExpectedSettings } from '../scc-options.ts';

/** `off`: SCC admission is off in the namespace. `ignored`: the pod is exempt, for example a Windows pod. */
type Outcome = 'admitted' | 'refused' | 'ignored' | 'off';

const ANY_USER: UserInfo = { groups: ['system:authenticated'] };

interface ExplainContext {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  /** The namespace of objects without one. */
  readonly namespace: string;
  /** The creator of pods without a controller. */
  readonly creator: UserInfo;
  findAccount(name: string, namespace: string): ServiceAccount | undefined;
}

/**
 * Explains the decision about the pods of an object; returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
function explainObject({ apiVersion, kind, value }: ManifestObject, context: ExplainContext) {
  const { store, settings, creator } = context;
  const source = POD_SOURCES.find((one) => one === kind && getApiVersion(one) === apiVersion);
  const namespaceName = manifestNamespace(value) ?? context.namespace;
  const findAccount = (name: string) => context.findAccount(name, namespaceName);
  const created = source && createPod(source, value, { namespace: namespaceName, creator, findAccount });
  if (created === undefined) return undefined;
  const { pod, requester, serviceAccount, refusal } = created;
  const namespace = findNamespace(store, namespaceName);
  const { decision, sccs, ...explanation } = explainScc({
    ...sccInput(store, settings),
    operation: 'CREATE',
    object: pod,
    namespace,
    userInfo: requester,
  });
  const message = refusal ?? (decision.allowed ? undefined : decision.status.message);
  const mode = expectedMode(namespace, settings);
  const explained = {
    kind,
    name: manifestName(value),
    namespace: namespaceName,
    createdBy: requester.username ?? 'any authenticated user (set --as)',
    /** Absent if the pod has none. */
    serviceAccount,
    ...explanation,
    level: decision.allowed ? strictestLevel(decision.object as PodLike) : undefined,
    ...mode,
    /** The decision as if SCC admission were on. */
    allowed: message === undefined,
    subjectType: decision.facts?.subjectType,
    /** The message of a refusal. */
    message,
    warnings: decision.warnings,
    /** The SCCs, with the changes to a pod that fits. */
    sccs: sccs.map(({ object, ...scc }) => ({ ...scc, changes: object && findChanges(pod, object) })),
  };
  if (refusal === undefined && mode.mode === 'off') return { outcome: 'off', explained } as const;
  if (message !== undefined) return { outcome: 'refused', explained } as const;
  return { outcome: explanation.chosen === undefined ? 'ignored' : 'admitted', explained } as const;
}

type ExplainedObject = NonNullable<ReturnType<typeof explainObject>>['explained'];

/** Returns the strictest level that the pod satisfies, in the latest version. */
function strictestLevel(pod: PodLike): Level {
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { level, version: 'latest' }).allowed);
  return strictest ?? 'privileged';
}

/** `2 admitted, 1 refused` */
function printSummary(outcomes: readonly Outcome[]): string {
  const count = (...counted: readonly Outcome[]): number => outcomes.filter((one) => counted.includes(one)).length;
  const ignored = count('ignored', 'off');
  return `${count('admitted')} admitted, ${count('refused')} refused${ignored === 0 ? '' : `, ${ignored} ignored`}`;
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
  const { kind, namespace, name, chosen, allowed } = object;
  const results: Readonly<Record<Outcome, string>> = {
    admitted: `admitted by SCC ${chosen ?? ''}`,
    refused: specificRefusal(object) === undefined ? 'no SCC admits it' : 'refused',
    ignored: 'exempt from SCC admission',
    off: `SCC admission is off in its namespace; otherwise it would be ${allowed ? 'admitted' : 'refused'}`,
  };
  return `${kind} ${namespace}/${name === '' ? '(no name)' : name}: ${results[outcome]}`;
}

const MODES: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': violations are reported, and pods are neither refused nor changed',
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
    ['Mode', problem ?? `${mode}${modeFrom === undefined ? '' : ', assumed'}${MODES[mode]}`],
    ['Refused because', specificRefusal(object)],
    ['Usable by', subjectType && SUBJECTS.get(subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.flatMap(([title = '', fact]) => (fact === undefined ? [] : [[title, fact]]));
  return printTable(shown, { indent: '  ', gap: '  ' });
}

/** Returns the message of a refusal, unless the rows of the SCCs show all reasons. */
function specificRefusal({ message }: ExplainedObject): string | undefined {
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
Explains the decision of SCC admission about pods before they are created. For every SCC
(SecurityContextConstraints), in the order in which SCCs are tried, it prints the subjects that may use it,
whether the pod fits or the reasons why not, and the changes to the pod; also the chosen SCC, and the
level of the Pod Security Standards that the result satisfies. For a workload, it explains the pods that
its controller would create.

Roles, bindings, SCCs and namespaces come from the cluster of the kubeconfig. Without a cluster, and with
--offline, they come from the manifests; manifests without SCCs are evaluated with the standard SCCs and
their grants.

Exit codes:
  0  every pod is admitted or exempt
  1  a pod is refused
  2  wrong usage, or sources that cannot be read

Examples:
  portcullis explain -f pod.yaml -n shop
  portcullis explain -f pod.yaml --as alice --as-group developers
  portcullis explain -f deployment.yaml,cluster-dump/ --offline -o json
  helm template shop ./chart | portcullis explain -f - --kubeconfig admin.conf
`;

/** Explains the decisions of SCC admission about pods. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    as: option('USER', text, undefined, {
      help: 'Creator of pods without a controller; by default the user of the kubeconfig',
    }),
    'as-group': list('GROUP', text, { help: 'Groups of the creator, in addition to system:authenticated' }),
    ...sccReviewOptions,
  },
  async run(options, _operands, io) {
    const settings = await sccSettings(options);
    const { as: user, 'as-group': groups, output } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group requires --as');
    const { objects, inventory } = await readSubjects(options, { io, needs: { kinds: SCC_INPUT_KINDS } });
    const { store, assumptions, namespace } = inventory;
    const context = {
      store,
      settings,
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
    const results = objects.map((object) => explainObject(object, context)).filter((one) => one !== undefined);
    const outcomes = results.map(({ outcome }) => outcome);
    if (results.length === 0) throw new UserError('no pods or workloads in the manifests');
    const data = { objects: results.map(({ explained }) => explained), assumptions };
    printReport(io, output, data, (style) => [
      ...results.map(({ outcome, explained }) => printObject(explained, outcome, style)),
      ...(results.length > 1 ? [`${style('bold', printSummary(outcomes))}\n`] : []),
      ...assumptionBlocks(assumptions),
    ]);
    return outcomes.includes('refused') ? EXIT.violations : EXIT.passed;
  },
});
