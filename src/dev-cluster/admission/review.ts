import { applyJsonPatch } from '../json-patch.ts';
import { quote } from '../../kube/text.ts';
import { ApiError, createStatus, internalError, type Status } from '../../kube/status.ts';
import { isObject, type GroupVersionKind, type JsonObject } from '../../kube/types.ts';
import type { Attributes, RequestContext } from '../request.ts';
import { apiVersionOf, at, numberAt, objectAt, textAt, textsAt, type ApiObject, type ResourceInfo } from '../types.ts';
import { REVIEW_VERSION, type CallWebhook } from './https.ts';

export type WebhookType = 'mutating' | 'validating';

/** One webhook of a configuration. */
export interface Webhook {
  /** Unique, unlike the name. */
  readonly id: string;
  readonly name: string;
  /** The webhook in the configuration, with defaults. */
  readonly definition: JsonObject;
}

/** A webhook that is called for a request, and the version of the resource in which it receives the request. */
export interface SelectedWebhook extends Webhook {
  readonly resource: ResourceInfo;
}

/** The result of a webhook call. */
export type Outcome =
  | { readonly kind: 'allowed'; readonly patch: readonly JsonObject[] }
  | { readonly kind: 'denied'; readonly status: Status }
  /** The webhook returned no valid response: the createStatus policy decides. */
  | { readonly kind: 'failed'; readonly error: string };

/**
 * Returns the request of an AdmissionReview, converted to a version of the resource.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go
 */
export function reviewRequest(uid: string, attributes: Attributes, resource: ResourceInfo): JsonObject {
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
  return isConverted ? { ...object, apiVersion: apiVersionOf(resource) } : object;
}

const SAFE_IN_DRY_RUN = new Set<unknown>(['None', 'NoneOnDryRun']);

/** Sends a request to a webhook, and passes on the warnings and audit annotations of the response. */
export async function callWebhook(
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
export type DecodeObject = (
  value: unknown,
  resource: ResourceInfo,
  subresource: string,
) => { readonly object: ApiObject; readonly error?: string };

/**
 * Applies the patch of a webhook and fills in defaults. Throws ApiError 500 for a patch that does not apply, regardless
 * of the createStatus policy.
 */
export function applyWebhookPatch(
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
