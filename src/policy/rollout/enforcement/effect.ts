import type { DefaultLevel, EnforcementInput, SyncerMode } from './types.ts';

/**
 * True if enforcement is wanted; `undefined` where that hangs on the feature and nobody knows yet whether it is on. Every
 * replica asks this for itself, so that it can stop enforcing without waiting for another: who asks for `Legacy` does not
 * have to wait until a leader has written that into the status.
 */
export function wantsEnforcement({
  phase,
  gate,
  spec,
  status,
}: Pick<EnforcementInput, 'phase' | 'gate' | 'spec' | 'status'>): boolean | undefined {
  const isDecided = spec !== 'Legacy' && status === 'Restricted';
  if (phase === 'Evaluate' || (phase === 'Enforce' && !isDecided)) return false;
  return gate;
}

interface EffectInput extends Pick<EnforcementInput, 'isSettled' | 'currentEnforce' | 'syncer'> {
  readonly want: boolean | undefined;
}

/**
 * The default to run and the mode of the syncer. Upwards labels come first and the default second, downwards the other way
 * round: at no moment a namespace may be without the label that its pods need while the default is restricted.
 */
export function planEffect({ want, currentEnforce, isSettled, syncer = 'Hold' }: EffectInput): {
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
} {
  if (want === undefined) return { enforce: currentEnforce, syncer };
  if (!want) return { enforce: 'privileged', syncer: currentEnforce === 'restricted' ? 'Hold' : 'Advise' };
  return { enforce: currentEnforce === 'restricted' || isSettled ? 'restricted' : 'privileged', syncer: 'Enforce' };
}

/**
 * The default that one replica runs: what has been published, but for `privileged` as soon as it sees for itself that
 * enforcement is not wanted.
 */
export function replicaDefault({
  published,
  want,
}: {
  readonly published: DefaultLevel;
  readonly want: boolean | undefined;
}): DefaultLevel {
  return want === false ? 'privileged' : published;
}

/** The default in force, by what is published and what each replica runs: restricted if any of them is. */
export function currentDefault(reported: readonly DefaultLevel[]): DefaultLevel {
  return reported.includes('restricted') ? 'restricted' : 'privileged';
}
