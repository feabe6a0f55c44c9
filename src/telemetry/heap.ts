/** Warns before V8 ends the process because the heap is full. */
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { Logger } from './logger.ts';

/**
 * Share of the heap limit. If garbage collections repeatedly leave more than 80% in use while the CPU is busy, V8 ends
 * the process although the heap is not full.
 */
const MAX_SHARE = 0.7;
/** Minimum time between two warnings. */
const INTERVAL_MS = 3_600_000;
const MIB = 1024 * 1024;

/** Logs a warning if a garbage collection leaves too little free heap. Returns a function that stops the observation. */
export function observeHeap(logger: Logger): () => void {
  let nextMs = 0;
  const observer = new PerformanceObserver((list) => {
    const nowMs = performance.now();
    if (nowMs < nextMs || !list.getEntries().some(isMajorCollection)) return;
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
    if (used < MAX_SHARE * limit) return;
    nextMs = nowMs + INTERVAL_MS;
    const sizes = { usedMiB: Math.round(used / MIB), limitMiB: Math.round(limit / MIB) };
    logger.warn(sizes, 'the heap is nearly full: raise the memory limit of the container');
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => observer.disconnect();
}

function isMajorCollection(entry: PerformanceEntry & { readonly detail?: unknown }): boolean {
  return (entry.detail as { readonly kind: number }).kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
