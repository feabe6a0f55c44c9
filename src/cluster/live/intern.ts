import { hash } from 'node:crypto';

/** Gives the same object for equal JSON. */
export type Intern = (value: unknown) => unknown;

/** Makes a pool of JSON objects; one that nobody else holds goes from it by itself. */
export function createIntern(): Intern {
  const pool = new Map<string, WeakRef<object>>();
  const registry = new FinalizationRegistry<string>((key) => {
    if (pool.get(key)?.deref() === undefined) pool.delete(key);
  });
  return (value) => {
    if (typeof value !== 'object' || value === null) return value;
    const key = hash('sha256', JSON.stringify(value), 'base64');
    const known = pool.get(key)?.deref();
    if (known) return known;
    pool.set(key, new WeakRef(value));
    registry.register(value, key);
    return value;
  };
}
