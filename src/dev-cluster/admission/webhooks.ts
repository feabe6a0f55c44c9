import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { isEmptySelector, matchesLabelSelector } from '../../kube/label-selector.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError, createStatus, forbidden, internalError, notFound, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { matchesRule } from '../../kube/webhook-rules.ts';
import type { Access } from '../../views/access.ts';
import type { Attributes, RequestContext } from '../attributes.ts';
import { decodeValue } from '../fields/decode.ts';
import { applyJsonPatch } from '../json-patch.ts';
import { matchesConditions } from '../match-conditions.ts';
import {
  type ApiObject,
  at,
  getMetadata,
  itemsAt,
  numberAt,
  nestedObject,
  type ObjectReader,
  textAt,
  textsAt,
} from '../types.ts';
import { type CallWebhook, REVIEW_VERSION } from './https.ts';

type WebhookType = 'mutating' | 'validating';

interface Webhook {
  /** Unique key, because names are not unique. */
  readonly id: string;
  readonly name: string;
  /** The webhook in the configuration, after defaulting. */
  readonly definition: JsonObject;
}

type WebhookResult =
  | { readonly kind: 'allowed'; readonly patch: readonly JsonObject[] }
  | { readonly kind: 'denied'; readonly status: Status }
  /** The webhook returned no valid response, so its failure policy applies. */
  | { readonly kind: 'failed'; readonly error: string };

/**
 * Returns the request of an AdmissionReview. Objects are not converted to other versions for webhooks.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go
 */
export function reviewRequest(uid: string, attributes: Attributes): JsonObject {
  const { subresource, name, namespace, operation, user, dryRun, object, oldObject } = attributes;
  const { group, version, kind, resource } = attributes.resource;
  // The kind is that of the sent object, because a subresource may have its own kind, such as PodExecOptions.
  const sentKind = (object ?? oldObject)?.kind ?? kind;
  const requestKind = sentKind === kind ? { group, version, kind } : { group: '', version: 'v1', kind: sentKind };
  const requestResource = { group, version, resource };
  const userInfo = Object.entries(user).filter(([, value]) => {
    return value != null && value !== '' && Object.keys(value as object).length > 0;
  });
  return {
    uid,
    kind: requestKind,
    resource: requestResource,
    ...(subresource === '' ? {} : { subResource: subresource }),
    requestKind,
    requestResource,
    ...(subresource === '' ? {} : { requestSubResource: subresource }),
    ...(name === '' ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation,
    userInfo: Object.fromEntries(userInfo),
    object: object ?? null,
    oldObject: oldObject ?? null,
    dryRun,
    options: operation === 'CONNECT' ? null : attributes.options,
  };
}

const SAFE_IN_DRY_RUN = new Set<unknown>(['None', 'NoneOnDryRun']);

/** Sends a request to a webhook, and adds the warnings in its response. */
async function callWebhook(
  type: WebhookType,
  { name, definition }: Webhook,
  attributes: Attributes,
  context: RequestContext,
  { call }: WebhookOptions,
): Promise<WebhookResult> {
  if (attributes.dryRun && !SAFE_IN_DRY_RUN.has(definition['sideEffects'])) {
    const message = `admission webhook ${quote(name)} does not support dry run`;
    return { kind: 'denied', status: createStatus(400, 'BadRequest', message) };
  }
  if (context.signal.aborted) {
    throw new ApiError(createStatus(504, 'Timeout', 'Timeout: request did not complete within requested timeout'));
  }
  const uid = randomUUID();
  const request = reviewRequest(uid, attributes);
  const reply = await call({
    clientConfig: nestedObject(definition, 'clientConfig'),
    review: { kind: 'AdmissionReview', apiVersion: REVIEW_VERSION, request },
    timeoutMs: (numberAt(definition, 'timeoutSeconds') || 10) * 1000,
    signal: context.signal,
  });
  if (!reply.ok) return failed(name, `failed to call webhook: ${reply.error}`);
  const response = nestedObject(reply.review, 'response');
  const error = responseError(reply.review, uid, type);
  if (error !== undefined) return failed(name, `received invalid webhook response: ${error}`);
  for (const warning of textsAt(response, 'warnings')) context.warn(warning);
  if (response['allowed'] !== true) return { kind: 'denied', status: denial(name, nestedObject(response, 'status')) };
  const patch = parsePatch(Buffer.from(textAt(response, 'patch'), 'base64').toString('utf8'));
  if (patch) return { kind: 'allowed', patch };
  return failed(name, 'received undecodable patch in webhook response: it is not a list of operations');
}

function parsePatch(text: string): readonly JsonObject[] | undefined {
  if (text === '') return [];
  try {
    const operations: unknown = JSON.parse(text);
    return Array.isArray(operations) && operations.every(isObject) ? operations : undefined;
  } catch {
    return undefined;
  }
}

function failed(name: string, cause: string): WebhookResult {
  return { kind: 'failed', error: `failed calling webhook ${quote(name)}: ${cause}` };
}

/** @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go */
function responseError(review: JsonObject, uid: string, type: WebhookType): string | undefined {
  const response = at(review, 'response');
  if (!isObject(response)) return 'webhook response was absent';
  const own = textAt(response, 'uid');
  if (own !== uid) return `expected response.uid=${quote(uid)}, got ${quote(own)}`;
  const hasPatch = textAt(response, 'patch') !== '';
  const hasType = at(response, 'patchType') !== undefined;
  if (type === 'validating' && hasPatch) return 'validating webhook may not return response.patch';
  if (type === 'validating' && hasType) return 'validating webhook may not return response.patchType';
  if (hasPatch && !hasType) return 'webhook returned response.patch but not response.patchType';
  return hasType && !hasPatch ? 'webhook returned response.patchType but not response.patch' : undefined;
}

/**
 * Returns the Status of a denial, whose message starts with the webhook's name.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/errors/statuserror.go
 */
function denial(name: string, status: JsonObject): Status {
  const reason = textAt(status, 'reason');
  const explanation = textAt(status, 'message') || reason;
  const denied = `admission webhook ${quote(name)} denied the request`;
  const details = at(status, 'details');
  return {
    metadata: {},
    status: 'Failure',
    message: explanation === '' ? `${denied} without explanation` : `${denied}: ${explanation}`,
    ...(reason === '' ? {} : { reason }),
    ...(isObject(details) ? { details } : {}),
    code: Math.max(numberAt(status, 'code'), 400),
  };
}

/**
 * Applies a webhook's patch and sets defaults. Throws ApiError 500 if a patch cannot be applied, regardless of the
 * failure policy.
 */
function applyWebhookPatch(
  { name }: Webhook,
  patch: readonly JsonObject[],
  attributes: Attributes,
): ApiObject | undefined {
  const { object, resource } = attributes;
  if (patch.length === 0) return object;
  if (!object) {
    const cause = `admission webhook ${quote(name)} attempted to modify the object`;
    throw new ApiError(internalError(`${cause}, which is not supported for this operation`));
  }
  try {
    const decoded = decodeValue(applyJsonPatch(object, patch), resource.schema);
    if (decoded.error !== undefined) throw new ApiError(internalError(decoded.error));
    resource.strategy.defaults(decoded.object);
    return decoded.object;
  } catch (error) {
    if (error instanceof RangeError) throw new ApiError(internalError(error.message), { cause: error });
    throw error;
  }
}

export interface WebhookOptions {
  readonly reader: ObjectReader;
  readonly access: Access;
  readonly call: CallWebhook;
}

/**
 * Creates the state of the mutating webhooks for one request.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/mutating/dispatcher.go
 */
export function createMutatingWebhooks(options: WebhookOptions, context: RequestContext) {
  /** Webhooks that have been called and that support reinvocation. */
  const reinvocable = new Set<string>();
  /** Webhooks to reinvoke because the object was modified after their call. */
  const due = new Set<string>();
  let changed = false;
  let round = 0;
  let output: ApiObject | undefined;

  const markDue = (): void => {
    for (const id of reinvocable) due.add(id);
    reinvocable.clear();
  };

  return {
    /** Returns true if a webhook modified the object. */
    changed: () => changed,
    /**
     * Calls the webhooks one at a time. The second pass calls only webhooks with `reinvocationPolicy: IfNeeded` if the
     * object was modified after their first call.
     */
    async run(original: Attributes): Promise<Attributes> {
      if (isExempt(original)) return original;
      let attributes = original;
      if (round > 0 && !isDeepStrictEqual(output, original.object)) markDue();
      for (const webhook of listWebhooks(options.reader, 'mutating')) {
        if (!isSelected(webhook, attributes, options) || (round > 0 && !due.delete(webhook.id))) continue;
        const object = await mutateWith(webhook, attributes, context, options);
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

/** Returns the object with a webhook's patch applied. */
async function mutateWith(
  webhook: Webhook,
  attributes: Attributes,
  context: RequestContext,
  options: WebhookOptions,
): Promise<ApiObject | undefined> {
  const outcome = await callWebhook('mutating', webhook, attributes, context, options);
  if (outcome.kind === 'denied') throw new ApiError(outcome.status);
  if (outcome.kind === 'allowed') return applyWebhookPatch(webhook, outcome.patch, attributes);
  if (!failsOpen(webhook)) throw new ApiError(internalError(outcome.error));
  return attributes.object;
}

/**
 * Calls all validating webhooks concurrently. If several webhooks deny the request, the first one in configuration
 * order determines the error. In the API server, the first one to respond determines it.
 */
export async function validateWithWebhooks(
  options: WebhookOptions,
  attributes: Attributes,
  context: RequestContext,
): Promise<void> {
  if (isExempt(attributes)) return;
  const webhooks = listWebhooks(options.reader, 'validating');
  const selected = webhooks.filter((webhook) => isSelected(webhook, attributes, options));
  const denials = await Promise.all(
    selected.map(async (webhook): Promise<Status | undefined> => {
      const outcome = await callWebhook('validating', webhook, attributes, context, options);
      if (outcome.kind === 'allowed') return undefined;
      if (outcome.kind === 'denied') return outcome.status;
      return failsOpen(webhook) ? undefined : internalError(outcome.error);
    }),
  );
  const denial = denials.find((status) => status !== undefined);
  if (denial) throw new ApiError(denial);
}

/** Returns true for webhook configurations and policies, which are exempt so that users can repair a broken one. */
function isExempt({ resource }: Attributes): boolean {
  return resource.group === 'admissionregistration.k8s.io';
}

/** Returns all webhooks of a type, sorted by configuration name and position in the configuration. */
function listWebhooks(reader: ObjectReader, type: WebhookType): readonly Webhook[] {
  const key = { group: 'admissionregistration.k8s.io', resource: `${type}webhookconfigurations` };
  return reader.list(key).flatMap((configuration) =>
    itemsAt(configuration, 'webhooks').map((definition, index) => ({
      id: `${getMetadata(configuration).name ?? ''}/${index}`,
      name: textAt(definition, 'name'),
      definition,
    })),
  );
}

function failsOpen({ definition }: Webhook): boolean {
  return definition['failurePolicy'] === 'Ignore';
}

/**
 * Returns true if the webhook receives the request. Throws an ApiError if matching fails.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/generic/webhook.go
 */
function isSelected(webhook: Webhook, attributes: Attributes, { reader, access }: WebhookOptions): boolean {
  const { definition } = webhook;
  const labels = namespaceLabels(definition, attributes, reader);
  if (typeof labels === 'object' && !matchesLabelSelector(definition['namespaceSelector'], labels)) return false;
  if (!matchesObject(definition, attributes)) return false;
  const rules = itemsAt(definition, 'rules');
  if (!rules.some((rule) => matchesRule(rule, attributes, attributes.resource))) return false;
  if (labels === 'missing') throw new ApiError(notFound(RESOURCES.Namespace, attributes.namespace));
  return meetsConditions(webhook, attributes, access);
}

type Labels = Readonly<Record<string, string>>;

/** Returns the labels to which the namespace selector applies, or `all` if the request always matches. */
export function namespaceLabels(
  definition: JsonObject,
  attributes: Attributes,
  reader: ObjectReader,
): Labels | 'all' | 'missing' {
  const { resource, namespace, subresource, object } = attributes;
  if (namespace === '' || isEmptySelector(nestedObject(definition, 'namespaceSelector'))) return 'all';
  const isNamespace = resource.group === '' && resource.resource === 'namespaces';
  if (isNamespace && subresource === '' && object) return getMetadata(object).labels ?? {};
  const stored = reader.get(RESOURCES.Namespace, '', namespace);
  return stored ? (getMetadata(stored).labels ?? {}) : 'missing';
}

export function matchesObject(definition: JsonObject, { object, oldObject }: Attributes): boolean {
  const objectSelector = nestedObject(definition, 'objectSelector');
  if (isEmptySelector(objectSelector)) return true;
  return [object, oldObject].some(
    (version) => version?.metadata && matchesLabelSelector(objectSelector, getMetadata(version).labels ?? {}),
  );
}

/**
 * Returns true if the request meets the match conditions. Throws ApiError 403 if a condition cannot be evaluated and
 * the webhook fails closed.
 */
function meetsConditions(webhook: Webhook, attributes: Attributes, access: Access): boolean {
  const conditions = itemsAt(webhook.definition, 'matchConditions');
  if (conditions.length === 0) return true;
  const result = matchesConditions(conditions, reviewRequest('', attributes), access);
  if (typeof result === 'boolean') return result;
  if (failsOpen(webhook)) return false;
  throw new ApiError(forbidden(attributes.resource, attributes.name, result.error));
}
