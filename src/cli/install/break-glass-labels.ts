/** Relaxes and restores the enforce labels of namespaces during break-glass, and describes the labels that remain. */
import { setTimeout as pause } from 'node:timers/promises';
import { RELAXED_LABEL, FORMER_LEVELS_ANNOTATION, INSTALLATION } from '../../api/names.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import { createTokenBucket, systemClock } from '../../cluster/clock.ts';
import type { Target } from '../../install/index.ts';
import { objectName, objectPath, type ResourceInfo, RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { printCount, summarizeNames, sortedSet } from '../../kube/text.ts';
import type { KubeObject, Namespace, ObjectMeta } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isStricter, printPolicy } from '../../policy/psa/index.ts';
import { type Policy, compareVersions, isLevel, parseVersion } from '../../policy/pss/index.ts';
import {
  isRelaxed,
  loweredLabels,
  type ObjectWrite,
  planRelaxation,
  planRestoration,
  remainingLabel,
  restorationProblem,
  labeledPolicy,
} from '../../policy/rollout/index.ts';
import { type DryRun, dryRunSuffix } from '../cluster.ts';
import type { Output } from '../command.ts';
import { printable, withProgress } from '../output/print.ts';
import { kubectl, printCommand, type ShellCommand } from '../output/shell.ts';

const { enforce: ENFORCE } = POD_SECURITY_LABELS;

/** Limits on the API server load. `relaxLabels` sends one write per namespace, and `restoreLabels` sends two. */
const CONCURRENCY = 16;
const RATE = { perSecond: 200, burst: 50 };

/** Maximum attempts for an object that other clients, such as the leader, change concurrently. */
const MAX_ATTEMPTS = 20;
/**
 * Maximum passes of `relaxLabels`. A single pass may not be enough, because replicas may set labels until they observe
 * that break-glass is on.
 */
const MAX_PASSES = 3;

/** The cluster in which a command relaxes or restores labels, and the output of the command. */
export interface BreakGlassRun {
  readonly client: ClusterClient;
  readonly dryRun: DryRun;
  /** Flags with which the user selected the cluster. */
  readonly clusterFlags: readonly string[];
  readonly text: Output;
  readonly stderr: Output;
}

/** Result of changing many objects. */
export interface ChangeResult {
  readonly isChanged: boolean;
  /** True if some objects could not be changed or restored exactly. */
  readonly isIncomplete: boolean;
}

/** Levels and versions before break-glass, by namespace. */
type FormerLevels = ReadonlyMap<string, Policy>;

/** Records the levels and versions before break-glass. Writes return the error if the API server rejects them. */
interface LevelRecord {
  readonly levels: FormerLevels;
  add(namespaces: readonly Namespace[]): Promise<string | undefined>;
  remove(): Promise<string | undefined>;
}

/**
 * Relaxes the labels that Portcullis set. Skips namespaces that are already relaxed, so the function can be called
 * repeatedly.
 */
export async function relaxLabels(
  run: BreakGlassRun,
  namespaces: readonly Namespace[],
  record: LevelRecord,
): Promise<ChangeResult> {
  const rejected = new Map<string, string>();
  let changed = 0;
  let unrecorded: string | undefined;
  let due = namespaces.filter(planRelaxation);
  for (let pass = 1; due.length > 0 && pass <= MAX_PASSES; pass++) {
    unrecorded = (await record.add(due)) ?? unrecorded;
    const result = await changeNamespaces(run, due, 'relaxed', planRelaxation);
    changed += result.changed.length;
    for (const [name, message] of result.rejected) rejected.set(name, message);
    if (run.dryRun !== 'none' || result.changed.length === 0) break;
    const current: readonly Namespace[] = await run.client.list(RESOURCES.Namespace);
    due = current.filter((namespace) => planRelaxation(namespace) && !rejected.has(objectName(namespace)));
  }
  const unchanged = namespaces.filter(isRelaxed).length;
  if (changed > 0) print(run, `${ENFORCE}=privileged set in ${printCount(changed, 'namespace')}`, run.dryRun);
  else if (unchanged > 0) print(run, `unchanged: ${ENFORCE}=privileged in ${printCount(unchanged, 'namespace')}`);
  if (unrecorded !== undefined) print(run, `levels recorded only in ${RELAXED_LABEL}: ${unrecorded}`);
  printRejected(run, rejected);
  return { isChanged: changed > 0, isIncomplete: rejected.size > 0 || unrecorded !== undefined };
}

/**
 * Restores the labels that `relaxLabels` changed, except labels that another client has changed in the meantime.
 * Reports labels whose level is lower or whose version is older than recorded.
 */
export async function restoreLabels(
  run: BreakGlassRun,
  namespaces: readonly Namespace[],
  recorded: FormerLevels,
): Promise<ChangeResult & { readonly isRejected: boolean }> {
  const plan = (namespace: Namespace) => planRestoration(namespace, recorded.get(objectName(namespace)));
  const { changed, rejected } = await changeNamespaces(run, namespaces.filter(plan), 'restored', plan);
  const results = Map.groupBy(changed, (namespace) =>
    restorationProblem(namespace, recorded.get(objectName(namespace))),
  );
  const planned = results.get(undefined) ?? [];
  const isDone = run.dryRun === 'none';
  const current: readonly Namespace[] = isDone ? await run.client.list(RESOURCES.Namespace) : namespaces;
  // After a dry run, the labels still have the lower level.
  const pending = new Set(isDone ? [] : planned.map(objectName));
  const lowered = findLowered(current, recorded).filter(
    ({ namespace, name }) => !rejected.has(namespace) && !(name === ENFORCE && pending.has(namespace)),
  );
  const isLowered = (namespace: Namespace): boolean =>
    lowered.some(({ namespace: name }) => name === objectName(namespace));
  const restored = planned.filter((namespace) => !isLowered(namespace)).map(objectName);
  const unchanged = (results.get('changed') ?? []).filter((namespace) => !isLowered(namespace)).map(objectName);
  const report = (title: string, names: readonly string[], detail = ''): void => {
    if (names.length > 0) print(run, `${title} in ${printCount(names.length, 'namespace')}${detail}`, run.dryRun);
  };
  const lost = (results.get('lost') ?? []).map(objectName);
  report(`${ENFORCE} restored`, restored);
  report('kept', unchanged, `, changed by another client: ${summarizeNames(unchanged)}`);
  report(
    'not restored',
    lost,
    ` whose former level is not recorded: ${summarizeNames(lost)}. The label was removed. If the label syncer runs, it sets the label again`,
  );
  for (const [label, group] of Map.groupBy(lowered, ({ name, value }) => `${name}=${value}`)) {
    const names = group.map(({ namespace }) => namespace);
    const [title, value] = [label.startsWith(`${ENFORCE}=`) ? 'lower' : 'older version', group[0]?.value ?? ''];
    report(
      `${title} than before`,
      names,
      `, changed by another client: ${summarizeNames(names)}. To restore ${value}:`,
    );
    run.text.write(`  ${printable(printCommand(setLabel(names, label), run.clusterFlags))}\n`);
  }
  printRejected(run, rejected);
  const isIncomplete = rejected.size + lost.length + lowered.length > 0;
  return { isChanged: changed.length > 0, isIncomplete, isRejected: rejected.size > 0 };
}

function setLabel(namespaces: readonly string[], label: string): ShellCommand {
  return kubectl('label', '--overwrite', 'namespace', ...namespaces, label);
}

function findLowered(namespaces: readonly Namespace[], recorded: FormerLevels) {
  return namespaces.flatMap((namespace) => {
    const name = objectName(namespace);
    const policy = recorded.get(name);
    return policy ? loweredLabels(namespace, policy).map((label) => ({ namespace: name, ...label })) : [];
  });
}

function print({ text }: BreakGlassRun, line: string, dryRun: DryRun = 'none'): void {
  text.write(`${printable(`labels: ${line}`)}${dryRunSuffix(dryRun)}\n`);
}

/** Prints one line per distinct error, because the same error usually occurs in all namespaces. */
function printRejected(run: BreakGlassRun, rejected: ReadonlyMap<string, string>): void {
  // Removes the namespace from the message, so that equal errors can be grouped.
  const byMessage = Map.groupBy(rejected, ([name, message]) => message.replaceAll(`"${name}"`, '"…"'));
  for (const [, all] of byMessage) {
    const names = summarizeNames(all.map(([name]) => name));
    print(run, `not changed in ${printCount(all.length, 'namespace')}: ${names}: ${all[0]?.[1] ?? ''}`);
  }
}

/**
 * Changes namespaces at a limited rate. Prints the number of changed namespaces if the command is interrupted or the
 * API server cannot be reached.
 */
async function changeNamespaces(
  run: BreakGlassRun,
  due: readonly Namespace[],
  verb: string,
  plan: Plan<Namespace>,
): Promise<{ readonly changed: readonly Namespace[]; readonly rejected: ReadonlyMap<string, string> }> {
  const limit = createTokenBucket(RATE, systemClock);
  const changed: Namespace[] = [];
  const rejected = new Map<string, string>();
  const remaining = due.values();
  let done = 0;
  // Does not use a timer of the clock, because such timers do not keep the process alive.
  const wait = (): Promise<void> => pause(limit.reserve(), undefined, { signal: run.client.signal });
  await withProgress(run.stderr, async (show) => {
    const work = async (): Promise<void> => {
      for (const namespace of remaining) {
        const { before, error } = await changeObject(run, RESOURCES.Namespace, namespace, { plan, wait });
        if (error !== undefined) rejected.set(objectName(namespace), error);
        else if (before) changed.push(before);
        show(`labels: ${verb} in ${++done} of ${due.length} namespaces`);
      }
    };
    const results = await Promise.allSettled(Array.from({ length: CONCURRENCY }, work));
    const failure = results.find((result) => result.status === 'rejected');
    if (!failure) return;
    const progress = `${verb} in ${changed.length} of ${printCount(due.length, 'namespace')}`;
    print(run, `interrupted: ${progress}. To continue, run the command again`);
    throw failure.reason;
  });
  return { changed, rejected };
}

/** Returns the next write to an object, or `undefined` if there are no more changes. */
type Plan<T> = (object: T) => ObjectWrite | undefined;

/**
 * Sends the planned writes to an object, unless it has been deleted. Resolves to the object before the change if it
 * changed, and to the error if the API server rejected a write. Rejects if the API server cannot be reached.
 */
export async function changeObject<T extends KubeObject>(
  { client, dryRun }: BreakGlassRun,
  resource: ResourceInfo,
  initial: T,
  { plan, wait }: { readonly plan: Plan<T>; wait?(): Promise<void> },
): Promise<{ readonly before?: T; readonly error?: string }> {
  const name = objectName(initial);
  let before: T | undefined;
  let object: T | undefined = initial;
  for (let attempt = 1; ; attempt++) {
    try {
      // Lists the object instead of reading it, because replicas have permission only to list objects.
      object ??= (await client.list(resource, { name }))[0] as KubeObject | undefined as T | undefined;
      const write = object && plan(object);
      if (!object || !write) break;
      if (dryRun === 'client') return { before: object };
      await wait?.();
      const written = await sendWrite(client, objectPath(resource, name), write, dryRun);
      before ??= object;
      // A dry run does not store the first write, on which the second depends.
      if (dryRun === 'server') break;
      object = written as T;
      if (attempt >= MAX_ATTEMPTS && plan(object)) return { error: `another client reverts each change to ${name}` };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      if (code === 404) return {};
      if (code !== 409 || attempt >= MAX_ATTEMPTS) return { error: message };
      object = undefined;
    }
  }
  return before ? { before } : {};
}

async function sendWrite(
  { send }: ClusterClient,
  path: string,
  { type, fieldManager, document }: ObjectWrite,
  dryRun: DryRun,
): Promise<KubeObject> {
  const force = type === 'apply' ? { force: 'true' } : {};
  return await send({
    method: 'PATCH',
    path,
    query: { fieldManager, ...force, ...(dryRun === 'server' ? { dryRun: 'All' } : {}) },
    contentType: type === 'apply' ? 'application/apply-patch+yaml' : 'application/merge-patch+json',
    body: document,
  });
}

/**
 * Describes the labels of other clients, which the PodSecurity plugin continues to enforce, and the commands that relax
 * them.
 */
export function describeRemainingLabels(
  namespaces: readonly Namespace[],
  clusterFlags: readonly string[],
): readonly string[] {
  const labels = namespaces.flatMap((namespace) => remainingLabel(namespace) ?? []);
  const groups = Map.groupBy(labels, ({ level, managers }) => `${level} ${managers.join()}`);
  return [...groups.values()].flatMap((group) => {
    const [{ level, managers } = { level: '', managers: [] }] = group;
    const owner = managers.length === 0 ? 'an unknown client' : managers.join(', ');
    const names = group.map(({ namespace }) => namespace);
    return [
      `${level} in ${printCount(group.length, 'namespace')}, by labels owned by ${owner}. To change them:`,
      `  ${printCommand(setLabel(names, `${ENFORCE}=privileged`), clusterFlags)}`,
    ];
  });
}

const KIND = 'ValidatingWebhookConfiguration';

/**
 * Opens the record of levels, which is stored in the last webhook configuration that `off` activates. If there is no
 * such configuration, nothing is recorded.
 */
export function openRecord(run: BreakGlassRun, targets: readonly Target[]): LevelRecord {
  const target = targets.find(({ kind }) => kind === KIND);
  const write = async (change: (before: FormerLevels) => FormerLevels): Promise<string | undefined> => {
    if (!target || run.dryRun !== 'none') return undefined;
    const plan = ({ metadata }: KubeObject): ObjectWrite | undefined => {
      const text = formatLevels(change(readLevels(metadata)));
      if (text === (metadata?.annotations?.[FORMER_LEVELS_ANNOTATION] ?? null)) return undefined;
      const annotations = { [FORMER_LEVELS_ANNOTATION]: text };
      const document = { metadata: { resourceVersion: metadata?.resourceVersion, annotations } };
      return { type: 'merge-patch', fieldManager: INSTALLATION.name, document };
    };
    // Lists the object again, because the command has changed it, and replicas have permission only to list objects.
    const [current] = await run.client.list(RESOURCES[KIND], { name: target.name });
    return current && (await changeObject(run, RESOURCES[KIND], current, { plan })).error;
  };
  return {
    levels: readLevels(target?.metadata),
    add: (namespaces) => write((before) => addLevels(before, namespaces)),
    remove: () => write(() => new Map()),
  };
}

/**
 * Adds the levels of namespaces to the record. A recorded level is replaced only by a stricter level, and a recorded
 * version only by a newer version.
 */
function addLevels(before: FormerLevels, namespaces: readonly Namespace[]): FormerLevels {
  const levels = new Map(before);
  for (const namespace of namespaces) {
    const name = objectName(namespace);
    const { level, version } = labeledPolicy(namespace);
    const recorded = levels.get(name) ?? { level, version };
    levels.set(name, {
      level: isStricter(level, recorded.level) ? level : recorded.level,
      version: compareVersions(version, recorded.version) > 0 ? version : recorded.version,
    });
  }
  return levels;
}

function readLevels(metadata: ObjectMeta | undefined): FormerLevels {
  const groups = metadata?.annotations?.[FORMER_LEVELS_ANNOTATION]?.split(';') ?? [];
  return new Map(
    groups.flatMap((group) => {
      const [policy = '', names = ''] = group.split('=');
      const [level, text = ''] = policy.split(':');
      const version = parseVersion(text) ?? 'latest';
      return isLevel(level) ? names.split(',').map((name) => [name, { level, version }] as const) : [];
    }),
  );
}

function formatLevels(levels: FormerLevels): string | null {
  const groups = Map.groupBy(levels, ([, policy]) => printPolicy(policy));
  const texts = Array.from(groups, ([policy, all]) => `${policy}=${sortedSet(all.map(([name]) => name)).join()}`);
  return texts.length === 0 ? null : texts.sort().join(';');
}
