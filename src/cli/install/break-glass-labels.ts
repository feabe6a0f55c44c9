/** The enforce labels of namespaces during break-glass: their relaxation, their restoration, and the labels that remain. */
import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterClient } from '../../cluster/client.ts';
import { createTokenBucket, systemClock, type TokenBucket } from '../../cluster/clock.ts';
import { objectPath, RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isRelaxed } from '../../policy/rollout/label-sync.ts';
import {
  type NamespaceWrite,
  planRelaxation,
  planRestoration,
  remainingLabel,
  restorationProblem,
} from '../../policy/rollout/relaxation.ts';
import { type DryRun, dryRunSuffix } from '../cluster.ts';
import type { Output } from '../command.ts';
import { printable, withProgress } from '../output/print.ts';

const { enforce: ENFORCE } = POD_SECURITY_LABELS;

/** Limits for the load on API servers. `relaxLabels` sends one write for each namespace, `restoreLabels` two. */
const CONCURRENCY = 16;
const RATE = { perSecond: 200, burst: 50 };

/** Maximum attempts for a namespace that other clients change concurrently. */
const MAX_ATTEMPTS = 5;
/** Passes of `relaxLabels`: a replica may set labels until it observes that break-glass is on. */
const MAX_PASSES = 3;

export interface LabelRun {
  readonly client: ClusterClient;
  readonly dryRun: DryRun;
  readonly text: Output;
  readonly stderr: Output;
}

export async function listNamespaces(client: ClusterClient): Promise<readonly Namespace[]> {
  return await client.list(RESOURCES.Namespace);
}

/** The result of a change of many namespaces. */
export interface LabelResult {
  readonly isChanged: boolean;
  /** True if some labels could not be changed, or not restored exactly. */
  readonly isIncomplete: boolean;
}

/** Relaxes the labels of Portcullis. Skips namespaces that are already relaxed, so it can be repeated. */
export async function relaxLabels(run: LabelRun, namespaces: readonly Namespace[]): Promise<LabelResult> {
  const rejected = new Map<string, string>();
  let changed = 0;
  let due = namespaces.filter(planRelaxation);
  for (let pass = 1; due.length > 0 && pass <= MAX_PASSES; pass++) {
    const result = await changeNamespaces(run, due, { verb: 'relaxed', plan: planRelaxation });
    changed += result.changed.length;
    for (const [name, message] of result.rejected) rejected.set(name, message);
    if (run.dryRun !== 'none' || result.changed.length === 0) break;
    due = (await listNamespaces(run.client)).filter((one) => planRelaxation(one) && !rejected.has(nameOf(one)));
  }
  const unchanged = namespaces.filter(isRelaxed).length;
  if (changed > 0) report(run, `${ENFORCE}=privileged set in ${printCount(changed, 'namespace')}`);
  else if (unchanged > 0) print(run, `unchanged: ${ENFORCE}=privileged in ${printCount(unchanged, 'namespace')}`);
  printRejected(run, rejected);
  return { isChanged: changed > 0, isIncomplete: rejected.size > 0 };
}

/** Restores the labels that `relaxLabels` changed. Labels that another client has changed in the meantime stay as they are. */
export async function restoreLabels(run: LabelRun, namespaces: readonly Namespace[]): Promise<LabelResult> {
  const due = namespaces.filter(planRestoration);
  const { changed, rejected } = await changeNamespaces(run, due, { verb: 'restored', plan: planRestoration });
  const byProblem = Map.groupBy(changed, restorationProblem);
  const names = (kept: readonly Namespace[]): string => summarizeNames(kept.map(nameOf));
  const restored = byProblem.get(undefined) ?? [];
  const [kept, lost] = [byProblem.get('changed') ?? [], byProblem.get('lost') ?? []];
  if (restored.length > 0) report(run, `${ENFORCE} restored in ${printCount(restored.length, 'namespace')}`);
  if (kept.length > 0) {
    print(run, `kept in ${printCount(kept.length, 'namespace')}, changed by another client: ${names(kept)}`);
  }
  if (lost.length > 0) {
    const consequence = 'the label was removed, and the label syncer sets it again';
    print(
      run,
      `not restored in ${printCount(lost.length, 'namespace')} without the former level: ${names(lost)}; ${consequence}`,
    );
  }
  printRejected(run, rejected);
  return { isChanged: changed.length > 0, isIncomplete: rejected.size > 0 || lost.length > 0 };
}

function print({ text }: LabelRun, line: string): void {
  text.write(`${printable(`labels: ${line}`)}\n`);
}

function report(run: LabelRun, text: string): void {
  print(run, `${text}${dryRunSuffix(run.dryRun)}`);
}

/** One line for each error, since the same error usually affects all namespaces. */
function printRejected(run: LabelRun, rejected: ReadonlyMap<string, string>): void {
  // The message contains the namespace.
  const byMessage = Map.groupBy(rejected, ([name, message]) => message.replaceAll(`"${name}"`, '"…"'));
  for (const [, all] of byMessage) {
    const names = summarizeNames(all.map(([name]) => name));
    print(run, `not changed in ${printCount(all.length, 'namespace')}: ${names}: ${all[0]?.[1] ?? ''}`);
  }
}

function nameOf({ metadata }: Namespace): string {
  return metadata?.name ?? '';
}

interface Change {
  readonly verb: string;
  /** Returns the next write of a namespace. */
  plan(namespace: Namespace): NamespaceWrite | undefined;
}

/** Changes namespaces at a limited rate. Prints how many are changed if it is interrupted or the server cannot be reached. */
async function changeNamespaces(run: LabelRun, due: readonly Namespace[], { verb, plan }: Change) {
  const limit = createTokenBucket(RATE, systemClock);
  const changed: Namespace[] = [];
  const rejected = new Map<string, string>();
  const remaining = due.values();
  let done = 0;
  await withProgress(run.stderr, async (show) => {
    const work = async (): Promise<void> => {
      for (const namespace of remaining) {
        const outcome = await changeNamespace(run, namespace, { plan, limit });
        if (outcome.error !== undefined) rejected.set(nameOf(namespace), outcome.error);
        else if (outcome.before) changed.push(outcome.before);
        show(`labels: ${verb} in ${++done} of ${due.length} namespaces`);
      }
    };
    const results = await Promise.allSettled(Array.from({ length: CONCURRENCY }, work));
    const failed = results.find((result) => result.status === 'rejected');
    if (!failed) return;
    print(
      run,
      `interrupted: ${verb} in ${changed.length} of ${printCount(due.length, 'namespace')}. To continue, repeat the command`,
    );
    throw failed.reason;
  });
  return { changed, rejected };
}

/** `before`: the namespace before its change; absent if it did not change. `error`: the API server rejected a write. */
interface NamespaceOutcome {
  readonly before?: Namespace;
  readonly error?: string;
}

/** Sends the planned writes of a namespace. Rejects if the server cannot be reached. */
async function changeNamespace(
  { client, dryRun }: LabelRun,
  initial: Namespace,
  { plan, limit }: Pick<Change, 'plan'> & { readonly limit: TokenBucket },
): Promise<NamespaceOutcome> {
  const name = nameOf(initial);
  let outcome: NamespaceOutcome = {};
  let namespace: Namespace | undefined = initial;
  for (let attempt = 1; namespace;) {
    const write = plan(namespace);
    if (!write) return outcome;
    if (dryRun === 'client') return { before: namespace };
    // The timers of the clock would not keep the process alive.
    await pause(limit.reserve(), undefined, { signal: client.signal });
    try {
      const before: Namespace = outcome.before ?? namespace;
      namespace = await sendWrite(client, name, write, dryRun);
      outcome = { before };
      // A dry run does not store the first write, on which the second depends.
      if (dryRun === 'server') return outcome;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      if (code === 404) return {};
      if (code !== 409 || ++attempt > MAX_ATTEMPTS) return { ...outcome, error: message };
      namespace = await client.get(RESOURCES.Namespace, name);
    }
  }
  return outcome;
}

async function sendWrite(
  { send }: ClusterClient,
  name: string,
  { type, fieldManager, document }: NamespaceWrite,
  dryRun: DryRun,
): Promise<Namespace> {
  return await send({
    method: 'PATCH',
    path: objectPath(RESOURCES.Namespace, name),
    query: {
      fieldManager,
      ...(type === 'apply' ? { force: 'true' } : {}),
      ...(dryRun === 'server' ? { dryRun: 'All' } : {}),
    },
    contentType: type === 'apply' ? 'application/apply-patch+yaml' : 'application/merge-patch+json',
    body: document,
  });
}

/** Describes the labels of other clients, which the PodSecurity plugin continues to enforce, with the commands to relax them. */
export function describeRemainingLabels(namespaces: readonly Namespace[]): readonly string[] {
  const labels = namespaces.flatMap((one) => remainingLabel(one) ?? []);
  const groups = Map.groupBy(labels, ({ level, managers }) => `${level} ${managers.join()}`);
  return [...groups.values()].flatMap((group) => {
    const [{ level, managers } = { level: '', managers: [] }] = group;
    const owner = managers.length === 0 ? 'an unknown client' : managers.join(', ');
    const names = group.map(({ namespace }) => namespace).join(' ');
    return [
      `${level} in ${printCount(group.length, 'namespace')}, by labels of ${owner}. To change them:`,
      `  kubectl label --overwrite namespace ${names} ${ENFORCE}=privileged`,
    ];
  });
}
