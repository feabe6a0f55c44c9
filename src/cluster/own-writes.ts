import type { Clock } from './clock.ts';
import { isBefore } from './resource-version.ts';

/** What was written here and the watch has not told of yet. */
export interface OwnWrites {
  wrote(uid: unknown, resourceVersion: string): void;
  removed(uid: unknown): void;
  /** True if the watch tells of something that was before the last write. */
  isOutdated(uid: unknown, resourceVersion: string): boolean;
  /** True if the object was written later than a list was made. */
  isLater(uid: unknown, listVersion: string): boolean;
  /** The watch has told that the object is gone. */
  forget(uid: unknown): void;
}

interface Write {
  /** `undefined`: it was removed. */
  readonly resourceVersion: string | undefined;
  readonly untilMs: number;
}

/** What a watch has not told after so long it never will: a cluster may have been restored to what it was before. */
const KEPT_MS = 60_000;

export function createOwnWrites(clock: Clock): OwnWrites {
  const writes = new Map<unknown, Write>();
  const add = (uid: unknown, resourceVersion: string | undefined): void => {
    const nowMs = clock.now();
    // They lie in the order in which they end.
    for (const [old, { untilMs }] of writes) {
      if (untilMs > nowMs) break;
      writes.delete(old);
    }
    writes.delete(uid);
    writes.set(uid, { resourceVersion, untilMs: nowMs + KEPT_MS });
  };
  const find = (uid: unknown): Write | undefined => {
    const write = writes.get(uid);
    return write && write.untilMs > clock.now() ? write : undefined;
  };
  return {
    wrote: add,
    removed: (uid) => add(uid, undefined),
    isOutdated(uid, resourceVersion) {
      const write = find(uid);
      if (write === undefined) return false;
      if (write.resourceVersion === undefined || isBefore(resourceVersion, write.resourceVersion)) return true;
      writes.delete(uid);
      return false;
    },
    isLater(uid, listVersion) {
      const written = find(uid)?.resourceVersion;
      return written !== undefined && isBefore(listVersion, written);
    },
    forget: (uid) => void writes.delete(uid),
  };
}
