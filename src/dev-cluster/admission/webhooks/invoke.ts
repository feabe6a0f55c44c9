import { quote } from '../../../kube/text.ts';
import type { Status } from '../../../kube/status.ts';
import { numberAt, objectAt } from '../../objects/read.ts';
import type { Attributes, RequestContext, ResourceInfo } from '../../types.ts';
import type { CallWebhook } from './call.ts';
import { denialOf, dryRunUnsupported } from './denial.ts';
import type { Hook } from './hook.ts';
import { verifyResponse } from './response.ts';
import { reviewOf } from './review.ts';

/** How a webhook is reached. */
export interface Line {
  readonly call: CallWebhook;
  uid(): string;
}

/** What came of asking a webhook; `failed` means that nobody knows its opinion. */
export type Outcome =
  | { readonly kind: 'allowed'; readonly patch?: string }
  | { readonly kind: 'denied'; readonly status: Status }
  | { readonly kind: 'failed'; readonly error: string };

const DEFAULT_TIMEOUT_SECONDS = 10;
const SAFE_IN_DRY_RUN = new Set<unknown>(['None', 'NoneOnDryRun']);

/** Asks a webhook, and passes its warnings and audit annotations on. */
export async function invoke(
  kind: 'mutating' | 'validating',
  hook: Hook,
  resource: ResourceInfo,
  attributes: Attributes,
  line: Line,
  context: RequestContext,
): Promise<Outcome> {
  const { name, webhook } = hook;
  if (attributes.dryRun && !SAFE_IN_DRY_RUN.has(webhook['sideEffects'])) {
    return { kind: 'denied', status: dryRunUnsupported(name) };
  }
  const uid = line.uid();
  const reply = await line.call({
    clientConfig: objectAt(webhook, 'clientConfig'),
    review: reviewOf(uid, attributes, resource),
    timeoutMs: (numberAt(webhook, 'timeoutSeconds') ?? DEFAULT_TIMEOUT_SECONDS) * 1000,
    signal: context.signal,
  });
  if (!reply.ok) return failed(name, `failed to call webhook: ${reply.error}`);
  const verified = verifyResponse(reply.review, uid, kind);
  if (!verified.ok) return failed(name, verified.error);
  const { answer } = verified;
  for (const [key, value] of Object.entries(answer.auditAnnotations)) context.audit(`${name}/${key}`, value);
  for (const warning of answer.warnings) context.warn(warning);
  if (!answer.allowed) return { kind: 'denied', status: denialOf(name, answer.status) };
  return { kind: 'allowed', ...(answer.patch === undefined ? {} : { patch: answer.patch }) };
}

/** A failed call in the words of the API server. */
export function failed(name: string, cause: string): Outcome {
  return { kind: 'failed', error: `failed calling webhook ${quote(name)}: ${cause}` };
}
