import { isDeepStrictEqual } from 'node:util';
import { ApiError, internalError } from '../../../kube/status.ts';
import type { ApiObject, Attributes, RequestContext, ResourceInfo } from '../../types.ts';
import { failsOpen, hooksOf, type Hook } from './hook.ts';
import { invoke, type Line } from './invoke.ts';
import { applyPatch, type Decode } from './patch.ts';
import { isExempt, select, type Surroundings } from './selection.ts';
import { throwIfAborted } from './validating.ts';

/** What is remembered from the first round of mutating webhooks for the second. */
export interface Rounds {
  /** Webhooks that want to be asked again once something changes after them, and were asked already. */
  readonly invoked: Set<string>;
  /** Those of them after which something has changed. */
  readonly due: Set<string>;
  /** True once a webhook has changed the object. */
  changed: boolean;
  /** The object as the webhooks left it. */
  output?: ApiObject;
}

export function createRounds(): Rounds {
  return { invoked: new Set(), due: new Set(), changed: false };
}

export interface Mutation {
  readonly attributes: Attributes;
  readonly context: RequestContext;
  readonly surroundings: Surroundings;
  readonly line: Line;
  readonly decode: Decode;
}

/**
 * Asks the mutating webhooks one after the other and returns the object as they leave it. In the second round, only those
 * that have `reinvocationPolicy: IfNeeded`, were asked before, and after which something has changed.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/mutating/dispatcher.go
 */
export async function mutate(mutation: Mutation, rounds: Rounds, round: 0 | 1): Promise<ApiObject | undefined> {
  if (isExempt(mutation.attributes)) return mutation.attributes.object;
  if (round === 1 && !isDeepStrictEqual(rounds.output, mutation.attributes.object)) markDue(rounds);
  let { attributes } = mutation;
  for (const [index, hook] of hooksOf(mutation.surroundings.reader, 'mutating').entries()) {
    const selection = select(hook, attributes, mutation.surroundings);
    if ('refusal' in selection) throw new ApiError(selection.refusal);
    if (!selection.called || (round === 1 && !rounds.due.delete(hook.id))) continue;
    const object = await ask(hook, selection.resource, { ...mutation, attributes }, `round_${round}_index_${index}`);
    if (object && !isDeepStrictEqual(object, attributes.object)) {
      markDue(rounds);
      rounds.changed = true;
    }
    if (object) attributes = { ...attributes, object };
    if (hook.webhook['reinvocationPolicy'] === 'IfNeeded') rounds.invoked.add(hook.id);
  }
  if (attributes.object) rounds.output = structuredClone(attributes.object);
  return attributes.object;
}

function markDue(rounds: Rounds): void {
  for (const id of rounds.invoked) rounds.due.add(id);
  rounds.invoked.clear();
}

/** The object after the webhook; `undefined` if it says nothing about it. */
async function ask(
  hook: Hook,
  resource: ResourceInfo,
  { attributes, context, line, decode }: Mutation,
  place: string,
): Promise<ApiObject | undefined> {
  throwIfAborted(context.signal);
  const said = await invoke('mutating', hook, resource, attributes, line, context);
  const hasPatch = said.kind === 'allowed' && said.patch !== undefined;
  const outcome = hasPatch ? applyPatch(hook, said.patch, attributes, resource, decode) : said;
  if (outcome.kind === 'patched') return outcome.object;
  if (outcome.kind === 'allowed') return undefined;
  if (outcome.kind === 'denied') throw new ApiError(outcome.status);
  if (!failsOpen(hook)) throw new ApiError(internalError(outcome.error));
  context.audit(`failed-open.mutation.webhook.admission.k8s.io/${place}`, hook.name);
  return undefined;
}
