/**
 * What `explain` says, as plain data: found out here, written in one of several formats. The folder reads nothing in and
 * writes nothing out.
 */
import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { completePod, getControllerPod, isMirrorPod, nodeUser } from '../../kube/controller-pod.ts';
import { withoutEphemeralContainers } from '../../kube/pod.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { Pod, UserInfo, JsonObject, PodLike } from '../../kube/types.ts';
import { manifestNamespace, manifestName } from '../inventory/manifests.ts';
import { canUseScc } from '../../cluster/access.ts';
import { evaluatePod, LEVELS, type Level } from '../../policy/pss/index.ts';
import { findChanges, type Change } from '../../policy/scc/advice/changes.ts';
import { explainScc, type ExplainedScc } from '../../policy/scc/advice/explain.ts';
import { findNamespace, type Inventory, readSubjects } from '../inventory/inventory.ts';
import { printAssumptions, printChanges } from '../output/print.ts';
import { serviceAccountError } from '../inventory/assumptions.ts';
import {
  expectedMode,
  type ExpectedSettings,
  expectedSettings,
  type ExpectedMode,
  SCC_REVIEW_KINDS,
  sccReviewOptions,
} from '../scc-options.ts';
import { EXIT, defineCommand } from '../command.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { type Style, styleOf, printable, printData } from '../output/print.ts';
import { UserError } from '../../config/files.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { list, option, text } from '../options.ts';
import type { SccDecision } from '../../policy/scc/request.ts';

/** A pod that would be created, where and by whom. */
interface CreatedPod {
  readonly pod: Pod;
  readonly namespace: string;
  readonly creator: Creator;
}

/** Somebody who creates pods, and how to call them. */
interface Creator {
  readonly user: UserInfo;
  readonly name: string;
}

interface PodContext {
  readonly store: Store;
  /** Of objects that name none. */
  readonly namespace: string;
  /** Who creates the pods that no controller creates. */
  readonly creator: Creator;
}

/**
 * The pod that an object is, or that its controller would create, with what the API server fills in; `undefined` for
 * kinds that no pods come from.
 */
function podOf({ apiVersion, kind, value }: ManifestObject, context: PodContext): CreatedPod | undefined {
  const source = POD_SOURCES.find((one) => one === kind && getApiVersion(one) === apiVersion);
  if (source === undefined) return undefined;
  const namespace = manifestNamespace(value) ?? context.namespace;
  const findAccount = (name: string) => context.store.get('ServiceAccount', name, namespace);
  if (source !== 'Pod') {
    const made = getControllerPod(value, source, findAccount);
    return made && { pod: made.pod, namespace, creator: named(made.requester) };
  }
  const pod = withoutEphemeralContainers(value);
  const creator = isMirrorPod(pod) ? named(nodeUser(pod.spec?.nodeName ?? '')) : context.creator;
  return { pod: completePod(pod, findAccount), namespace, creator };
}

function named(user: UserInfo): Creator {
  return { user, name: user.username ?? '' };
}

interface ExplainSettings {
  readonly settings: ExpectedSettings;
  /** Of objects that name none. */
  readonly namespace: string;
  /** Who creates the pods that no controller creates. */
  readonly creator: Creator;
}

/**
 * Explains what becomes of the pods of each object; those that no pods come from are left out.
 * @throws {UserError} for a namespace that does not exist
 */
function explainObjects(
  objects: readonly ManifestObject[],
  { store, assumptions }: Inventory,
  { settings, namespace, creator }: ExplainSettings,
): Explanation {
  const brought = new Set(
    objects.filter(({ kind }) => kind === 'ServiceAccount').map(({ value }) => placeOf(value, namespace)),
  );
  const explained = objects.flatMap((object): ExplainedObject[] => {
    const created = podOf(object, { store, namespace, creator });
    if (created === undefined) return [];
    const explanation = explainPod(created, { store, settings });
    const place = created.namespace;
    const refusal = serviceAccountError(created.pod, place, (name) =>
      brought.has(`${place}/${name}`) ? {} : store.get('ServiceAccount', name, place),
    );
    return [
      {
        kind: object.kind,
        name: manifestName(object.value),
        ...(refusal === undefined ? {} : { refusal }),
        ...explanation,
      },
    ];
  });
  return { objects: explained, assumptions };
}

/** `shop/builder` */
function placeOf(value: JsonObject, fallback: string): string {
  return `${manifestNamespace(value) ?? fallback}/${manifestName(value)}`;
}

function explainPod(
  { pod, namespace: namespaceName, creator }: CreatedPod,
  { store, settings }: Pick<Inventory, 'store'> & { readonly settings: ExpectedSettings },
): Omit<ExplainedObject, 'kind' | 'name'> {
  const namespace = findNamespace(store, namespaceName);
  const { sccs, ...outcome } = explainScc({
    operation: 'CREATE',
    object: pod,
    namespace,
    userInfo: creator.user,
    sccs: store.list('SecurityContextConstraints'),
    canUse: canUseScc(store),
    compatibility: settings.compatibility,
    preferUserNamespaces: settings.preferUserNamespaces,
  });
  const account: unknown = pod.spec?.serviceAccountName;
  const admitted = outcome.decision.allowed ? (outcome.decision.object as PodLike) : undefined;
  return {
    namespace: namespaceName,
    mode: expectedMode(namespace, settings),
    createdBy: creator.name,
    ...(typeof account === 'string' && account !== '' ? { serviceAccount: account } : {}),
    ...outcome,
    ...(admitted ? { level: levelOf(admitted) } : {}),
    sccs: sccs.map((scc) => rowOf(scc, pod)),
  };
}

function rowOf({ object, ...scc }: ExplainedScc, pod: unknown): SccRow {
  return object === undefined ? scc : { ...scc, changes: findChanges(pod, object) };
}

/** The strictest level that the pod keeps, by the newest version. */
function levelOf(pod: PodLike): Level {
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { level, version: 'latest' }).allowed);
  return strictest ?? 'privileged';
}

/** For programs: everything that is known. */
function dataOf({ objects, assumptions }: Explanation): unknown {
  return { objects: objects.map(dataOfObject), assumptions };
}

function dataOfObject({ mode, refusal, decision, sccs, ...object }: ExplainedObject): unknown {
  const { warnings, facts } = decision;
  const message = refusal ?? (decision.allowed ? undefined : decision.status.message);
  return {
    ...object,
    ...mode,
    allowed: refusal === undefined && decision.allowed,
    ...(facts ? { subjectType: facts.subjectType } : {}),
    ...(message === undefined ? {} : { message }),
    warnings,
    sccs,
  };
}

/** `off`: SCCs do not count in the namespace; `ignored`: nor for such a pod. */
type Outcome = 'admitted' | 'refused' | 'ignored' | 'off';

function outcomeOf({ refusal, decision, chosen, mode }: ExplainedObject): Outcome {
  if (refusal !== undefined) return 'refused';
  if (mode.mode === 'off') return 'off';
  if (!decision.allowed) return 'refused';
  return chosen === undefined ? 'ignored' : 'admitted';
}

function exitCodeOf({ objects }: Explanation): number {
  return objects.some((object) => outcomeOf(object) === 'refused') ? EXIT.violations : EXIT.passed;
}

/** `2 admitted, 1 refused` */
function printSummary({ objects }: Explanation): string {
  const count = (outcome: Outcome): number => objects.filter((object) => outcomeOf(object) === outcome).length;
  const ignored = count('ignored') + count('off');
  return `${count('admitted')} admitted, ${count('refused')} refused${ignored === 0 ? '' : `, ${ignored} ignored`}`;
}

/** For people: of each object what becomes of its pod and why, and what every SCC has to say. */
function printExplanation(explanation: Explanation, style: Style): string {
  const blocks = explanation.objects.map((object) => printObject(object, style));
  const summary = explanation.objects.length > 1 ? [`${style('bold', printSummary(explanation))}\n`] : [];
  return [...blocks, ...summary].join('\n') + printAssumptions(explanation.assumptions);
}

function printObject(object: ExplainedObject, style: Style): string {
  const lines = [
    style('bold', printable(titleOf(object))),
    ...printFacts(object),
    ...(object.sccs.length === 0 ? [] : ['', ...printSccs(object, style)]),
    ...printWarnings(object, style),
  ];
  return `${lines.join('\n')}\n`;
}

function printWarnings({ decision: { warnings } }: ExplainedObject, style: Style): readonly string[] {
  const lines = warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}`);
  return lines.length === 0 ? [] : ['', ...lines];
}

function titleOf(object: ExplainedObject): string {
  const { kind, namespace, name, chosen, decision } = object;
  const verdicts: Readonly<Record<Outcome, string>> = {
    admitted: `SCC ${chosen ?? ''} admits it`,
    refused: refusalOf(object) === undefined ? 'no SCC admits it' : 'it is refused',
    ignored: 'SCCs have nothing to do with it',
    off: `SCCs do not count in its namespace; otherwise they would ${decision.allowed ? 'admit' : 'refuse'} it`,
  };
  return `${kind} ${namespace}/${name === '' ? '(no name)' : name}: ${verdicts[outcomeOf(object)]}`;
}

const MODES: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': refusals are told, and nothing is changed',
  off: ': pods are neither judged nor changed',
};

/** `report, assumed: refusals are told, and nothing is changed` */
function printMode({ mode, modeFrom }: ExplainedObject['mode']): string {
  return `${mode}${modeFrom === undefined ? '' : ', assumed'}${MODES[mode]}`;
}

function printFacts(object: ExplainedObject): readonly string[] {
  const { createdBy, serviceAccount, mode, decision, reason, level } = object;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ['Mode', mode.problem ?? printMode(mode)],
    ['Refused because', refusalOf(object)],
    ['Usable by', decision.facts && SUBJECTS.get(decision.facts.subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, text]) => `  ${name.padEnd(width)}  ${printable(text)}`);
}

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

/** The text of a refusal, unless the rows of the SCCs say it all. */
function refusalOf({ refusal, decision }: ExplainedObject): string | undefined {
  if (refusal !== undefined) return refusal;
  if (decision.allowed) return undefined;
  const { message } = decision.status;
  return message.startsWith('unable to validate against any') ? undefined : message;
}

const HEADER = ['SCC', 'PRIORITY', 'SCORE', 'USABLE BY', 'FITS'];

function printSccs({ sccs, chosen }: ExplainedObject, style: Style): readonly string[] {
  const rows = sccs.map((scc) => [scc.name, String(scc.priority), String(scc.score), usersOf(scc), fitOf(scc)]);
  const widths = HEADER.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const print = (cells: readonly string[]): string =>
    printable(cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')).trimEnd();
  return [
    `  ${print(HEADER)}`,
    ...sccs.flatMap((scc, index) => {
      const line = print(rows[index] ?? []);
      const details = detailsOf(scc).map((text) => `      ${style('dim', printable(text))}`);
      return [scc.name === chosen ? style('bold', `* ${line}`) : `  ${line}`, ...details];
    }),
  ];
}

function usersOf({ usableBy }: SccRow): string {
  return usableBy.length === 0 ? '-' : usableBy.join(', ');
}

function fitOf({ fits, broken }: SccRow): string {
  if (fits) return 'yes';
  return broken === undefined ? 'no' : 'broken';
}

function detailsOf({ name, isCandidate, errors, broken, changes = [] }: SccRow): readonly string[] {
  const prefix = `provider ${name}: `;
  return [
    ...(isCandidate ? [] : ['not tried: the pod requires another']),
    ...(broken === undefined
      ? errors.map((error) => (error.startsWith(prefix) ? error.slice(prefix.length) : error))
      : [broken]),
    ...printChanges(changes),
  ];
}

const DETAILS = `
Tells of pods, before they are created, what every SCC (SecurityContextConstraints) says of them, in
the order in which SCCs are tried: who may use it, whether the pod fits or why not, and what would be
changed; which one is chosen, and which level of the Pod Security Standards the result keeps. Of a
workload it tells what becomes of the pods that its controller would create.

Roles, bindings, SCCs and namespaces come from the manifests of --filename, or from the cluster of the
kubeconfig. Where there is neither, the paths are all that there is. Manifests without SCCs are judged
by the standard SCCs and their grants.

Exit codes:
  0  every pod is admitted, or no SCC counts for it
  1  a pod is refused
  2  wrong usage, or what cannot be read

Examples:
  portcullis explain pod.yaml -n shop
  portcullis explain pod.yaml --as alice --as-group developers
  portcullis explain deployment.yaml -f cluster/ -o json
  helm template shop ./chart | portcullis explain - --kubeconfig admin.conf
`;

/** Says what SCCs would do to pods, and why. */
export const command = defineCommand({
  operands: '[path...]',
  details: DETAILS,
  options: {
    as: option('USER', text, undefined, {
      help: 'Who creates pods that no controller creates; absent, the user of the kubeconfig',
    }),
    'as-group': list('GROUP', text, { help: 'Groups of that user, besides system:authenticated' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const settings = expectedSettings(options);
    const { as: user, 'as-group': groups } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group needs --as');
    const { objects, inventory } = await readSubjects(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
    const namespace = options.namespace ?? inventory.namespace;
    const creator = creatorOf(user, groups, inventory);
    const explanation = explainObjects(objects, inventory, { settings, namespace, creator });
    if (explanation.objects.length === 0) throw new UserError('no pods and no workloads in the manifests');
    const { output } = options;
    if (output === 'table') io.stdout.write(printExplanation(explanation, styleOf(io)));
    else io.stdout.write(printData(output, dataOf(explanation)));
    return exitCodeOf(explanation);
  },
});

/** Of nobody in particular only that is known which everybody is. */
function creatorOf(user: string | undefined, groups: readonly string[], inventory: Inventory): Creator {
  if (user !== undefined) return { user: impersonatedUser(user, groups), name: user };
  if (inventory.user) return { user: inventory.user, name: inventory.user.username ?? '' };
  return { user: { groups: ['system:authenticated'] }, name: 'anybody who is authenticated (--as names somebody)' };
}

/** An SCC, with what it would change in the pod if it fits. */
interface SccRow extends Omit<ExplainedScc, 'object'> {
  readonly changes?: readonly Change[];
}

/** What becomes of the pods of one object. */
interface ExplainedObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly mode: ExpectedMode;
  /** Who creates the pod, in words. */
  readonly createdBy: string;
  /** Absent if the pod names none. */
  readonly serviceAccount?: string;
  /** Why the API server refuses the pod whatever SCCs say. */
  readonly refusal?: string;
  readonly decision: SccDecision;
  readonly chosen?: string;
  readonly next?: string;
  readonly reason?: string;
  readonly nearest?: string;
  readonly grantable?: string;
  /** The strictest level of the Pod Security Standards that the admitted pod keeps. */
  readonly level?: Level;
  readonly sccs: readonly SccRow[];
}

interface Explanation {
  readonly objects: readonly ExplainedObject[];
  readonly assumptions: readonly string[];
}
