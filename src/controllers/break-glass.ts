/** Determines whether break-glass is on from the webhook configurations and policies that it changes. */
import { FLOOR_POLICIES, isFloorPolicy, POLICY_KINDS } from '../api/admission-policies.ts';
import { BREAK_GLASS_ANNOTATION } from '../api/names.ts';
import { CONFIGURATION_KINDS, isKnownConfiguration } from '../api/webhooks.ts';
import type { Store } from '../cluster/store.ts';
import { type Source, watch } from './controller.ts';

/** Enqueues the keys whenever an object that break-glass can change is modified. */
export function watchBreakGlass(keys: readonly string[]): readonly Source[] {
  return [
    ...POLICY_KINDS.map((kind) => watch(kind, ({ metadata }) => (isFloorPolicy(kind, metadata?.name) ? keys : []))),
    ...CONFIGURATION_KINDS.map((kind) =>
      watch(kind, ({ metadata }) => (isKnownConfiguration(kind, metadata?.name) ? keys : [])),
    ),
  ];
}

/** Returns true if break-glass is on for one of the installation's webhook configurations or policies. */
export function isBreakGlassOn(store: Store): boolean {
  return [
    ...CONFIGURATION_KINDS.flatMap((kind) =>
      store.list(kind).filter(({ metadata }) => isKnownConfiguration(kind, metadata?.name)),
    ),
    ...listFloorPolicies(store).map(({ object }) => object),
  ].some(({ metadata }) => metadata?.annotations?.[BREAK_GLASS_ANNOTATION] !== undefined);
}

/** Returns the stored policies and bindings of the floor, each policy before its binding. */
export function listFloorPolicies(store: Store) {
  return POLICY_KINDS.flatMap((kind) =>
    FLOOR_POLICIES[kind].flatMap((name) => {
      const object = store.get(kind, name);
      return object ? [{ kind, name, object }] : [];
    }),
  );
}
