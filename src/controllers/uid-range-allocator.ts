import { shortened } from '../kube/quote.ts';
import { apiVersionOf } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { Namespace } from '../kube/types.ts';
import { annotationsOfBlock, needOf } from '../policy/uid-range/annotations.ts';
import { ORPHANED_MS } from '../policy/uid-range/repair.ts';
import type { RangeSettings } from '../policy/uid-range/settings.ts';
import { rangeProblems } from '../policy/uid-range/range-problems.ts';
import { RANGE_ALLOCATION_NAME } from '../policy/uid-range/state.ts';
import { printUidRange } from '../policy/uid-range/uid-range.ts';
import { on, type Controller, type ReconcileContext, type ReconcileResult } from './controller.ts';
import { createRangeState, type Reservation } from './range-state.ts';

/** Named as the controller of the original, which on OpenShift writes under another field manager. */
export const UID_RANGE_ALLOCATOR = 'namespace-security-allocation-controller';

/** The key that stands for the state object; no namespace can be called that. */
const REPAIR = 'repair/';
const REPAIR_MS = 8 * 60 * 60_000;
/** The keys that stand for the ranges that namespaces have: one of them has changed, and look at all. */
const RANGES_CHANGED = 'ranges-changed/';
const CHECK_RANGES = 'check-ranges/';
/** Namespaces come in bursts. */
const CHECK_DELAY_MS = 1000;
/** How soon a range that is full is looked at again. */
const FULL_MS = 60_000;
const RESYNC_MS = 10 * 60_000;
/** So many namespaces get their blocks by one write of the state object, and are annotated at a time. */
const CONCURRENCY = 32;
/** As often as the original tries to repair at start. */
const MAX_RETRY_MS = 10_000;

/**
 * Gives each namespace ids, groups and a label of its own. What is there already stays as it is.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/controller/namespace_scc_allocation_controller.go
 */
export function createUidRangeAllocator(settings: RangeSettings): Controller {
  const state = createRangeState(settings, UID_RANGE_ALLOCATOR);
  /** False until the state object agrees with the namespaces; what they need waits for that. */
  let isRepaired = false;
  let isFull = false;
  /** What is wrong with ranges that somebody has chosen. */
  let told: RangeProblems = new Map();

  const repair = async (context: ReconcileContext): Promise<ReconcileResult> => {
    isRepaired = false;
    const { orphans, ...plan } = await state.repair(context);
    if (plan.isFull && !isFull) tellFull(settings, context);
    isFull = plan.isFull;
    if (isFull) return { requeueAfterMs: FULL_MS };
    isRepaired = true;
    for (const namespace of context.cluster.store.list('Namespace')) {
      for (const key of keysOf(namespace, settings)) context.enqueue(key);
    }
    return { requeueAfterMs: orphans.size > 0 ? ORPHANED_MS : REPAIR_MS };
  };

  /** `undefined` if the state object is to be repaired, as is known already: then all who need a block come again. */
  const take = async (name: string, context: ReconcileContext): Promise<Reservation | undefined> => {
    try {
      return await state.take(name, context);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (!isRepaired) return undefined;
      isRepaired = false;
      context.enqueue(REPAIR);
      throw error;
    }
  };
  const giveBack = (reservation: Reservation, context: ReconcileContext): void => {
    state.giveBack(reservation);
    // Should nobody take it, it is released.
    context.enqueue(REPAIR, ORPHANED_MS);
  };

  const allot = async (name: string, context: ReconcileContext): Promise<void> => {
    const reservation = await take(name, context);
    if (!reservation) return;
    const namespace = context.cluster.store.get('Namespace', name);
    if (!namespace || needOf(namespace, settings) !== 'block') {
      giveBack(reservation, context);
      return;
    }
    try {
      await annotate(namespace, annotationsOfBlock(reservation.block, namespace, settings), context);
    } catch (error) {
      // A refusal is known to have written nothing. After any other failure the namespace may have the block.
      const isRefused = error instanceof ApiError && error.status.code < 500;
      giveBack(isRefused ? reservation : { ...reservation, onlyFor: name }, context);
      throw error;
    }
  };

  return {
    name: UID_RANGE_ALLOCATOR,
    runs: 'leader',
    keys: [REPAIR],
    sources: [on('Namespace', (namespace) => keysOf(namespace, settings)), on('Namespace', () => [RANGES_CHANGED])],
    resyncMs: RESYNC_MS,
    maxRetryMs: MAX_RETRY_MS,
    concurrency: CONCURRENCY,
    async reconcile(key, context) {
      if (key === REPAIR) return repair(context);
      if (key === CHECK_RANGES) told = tellProblems(told, context);
      if (key === RANGES_CHANGED) context.enqueue(CHECK_RANGES, CHECK_DELAY_MS);
      const namespace = isRepaired ? context.cluster.store.get('Namespace', key) : undefined;
      const need = namespace && needOf(namespace, settings);
      if (need === 'block') await allot(key, context);
      else if (namespace && need) await annotate(namespace, need.annotations, context);
      return undefined;
    },
  };
}

function keysOf(namespace: Namespace, settings: RangeSettings): readonly string[] {
  return needOf(namespace, settings) ? [namespace.metadata?.name ?? ''] : [];
}

/** Writes all annotations of the namespace that are ours, unless it has changed since it was read. */
async function annotate(
  { metadata: { name = '', uid, resourceVersion = '' } = {} }: Namespace,
  annotations: Readonly<Record<string, string>>,
  { cluster, logger, tell }: ReconcileContext,
): Promise<void> {
  const type = { apiVersion: apiVersionOf('Namespace'), kind: 'Namespace' };
  await cluster.apply(
    'Namespace',
    { ...type, metadata: { name, resourceVersion, annotations } },
    { fieldManager: UID_RANGE_ALLOCATOR },
  );
  logger.info({ namespace: name, annotations }, 'namespace has its ranges');
  tell({
    regarding: { ...type, metadata: { name, ...(uid === undefined ? {} : { uid }) } },
    type: 'Normal',
    reason: 'CreatedSCCRanges',
    action: 'Allocate',
    note: `created SCC ranges for ${name} namespace`,
  });
}

/** What is wrong with the ranges of namespaces, by their names. */
type RangeProblems = ReturnType<typeof rangeProblems>;

/** Tells what is new, since the allocator leaves ranges as they are; returns all there is. */
function tellProblems(told: RangeProblems, { cluster, logger, tell }: ReconcileContext): RangeProblems {
  const found = rangeProblems(cluster.store.list('Namespace'));
  for (const [name, problems] of found) {
    const note = problems.join('; ');
    if (told.get(name)?.join('; ') === note) continue;
    logger.warn({ namespace: name, reason: note }, 'namespace has ranges that are wrong');
    const uid = cluster.store.get('Namespace', name)?.metadata?.uid;
    tell({
      regarding: {
        apiVersion: apiVersionOf('Namespace'),
        kind: 'Namespace',
        metadata: { name, ...(uid === undefined ? {} : { uid }) },
      },
      type: 'Warning',
      reason: 'InvalidSCCRanges',
      action: 'Check',
      note: `${shortened(note, 700)}; correct it, or remove the annotations so that they are allocated`,
    });
  }
  return found;
}

function tellFull({ uidRange }: RangeSettings, { logger, tell }: ReconcileContext): void {
  const note = `the UID range ${printUidRange(uidRange)} is full; you must widen the range in order to allocate more UIDs`;
  logger.error({ reason: note }, 'new namespaces get no ids');
  tell({
    regarding: {
      apiVersion: apiVersionOf('RangeAllocation'),
      kind: 'RangeAllocation',
      metadata: { name: RANGE_ALLOCATION_NAME },
    },
    type: 'Warning',
    reason: 'UIDRangeFull',
    action: 'Repair',
    note,
  });
}
