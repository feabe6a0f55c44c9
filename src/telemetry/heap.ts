/** Reports a nearly full heap before V8 aborts the process. */
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import type { Logger } from './logger.ts';

/**
 * Share of the heap limit above which a warning is logged. If garbage collections repeatedly leave more than 80% in use
 * while the CPU is busy, V8 aborts the process even though the heap is not full.
 */
const MAX_SHARE = 0.7;
/**
 * Share of the heap limit above which no more objects should be stored. The rest is left for buffers and the worker
 * thread.
 */
const FULL_SHARE = 0.5;
/**
 * Growth of the heap in percent after which V8 collects all garbage. By default, the heap could double before the
 * observer notices that a share is exceeded.
 */
const GROWTH = 10;
/** Minimum time between two warnings. */
const INTERVAL_MS = 3_600_000;
const MIB = 1024 * 1024;

export interface HeapObserver {
  /** Returns true if the last major garbage collection left too little free heap to store more objects. */
  isNearlyFull(): boolean;
  stop(): void;
}

/** Observes garbage collections, and logs a warning if they leave too little free heap. */
export function observeHeap(logger: Logger): HeapObserver {
  setFlagsFromString(`--heap-growing-percent=${GROWTH}`);
  let nextMs = 0;
  let isNearlyFull = false;
  const observer = new PerformanceObserver((list) => {
    if (!list.getEntries().some(isMajorCollection)) return;
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
    isNearlyFull = used >= FULL_SHARE * limit;
    const nowMs = performance.now();
    if (used < MAX_SHARE * limit || nowMs < nextMs) return;
    nextMs = nowMs + INTERVAL_MS;
    const sizes = { usedMiB: Math.round(used / MIB), limitMiB: Math.round(limit / MIB) };
    logger.warn(sizes, 'the heap is nearly full: raise the memory limit of the container');
  });
  observer.observe({ entryTypes: ['gc'] });
  return { isNearlyFull: () => isNearlyFull, stop: () => observer.disconnect() };
}

function isMajorCollection(entry: PerformanceEntry & { readonly detail?: unknown }): boolean {
  return (entry.detail as { readonly kind: number }).kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
