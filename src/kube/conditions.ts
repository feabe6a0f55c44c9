/** One aspect of an object's state, as in `status.conditions`. */
export interface Condition extends ConditionState {
  /** RFC 3339, in seconds: when `status` last changed. */
  readonly lastTransitionTime: string;
}

/** A condition as it is to be, without its past. */
export interface ConditionState {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** One word. */
  readonly reason: string;
  readonly message: string;
  /** The generation of the object that it speaks of. */
  readonly observedGeneration?: number;
}

/**
 * The conditions with their times: one keeps its time for as long as its status stays the same, whatever else changes.
 * Conditions that are not to be any more are gone.
 * @param now RFC 3339, in seconds
 */
export function withTransitionTimes(
  states: readonly ConditionState[],
  before: readonly Condition[] | null | undefined,
  now: string,
): Condition[] {
  const known = new Map(before?.map((condition) => [condition.type, condition]));
  return states.map((state) => {
    const { status, lastTransitionTime = now } = known.get(state.type) ?? {};
    return { ...state, lastTransitionTime: status === state.status ? lastTransitionTime : now };
  });
}
