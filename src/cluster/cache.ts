import { hash } from 'node:crypto';
import { type LimitName, LIMITS } from '../kube/limits.ts';
import { countExceeded } from '../telemetry/limits.ts';

/** A cache with limits for its size in bytes and for the lifetime of its entries. */
interface Cache<V> {
  /** Returns the value unless it has expired. */
  get(key: string): V | undefined;
  /**
   * Sets the value of a key, which must be a `digest` or equally short. Drops expired entries and, above the limit, the
   * oldest entries.
   */
  set(key: string, value: V): void;
  delete(key: string): void;
}

interface CacheOptions {
  /** Name of the limit in bytes. Dropped entries are counted in its metric. */
  readonly limit: LimitName;
  /** Maximum size in bytes. Defaults to the limit. */
  readonly maxBytes?: number;
  readonly ttlMs: number;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

/**
 * Memory of an entry, which consists of the key, the value and the overhead of the map. Values must have a fixed size
 * that does not depend on text from requests or objects.
 */
export const CACHE_ENTRY_BYTES = 1024;

export function createCache<V>({ limit, maxBytes = LIMITS[limit], ttlMs, now }: CacheOptions): Cache<V> {
  /** Entries in order of expiry, because all of them have the same lifetime. */
  const entries = new Map<string, { readonly value: V; readonly untilMs: number }>();
  const maxEntries = Math.floor(maxBytes / CACHE_ENTRY_BYTES);
  return {
    get(key) {
      const entry = entries.get(key);
      return entry && entry.untilMs > now() ? entry.value : undefined;
    },
    set(key, value) {
      const nowMs = now();
      entries.delete(key);
      entries.set(key, { value, untilMs: nowMs + ttlMs });
      for (const [oldest, { untilMs }] of entries) {
        if (untilMs > nowMs) {
          if (entries.size <= maxEntries) break;
          countExceeded(limit);
        }
        entries.delete(oldest);
      }
    },
    delete: (key) => void entries.delete(key),
  };
}

/** Returns a key of fixed length for a text of any length. */
export function digest(text: string): string {
  return hash('sha256', text, 'base64');
}
