import type { JsonObject } from '../../../../kube/types.ts';
export function matchesConditions(conditions: readonly JsonObject[], request: JsonObject): boolean | { error: string } {
  void conditions;
  void request;
  return true;
}
