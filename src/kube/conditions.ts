/** An item of `status.conditions`. */
export interface Condition extends ConditionState {
  /** Time when `status` last changed, in RFC 3339 format with second precision. */
  readonly lastTransitionTime: string;
}

/** The desired state of a condition. */
export interface ConditionState {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** CamelCase. */
  readonly reason: string;
  readonly message: string;
  /** The object's generation that the condition describes. */
  readonly observedGeneration?: number;
}

/**
 * Adds transition times to conditions. A condition whose status does not change keeps its time. Drops previous
 * conditions that are not in the list.
 * @param now in RFC 3339 format with second precision
 */
export function withTransitionTimes(
  states: readonly ConditionState[],
  previous: readonly Condition[] | null | undefined,
  now: string,
): Condition[] {
  const known = new Map(previous?.map((condition) => [condition.type, condition]));
  return states.map((state) => {
    const { status, lastTransitionTime = now } = known.get(state.type) ?? {};
    return { ...state, lastTransitionTime: status === state.status ? lastTransitionTime : now };
  });
}
