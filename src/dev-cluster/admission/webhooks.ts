import { isDeepStrictEqual } from 'node:util';
import { applyJsonPatch } from '../json-patch.ts';
import { quote } from '../../kube/text.ts';
import { ApiError, createStatus, internalError, type Status, forbidden, notFound } from '../../kube/status.ts';
import { isObject, type GroupVersionKind, type JsonObject } from '../../kube/types.ts';
import type { Attributes, RequestContext } from '../request.ts';
import {
  formatApiVersion,
  at,
  numberAt,
  objectAt,
  textAt,
  textsAt,
  type ApiObject,
  type ResourceInfo,
  itemsAt,
  getMetadata,
  type ObjectReader,
} from '../types.ts';
import { REVIEW_VERSION, type CallWebhook } from './https.ts';
import { matchesLabelSelector, matchesRule } from '../../kube/webhooks.ts';
import { matchesConditions } from '../match-conditions.ts';

type WebhookType = 'mutating' | 'validating';

/** One webhook of a configuration. */
interface Webhook {
  /** Unique, unlike the name. */
  readonly id: string;
  readonly name: string;
  /** The webhook in the configuration, with defaults. */
  readonly definition: JsonObject;
}

/** A webhook that is called for a request, and the version of the resource in which it receives the request. */
interface SelectedWebhook extends Webhook {
  readonly resource: ResourceInfo;
}

/** The result of a webhook call. */
type Outcome =
  | { readonly kind: 'allowed'; readonly patch: readonly JsonObject[] }
  | { readonly kind: 'denied'; readonly status: Status }
  /** The webhook returned no valid response: the createStatus policy decides. */
  | { readonly kind: 'failed'; readonly error: string };

/**
 * Returns the request of an AdmissionReview, converted to a version of the resource.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go
 */
function reviewRequest(uid: string, attributes: Attributes, resource: ResourceInfo): JsonObject {
  const { subresource, name, namespace, operation, user, dryRun } = attributes;
  const userInfo = Object.entries(user).filter(([, value]) => {
    return value != null && value !== '' && Object.keys(value as object).length > 0;
  });
  return {
    uid,
    kind: kindOf(attributes, resource),
    resource: { group: resource.group, version: resource.version, resource: resource.resource },
    ...(subresource === '' ? {} : { subResource: subresource }),
    requestKind: kindOf(attributes, attributes.resource),
    requestResource: {
      group: attributes.resource.group,
      version: attributes.resource.version,
      resource: attributes.resource.resource,
    },
    ...(subresource === '' ? {} : { requestSubResource: subresource }),
    ...(name === '' ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation,
    userInfo: Object.fromEntries(userInfo),
    object: convert(attributes.object, attributes, resource) ?? null,
    oldObject: convert(attributes.oldObject, attributes, resource) ?? null,
    dryRun,
    options: operation === 'CONNECT' ? null : attributes.options,
  };
}

/** Returns the kind of the sent object, which a subresource can have of its own, such as PodExecOptions. */
function kindOf({ object, oldObject }: Attributes, { group, version, kind }: ResourceInfo): GroupVersionKind {
  const sent = (object ?? oldObject)?.kind ?? kind;
  return sent === kind ? { group, version, kind } : { group: '', version: 'v1', kind: sent };
}

/** Converts an object to another version of its resource. All versions have the same fields. */
function convert(object: ApiObject | undefined, attributes: Attributes, resource: ResourceInfo) {
  const isConverted = object?.kind === resource.kind && resource.version !== attributes.resource.version;
  return isConverted ? { ...object, apiVersion: formatApiVersion(resource) } : object;
}

const SAFE_IN_DRY_RUN = new Set<unknown>(['None', 'NoneOnDryRun']);

/** Sends a request to a webhook, and passes on the warnings and audit annotations of the response. */
async function callWebhook(
  type: WebhookType,
  { name, definition, resource }: SelectedWebhook,
  attributes: Attributes,
  context: RequestContext,
  { call, uid: createUid }: { readonly call: CallWebhook; uid(): string },
): Promise<Outcome> {
  if (attributes.dryRun && !SAFE_IN_DRY_RUN.has(definition['sideEffects'])) {
    const message = `admission webhook ${quote(name)} does not support dry run`;
    return { kind: 'denied', status: createStatus(400, 'BadRequest', message) };
  }
  if (context.signal.aborted) {
    throw new ApiError(createStatus(504, 'Timeout', 'Timeout: request did not complete within requested timeout'));
  }
  const uid = createUid();
  const request = reviewRequest(uid, attributes, resource);
  const reply = await call({
    clientConfig: objectAt(definition, 'clientConfig'),
    review: { kind: 'AdmissionReview', apiVersion: REVIEW_VERSION, request },
    timeoutMs: (numberAt(definition, 'timeoutSeconds') || 10) * 1000,
    signal: context.signal,
  });
  if (!reply.ok) return failed(name, `failed to call webhook: ${reply.error}`);
  const response = objectAt(reply.review, 'response');
  const error = responseError(reply.review, uid, type);
  if (error !== undefined) return failed(name, `received invalid webhook response: ${error}`);
  for (const [key, value] of Object.entries(objectAt(response, 'auditAnnotations'))) {
    context.audit(`${name}/${key}`, String(value));
  }
  for (const warning of textsAt(response, 'warnings')) context.warn(warning);
  if (response['allowed'] !== true) return { kind: 'denied', status: denial(name, objectAt(response, 'status')) };
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

function failed(name: string, cause: string): Outcome {
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
 * Returns the Status of a denial, in which the message of the webhook follows its name.
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

/** Decodes an object that a patch has changed. `error` is the text of Go for a value of a wrong type. */
type DecodeObject = (
  value: unknown,
  resource: ResourceInfo,
  subresource: string,
) => { readonly object: ApiObject; readonly error?: string };

/**
 * Applies the patch of a webhook and fills in defaults. Throws ApiError 500 for a patch that does not apply, regardless
 * of the createStatus policy.
 */
function applyWebhookPatch(
  { name, resource }: SelectedWebhook,
  patch: readonly JsonObject[],
  attributes: Attributes,
  decode: DecodeObject,
): ApiObject | undefined {
  const { object } = attributes;
  if (patch.length === 0) return object;
  if (!object) {
    const cause = `admission webhook ${quote(name)} attempted to modify the object`;
    throw new ApiError(internalError(`${cause}, which is not supported for this operation`));
  }
  try {
    const patched = applyJsonPatch(convert(object, attributes, resource), patch);
    const decoded = decode(patched, resource, attributes.subresource);
    if (decoded.error !== undefined) throw new ApiError(internalError(decoded.error));
    const { apiVersion } = object;
    const converted = apiVersion === undefined ? decoded.object : { ...decoded.object, apiVersion };
    attributes.resource.strategy.defaults(converted);
    return converted;
  } catch (error) {
    if (error instanceof RangeError) throw new ApiError(internalError(error.message), { cause: error });
    throw error;
  }
}

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
interface MutatingWebhooks {
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
      id: `${getMetadata(configuration).name ?? ''}/${index}`,
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
  if (isNamespace && subresource === '' && object) return getMetadata(object).labels ?? {};
  const stored = reader.get(NAMESPACES, '', namespace);
  return stored ? (getMetadata(stored).labels ?? {}) : 'missing';
}

function isEmptySelector(selector: unknown): boolean {
  return (
    Object.keys(objectAt(selector, 'matchLabels')).length === 0 && itemsAt(selector, 'matchExpressions').length === 0
  );
}

function matchesObject({ objectSelector }: JsonObject, { object, oldObject }: Attributes): boolean {
  if (isEmptySelector(objectSelector)) return true;
  return [object, oldObject].some(
    (one) => one?.metadata && matchesLabelSelector(objectSelector, getMetadata(one).labels ?? {}),
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
