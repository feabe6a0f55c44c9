import { defined } from './defined.ts';

/** An item of `status.conditions`. */
export interface Condition extends ConditionState {
  /** Time of the last change of `status`, in RFC 3339 format with second precision. */
  readonly lastTransitionTime: string;
}

/** The desired state of a condition. */
export interface ConditionState {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** CamelCase. */
  readonly reason: string;
  readonly message: string;
  /** The generation of the object that the condition describes. */
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

/** Types of the conditions from which kstatus computes whether an object is ready. Flux and Helm use kstatus. */
export const READY_TYPES: readonly string[] = ['Ready', 'Reconciling', 'Stalled'];

/**
 * Returns the `Ready` condition and, if the object is not ready, `Reconciling` or `Stalled`. A stalled object does not
 * become ready until a user changes this object or another one.
 * @see https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
 */
export function readyConditions(
  progress: 'ready' | 'reconciling' | 'stalled',
  { reason, message, observedGeneration }: Omit<ConditionState, 'type' | 'status'>,
): readonly ConditionState[] {
  const state = { reason, message, ...defined({ observedGeneration }) };
  if (progress === 'ready') return [{ ...state, type: 'Ready', status: 'True' }];
  return [
    { ...state, type: 'Ready', status: 'False' },
    { ...state, type: progress === 'stalled' ? 'Stalled' : 'Reconciling', status: 'True' },
  ];
}
