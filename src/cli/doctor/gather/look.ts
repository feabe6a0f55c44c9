import { ApiError } from '../../../kube/status.ts';
import type { Fact } from '../types.ts';

/** The fact that something resolves to, or that the server refuses to tell. Rejects only if it cannot be reached. */
export async function look<T>(what: string, action: () => Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { unknown: `${what}: ${error.message}` };
  }
}

/** A fact that is made from another. */
export async function lookFurther<T, U>(fact: Fact<T>, go: (value: T) => Promise<Fact<U>>): Promise<Fact<U>> {
  return 'value' in fact ? await go(fact.value) : fact;
}
