/** The most recent decisions of the development cluster's webhooks. */
import type { CallWebhook, WebhookReply } from '../../dev-cluster/index.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { Decision } from '../../web/report-data.ts';
import type { DecisionLog } from '../report/live-report.ts';

/** Number of decisions to keep. */
const CAPACITY = 200;

/** Maximum length of a message to keep. */
const MAX_TEXT = 1000;

/** Returns webhook calls that record their decisions. */
export function recordDecisions(call: CallWebhook): { readonly call: CallWebhook; readonly decisions: DecisionLog } {
  const listeners = new Set<() => void>();
  let recent: readonly Decision[] = [];
  return {
    async call(input) {
      const reply = await call(input);
      const { service } = input.clientConfig;
      const path = textAt(isObject(service) ? service : {}, 'path');
      recent = [describe(path, objectAt(input.review, 'request'), reply), ...recent].slice(0, CAPACITY);
      for (const listener of listeners) listener();
      return reply;
    },
    decisions: {
      list: () => recent,
      subscribe(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
  };
}

function describe(webhook: string, request: JsonObject, reply: WebhookReply): Decision {
  const subresource = textAt(request, 'subResource');
  const name = textAt(request, 'name') || textAt(objectAt(objectAt(request, 'object'), 'metadata'), 'generateName');
  return {
    time: new Date().toISOString(),
    webhook,
    operation: textAt(request, 'operation'),
    kind: textAt(objectAt(request, 'kind'), 'kind'),
    namespace: textAt(request, 'namespace'),
    name: subresource === '' ? name : `${name}/${subresource}`,
    user: textAt(objectAt(request, 'userInfo'), 'username'),
    ...(reply.ok ? readVerdict(objectAt(reply.review, 'response')) : { verdict: 'failed', text: reply.error }),
  };
}

function readVerdict(response: JsonObject): Pick<Decision, 'verdict' | 'text'> {
  const shorten = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text);
  const { warnings, patch } = response;
  if (response['allowed'] !== true) {
    return { verdict: 'denied', text: shorten(textAt(objectAt(response, 'status'), 'message')) };
  }
  if (Array.isArray(warnings) && warnings.length > 0) return { verdict: 'warned', text: shorten(warnings.join('; ')) };
  return typeof patch === 'string'
    ? { verdict: 'changed', text: shorten(describePatch(patch)) }
    : { verdict: 'allowed', text: '' };
}

/** Paths that a base64-encoded JSON patch changes. */
function describePatch(patch: string): string {
  const operations: unknown = JSON.parse(Buffer.from(patch, 'base64').toString());
  return (Array.isArray(operations) ? operations : []).map((one: unknown) => textAt(one, 'path')).join(', ');
}

function objectAt(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isObject(value) ? value : {};
}

function textAt(object: unknown, name: string): string {
  const value = isObject(object) ? object[name] : undefined;
  return typeof value === 'string' ? value : '';
}
