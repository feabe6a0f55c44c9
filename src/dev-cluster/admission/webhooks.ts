import { isDeepStrictEqual } from 'node:util';
import { matchesLabelSelector } from '../../kube/webhooks.ts';
import { ApiError, forbidden, internalError, notFound, type Status } from '../../kube/status.ts';
import type { JsonObject } from '../../kube/types.ts';
import { matchesRule } from '../../kube/webhooks.ts';
import { matchesConditions } from '../match-conditions.ts';
import type { Attributes, RequestContext } from '../request.ts';
import {
  itemsAt,
  metadataOf,
  objectAt,
  textAt,
  type ApiObject,
  type ObjectReader,
  type ResourceInfo,
} from '../types.ts';
import type { CallWebhook } from './https.ts';
import {
  applyWebhookPatch,
  callWebhook,
  reviewRequest,
  type DecodeObject,
  type SelectedWebhook,
  type Webhook,
  type WebhookType,
} from './review.ts';

export interface WebhookOptions {
  readonly reader: ObjectReader;
  /** Returns all versions in which a resource is served. */
  versionsOf(info: ResourceInfo): readonly ResourceInfo[];
  readonly decode: DecodeObject;
  readonly call: CallWebhook;
  /** Returns a new UID for a review. */
  uid(): string;
}

/** The mutating webhooks of one request. */
export interface MutatingWebhooks {
  /**
   * Calls the webhooks one after another. The second call only calls webhooks with `reinvocationPolicy: IfNeeded` after
   * which the object has changed.
   */
  run(attributes: Attributes): Promise<Attributes>;
  /** True if a webhook has changed the object. */
  changed(): boolean;
}

/** @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/mutating/dispatcher.go */
export function createMutatingWebhooks(options: WebhookOptions, context: RequestContext): MutatingWebhooks {
  /** Webhooks that have been called and accept a reinvocation. */
  const reinvocable = new Set<string>();
  /** Webhooks after which the object has changed. */
  const due = new Set<string>();
  let changed = false;
  let round = 0;
  let output: ApiObject | undefined;

  const markDue = (): void => {
    for (const id of reinvocable) due.add(id);
    reinvocable.clear();
  };

  return {
    changed: () => changed,
    async run(given) {
      if (isExempt(given)) return given;
      let attributes = given;
      if (round > 0 && !isDeepStrictEqual(output, given.object)) markDue();
      for (const [index, webhook] of webhooksOf(options.reader, 'mutating').entries()) {
        const selected = select(webhook, attributes, options);
        if (!selected || (round > 0 && !due.delete(webhook.id))) continue;
        const object = await mutateWith(selected, attributes, context, options, `round_${round}_index_${index}`);
        if (!isDeepStrictEqual(object, attributes.object)) {
          markDue();
          changed = true;
        }
        attributes = { ...attributes, ...(object && { object }) };
        if (webhook.definition['reinvocationPolicy'] === 'IfNeeded') reinvocable.add(webhook.id);
      }
      round += 1;
      output = structuredClone(attributes.object);
      return attributes;
    },
  };
}

/** Returns the object with the patch of a webhook. */
async function mutateWith(
  webhook: SelectedWebhook,
  attributes: Attributes,
  context: RequestContext,
  options: WebhookOptions,
  position: string,
): Promise<ApiObject | undefined> {
  const outcome = await callWebhook('mutating', webhook, attributes, context, options);
  if (outcome.kind === 'denied') throw new ApiError(outcome.status);
  if (outcome.kind === 'allowed') return applyWebhookPatch(webhook, outcome.patch, attributes, options.decode);
  if (!failsOpen(webhook)) throw new ApiError(internalError(outcome.error));
  context.audit(`failed-open.mutation.webhook.admission.k8s.io/${position}`, webhook.name);
  return attributes.object;
}

/**
 * Calls all validating webhooks concurrently. If several deny the request, the first in the order of the webhooks
 * determines the error; in the API server, it is the first to respond.
 */
export async function validateWithWebhooks(
  options: WebhookOptions,
  attributes: Attributes,
  context: RequestContext,
): Promise<void> {
  if (isExempt(attributes)) return;
  const selected = webhooksOf(options.reader, 'validating').flatMap(
    (webhook) => select(webhook, attributes, options) ?? [],
  );
  const denials = await Promise.all(
    selected.map(async (webhook, index): Promise<Status | undefined> => {
      const outcome = await callWebhook('validating', webhook, attributes, context, options);
      if (outcome.kind === 'allowed') return undefined;
      if (outcome.kind === 'denied') return outcome.status;
      if (!failsOpen(webhook)) return internalError(outcome.error);
      context.audit(`failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`, webhook.name);
      return undefined;
    }),
  );
  const denial = denials.find((status) => status !== undefined);
  if (denial) throw new ApiError(denial);
}

/** Webhooks do not receive webhook configurations, so that a broken configuration can be repaired. */
function isExempt({ resource }: Attributes): boolean {
  return resource.group === 'admissionregistration.k8s.io';
}

/** Returns all webhooks of a type, ordered by the name of the configuration and the position in it. */
function webhooksOf(reader: ObjectReader, type: WebhookType): readonly Webhook[] {
  const key = { group: 'admissionregistration.k8s.io', resource: `${type}webhookconfigurations` };
  return reader.list(key).flatMap((configuration) =>
    itemsAt(configuration, 'webhooks').map((definition, index) => ({
      id: `${metadataOf(configuration).name ?? ''}/${index}`,
      name: textAt(definition, 'name'),
      definition,
    })),
  );
}

function failsOpen({ definition }: Webhook): boolean {
  return definition['failurePolicy'] === 'Ignore';
}

const NAMESPACES = { group: '', resource: 'namespaces' };

/**
 * Returns a webhook with the version of the resource in which it receives a request, or `undefined` if it is not called.
 * Throws an ApiError if the selection fails.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/generic/webhook.go
 */
function select(webhook: Webhook, attributes: Attributes, options: WebhookOptions): SelectedWebhook | undefined {
  const { definition } = webhook;
  const labels = namespaceLabels(definition, attributes, options.reader);
  if (typeof labels === 'object' && !matchesLabelSelector(definition['namespaceSelector'], labels)) return undefined;
  if (!matchesObject(definition, attributes)) return undefined;
  const resource = matchedResource(definition, attributes, options);
  if (!resource) return undefined;
  if (labels === 'missing') throw new ApiError(notFound(NAMESPACES, attributes.namespace));
  return meetsConditions(webhook, attributes, resource) ? { ...webhook, resource } : undefined;
}

type Labels = Readonly<Record<string, string>>;

/** Returns the labels that the namespace selector applies to, or `all` if the request matches in any case. */
function namespaceLabels(
  definition: JsonObject,
  attributes: Attributes,
  reader: ObjectReader,
): Labels | 'all' | 'missing' {
  const { resource, namespace, subresource, object } = attributes;
  if (namespace === '' || isEmptySelector(definition['namespaceSelector'])) return 'all';
  const isNamespace = resource.group === '' && resource.resource === 'namespaces';
  if (isNamespace && subresource === '' && object) return metadataOf(object).labels ?? {};
  const stored = reader.get(NAMESPACES, '', namespace);
  return stored ? (metadataOf(stored).labels ?? {}) : 'missing';
}

function isEmptySelector(selector: unknown): boolean {
  return (
    Object.keys(objectAt(selector, 'matchLabels')).length === 0 && itemsAt(selector, 'matchExpressions').length === 0
  );
}

function matchesObject({ objectSelector }: JsonObject, { object, oldObject }: Attributes): boolean {
  if (isEmptySelector(objectSelector)) return true;
  return [object, oldObject].some(
    (one) => one?.metadata && matchesLabelSelector(objectSelector, metadataOf(one).labels ?? {}),
  );
}

/** Returns the requested version, or with `matchPolicy: Equivalent` another version that a rule matches. */
function matchedResource(definition: JsonObject, attributes: Attributes, options: WebhookOptions) {
  const rules = itemsAt(definition, 'rules');
  const matches = (info: ResourceInfo): boolean => rules.some((rule) => matchesRule(rule, attributes, info));
  if (matches(attributes.resource)) return attributes.resource;
  return definition['matchPolicy'] === 'Equivalent' ? options.versionsOf(attributes.resource).find(matches) : undefined;
}

/** Throws ApiError 403 if a condition fails to evaluate and the webhook fails closed. */
function meetsConditions(webhook: Webhook, attributes: Attributes, resource: ResourceInfo): boolean {
  const conditions = itemsAt(webhook.definition, 'matchConditions');
  if (conditions.length === 0) return true;
  const result = matchesConditions(conditions, reviewRequest('', attributes, resource));
  if (typeof result === 'boolean') return result;
  if (failsOpen(webhook)) return false;
  throw new ApiError(forbidden(attributes.resource, attributes.name, result.error));
}
