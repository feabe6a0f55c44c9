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
import { type Style, styleOf, printable, printData, printTable } from '../output/print.ts';
import { UserError } from '../../config/files.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { list, option, text } from '../options.ts';
import type { SccDecision } from '../../policy/scc/request.ts';

/** A pod with its namespace and its creator. */
interface CreatedPod {
  readonly pod: Pod;
  readonly namespace: string;
  readonly creator: Creator;
}

/** The user that creates a pod, and its name in the output. */
interface Creator {
  readonly user: UserInfo;
  readonly name: string;
}

interface ExplainContext {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  /** The namespace of objects without one. */
  readonly namespace: string;
  /** The creator of pods without a controller. */
  readonly creator: Creator;
}

/** Returns a pod, or the pod that a controller would create, with the API server's defaults; `undefined` for other kinds. */
function createPod({ apiVersion, kind, value }: ManifestObject, context: ExplainContext): CreatedPod | undefined {
  const source = POD_SOURCES.find((one) => one === kind && getApiVersion(one) === apiVersion);
  if (source === undefined) return undefined;
  const namespace = manifestNamespace(value) ?? context.namespace;
  const findAccount = (name: string) => context.store.get('ServiceAccount', name, namespace);
  if (source !== 'Pod') {
    const created = getControllerPod(value, source, findAccount);
    return created && { pod: created.pod, namespace, creator: namedCreator(created.requester) };
  }
  const pod = withoutEphemeralContainers(value);
  const creator = isMirrorPod(pod) ? namedCreator(nodeUser(pod.spec?.nodeName ?? '')) : context.creator;
  return { pod: completePod(pod, findAccount), namespace, creator };
}

function namedCreator(user: UserInfo): Creator {
  return { user, name: user.username ?? '' };
}

/**
 * Explains the decision about the pod of each object, and skips objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
function explainObjects(objects: readonly ManifestObject[], context: ExplainContext): readonly ExplainedObject[] {
  const scopedName = (value: JsonObject): string =>
    `${manifestNamespace(value) ?? context.namespace}/${manifestName(value)}`;
  const accounts = new Set(
    objects.filter(({ kind }) => kind === 'ServiceAccount').map(({ value }) => scopedName(value)),
  );
  return objects.flatMap((object): ExplainedObject[] => {
    const created = createPod(object, context);
    if (created === undefined) return [];
    const { pod, namespace } = created;
    const refusal = serviceAccountError(pod, namespace, (name) =>
      accounts.has(`${namespace}/${name}`) ? {} : context.store.get('ServiceAccount', name, namespace),
    );
    return [
      {
        kind: object.kind,
        name: manifestName(object.value),
        ...(refusal === undefined ? {} : { refusal }),
        ...explainPod(created, context),
      },
    ];
  });
}

function explainPod(
  { pod, namespace: namespaceName, creator }: CreatedPod,
  { store, settings }: ExplainContext,
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
    ...(admitted ? { level: strictestLevel(admitted) } : {}),
    sccs: sccs.map(({ object, ...scc }) =>
      object === undefined ? scc : { ...scc, changes: findChanges(pod, object) },
    ),
  };
}

/** Returns the strictest level that the pod satisfies, in the latest version. */
function strictestLevel(pod: PodLike): Level {
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { level, version: 'latest' }).allowed);
  return strictest ?? 'privileged';
}

function objectData({ mode, refusal, decision, sccs, ...object }: ExplainedObject): unknown {
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

/** `off`: SCC admission is off in the namespace. `ignored`: the pod is exempt, for example a Windows pod. */
type Outcome = 'admitted' | 'refused' | 'ignored' | 'off';

function outcomeOf({ refusal, decision, chosen, mode }: ExplainedObject): Outcome {
  if (refusal !== undefined) return 'refused';
  if (mode.mode === 'off') return 'off';
  if (!decision.allowed) return 'refused';
  return chosen === undefined ? 'ignored' : 'admitted';
}

/** `2 admitted, 1 refused` */
function printSummary(objects: readonly ExplainedObject[]): string {
  const count = (outcome: Outcome): number => objects.filter((object) => outcomeOf(object) === outcome).length;
  const ignored = count('ignored') + count('off');
  return `${count('admitted')} admitted, ${count('refused')} refused${ignored === 0 ? '' : `, ${ignored} ignored`}`;
}

/** Prints for each object the decision, its reasons, a row for every SCC, and warnings. */
function printObject(object: ExplainedObject, style: Style): string {
  const warnings = object.decision.warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}\n`);
  const blocks = [
    `${style('bold', printable(printTitle(object)))}\n${printFacts(object)}`,
    ...(object.sccs.length === 0 ? [] : [printSccs(object, style)]),
    ...(warnings.length === 0 ? [] : [warnings.join('')]),
  ];
  return blocks.join('\n');
}

function printTitle(object: ExplainedObject): string {
  const { kind, namespace, name, chosen, decision } = object;
  const results: Readonly<Record<Outcome, string>> = {
    admitted: `admitted by SCC ${chosen ?? ''}`,
    refused: specificRefusal(object) === undefined ? 'no SCC admits it' : 'refused',
    ignored: 'exempt from SCC admission',
    off: `SCC admission is off in its namespace; otherwise it would be ${decision.allowed ? 'admitted' : 'refused'}`,
  };
  return `${kind} ${namespace}/${name === '' ? '(no name)' : name}: ${results[outcomeOf(object)]}`;
}

const MODES: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': violations are reported, and pods are neither refused nor changed',
  off: ': pods are neither evaluated nor changed',
};

function printFacts(object: ExplainedObject): string {
  const { createdBy, serviceAccount, mode, decision, reason, level } = object;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ['Mode', mode.problem ?? `${mode.mode}${mode.modeFrom === undefined ? '' : ', assumed'}${MODES[mode.mode]}`],
    ['Refused because', specificRefusal(object)],
    ['Usable by', decision.facts && SUBJECTS.get(decision.facts.subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined);
  return printTable(shown, { indent: '  ', gap: '  ' });
}

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

/** Returns the message of a refusal, unless the rows of the SCCs show all reasons. */
function specificRefusal({ refusal, decision }: ExplainedObject): string | undefined {
  if (refusal !== undefined) return refusal;
  if (decision.allowed) return undefined;
  const { message } = decision.status;
  return message.startsWith('unable to validate against any') ? undefined : message;
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

function sccDetails({ name, isCandidate, errors, broken, changes = [] }: SccRow): readonly string[] {
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

Roles, bindings, SCCs and namespaces come from the manifests of --filename, or from the cluster of the
kubeconfig. Without both, only the objects of the paths exist. Manifests without SCCs are evaluated with
the standard SCCs and their grants.

Exit codes:
  0  every pod is admitted or exempt
  1  a pod is refused
  2  wrong usage, or sources that cannot be read

Examples:
  portcullis explain pod.yaml -n shop
  portcullis explain pod.yaml --as alice --as-group developers
  portcullis explain deployment.yaml -f cluster/ -o json
  helm template shop ./chart | portcullis explain - --kubeconfig admin.conf
`;

/** Explains the decisions of SCC admission about pods. */
export const command = defineCommand({
  operands: '[path...]',
  details: DETAILS,
  options: {
    as: option('USER', text, undefined, {
      help: 'Creator of pods without a controller; by default the user of the kubeconfig',
    }),
    'as-group': list('GROUP', text, { help: 'Groups of the creator, in addition to system:authenticated' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const settings = expectedSettings(options);
    const { as: user, 'as-group': groups } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group needs --as');
    const { objects, inventory } = await readSubjects(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
    const namespace = options.namespace ?? inventory.namespace;
    const creator = podCreator(user, groups, inventory);
    const { output } = options;
    const { store, assumptions } = inventory;
    const explained = explainObjects(objects, { store, settings, namespace, creator });
    if (explained.length === 0) throw new UserError('no pods or workloads in the manifests');
    if (output === 'table') {
      const style = styleOf(io);
      const summary = explained.length > 1 ? [`${style('bold', printSummary(explained))}\n`] : [];
      const blocks = [...explained.map((object) => printObject(object, style)), ...summary];
      io.stdout.write(blocks.join('\n') + printAssumptions(assumptions));
    } else io.stdout.write(printData(output, { objects: explained.map(objectData), assumptions }));
    return explained.some((object) => outcomeOf(object) === 'refused') ? EXIT.violations : EXIT.passed;
  },
});

/** Without a user, the creator is any authenticated user. */
function podCreator(user: string | undefined, groups: readonly string[], inventory: Inventory): Creator {
  if (user !== undefined) return { user: impersonatedUser(user, groups), name: user };
  if (inventory.user) return { user: inventory.user, name: inventory.user.username ?? '' };
  return { user: { groups: ['system:authenticated'] }, name: 'any authenticated user (set --as)' };
}

/** An SCC with the changes that it would make to a pod that fits. */
interface SccRow extends Omit<ExplainedScc, 'object'> {
  readonly changes?: readonly Change[];
}

/** The explanation for the pods of one object. */
interface ExplainedObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly mode: ExpectedMode;
  /** The name of the creator in the output. */
  readonly createdBy: string;
  /** Absent if the pod has none. */
  readonly serviceAccount?: string;
  /** The error of the API server for a missing service account. */
  readonly refusal?: string;
  readonly decision: SccDecision;
  readonly chosen?: string;
  readonly next?: string;
  readonly reason?: string;
  readonly nearest?: string;
  readonly grantable?: string;
  /** The strictest level of the Pod Security Standards that the admitted pod satisfies. */
  readonly level?: Level;
  readonly sccs: readonly SccRow[];
}
