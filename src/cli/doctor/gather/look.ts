import { ApiError } from '../../../kube/status.ts';
import type { Fact } from '../types.ts';

/** The fact that something resolves to, or that the server refuses to tell. Rejects only if it cannot be reached. */
export async function look<T>(action: () => Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await action() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { unknown: error.message };
  }
}
