/**
 * What the API does with objects of each kind besides storing them: defaults, fields that belong to the server,
 * validation. Pure: knows nothing of storage, requests or admission.
 */
import type { Strategy } from '../types.ts';
import { createStrategy, type KindRules } from './strategy.ts';

const kinds: Readonly<Record<string, KindRules>> = {};

/** The strategy of a built-in kind; kinds without rules of their own are stored as they come. */
export function strategyOf(group: string, kind: string): Strategy {
  const key = `${group}/${kind}`;
  return createStrategy((Object.hasOwn(kinds, key) ? kinds[key] : undefined) ?? { namespaced: true });
}
