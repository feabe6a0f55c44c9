import { ApiError, createStatus, internalError, type Status } from '../../../kube/status.ts';
import type { Attributes, RequestContext, ResourceInfo } from '../../types.ts';
import { failsOpen, hooksOf, type Hook } from './hook.ts';
import { invoke, type Line } from './invoke.ts';
import { isExempt, select, type Surroundings } from './selection.ts';

/**
 * Asks all validating webhooks at once and waits for all. The first refusal in the order of the webhooks is the answer,
 * where the API server takes the one that came first.
 */
export async function validate(
  attributes: Attributes,
  context: RequestContext,
  surroundings: Surroundings,
  line: Line,
): Promise<void> {
  if (isExempt(attributes)) return;
  const called = calls(attributes, surroundings);
  if (called.length > 0) throwIfAborted(context.signal);
  const refusals = await Promise.all(
    called.map(async ([hook, resource], index): Promise<Status | undefined> => {
      const outcome = await invoke('validating', hook, resource, attributes, line, context);
      if (outcome.kind === 'allowed') return undefined;
      if (outcome.kind === 'denied') return outcome.status;
      if (!failsOpen(hook)) return internalError(outcome.error);
      context.audit(`failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`, hook.name);
      return undefined;
    }),
  );
  const refusal = refusals.find((status) => status !== undefined);
  if (refusal) throw new ApiError(refusal);
}

function calls(attributes: Attributes, surroundings: Surroundings): (readonly [Hook, ResourceInfo])[] {
  return hooksOf(surroundings.reader, 'validating').flatMap((hook) => {
    const selection = select(hook, attributes, surroundings);
    if (selection.called) return [[hook, selection.resource] as const];
    if ('refusal' in selection) throw new ApiError(selection.refusal);
    return [];
  });
}

/** 504 once the requester has gone, or waited too long. */
export function throwIfAborted(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw new ApiError(createStatus(504, 'Timeout', 'Timeout: request did not complete within requested timeout'));
}
