import { deepEqual } from '../kube/equal.ts';

/** Gives the same object for equal JSON; one that is new is kept as `onNew` makes it, which has to be equal. */
export type Intern = (value: unknown, onNew?: (value: object) => object) => unknown;

/** How many old entries are looked at for each new one. */
const SWEPT = 2;

/**
 * Makes a pool of JSON objects; one that nobody else holds goes from it by itself. An entry is no more than a number and
 * a weak reference: most objects of a large cluster are shared by few. Of two objects with one number only one is shared.
 */
export function createIntern(): Intern {
  const pool = new Map<number, WeakRef<object>>();
  let old = pool.entries();
  const sweep = (): void => {
    for (let count = 0; count < SWEPT; count++) {
      const { value: entry } = old.next();
      if (entry === undefined) {
        old = pool.entries();
        return;
      }
      const [key, reference] = entry;
      if (reference.deref() === undefined) pool.delete(key);
    }
  };
  return (value, onNew) => {
    if (typeof value !== 'object' || value === null) return value;
    const key = hashOf(JSON.stringify(value));
    const known = pool.get(key)?.deref();
    if (known !== undefined) return deepEqual(known, value) ? known : value;
    sweep();
    const kept = onNew ? onNew(value) : value;
    pool.set(key, new WeakRef(kept));
    return kept;
  };
}

/** FNV-1a, cut to what an engine keeps without memory of its own. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 2;
}
