import { quote } from '../../../kube/text.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import type { WebhookReply } from './call.ts';
import { readJson } from './json-text.ts';
import { textAt } from '../../objects/read.ts';
import { goType } from './patch.ts';
import { REVIEW_VERSION } from './review.ts';

/** An HTTP response, read to its end. */
export interface HttpReply {
  readonly code: number;
  readonly contentType: string;
  readonly body: string;
}

/**
 * Reads the AdmissionReview in an HTTP response.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/rest/request.go
 */
export function readReply(reply: HttpReply): WebhookReply {
  if (reply.code < 200 || reply.code > 206) return failed(statusText(reply));
  if (reply.body === '') {
    return failed(`0-length response with status code: ${reply.code} and content type: ${reply.contentType}`);
  }
  const json = readJson(reply.body);
  if (!json.ok) return failed(`couldn't get version/kind; json parse error: ${json.error}`);
  if (!isObject(json.value)) {
    return failed(
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${goType(json.value)} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`,
    );
  }
  const error = kindError(json.value) ?? typeError(json.value);
  return error === undefined ? { ok: true, review: json.value } : failed(error);
}

function failed(error: string): WebhookReply {
  return { ok: false, error };
}

/** The place in the API server's source where its scheme is made; it stands in the message. */
const SCHEME = 'k8s.io/apiserver/pkg/util/webhook/client.go:71';

/** A body without kind or version is taken to have the right one. */
function kindError(review: JsonObject): string | undefined {
  const kind = textAt(review, 'kind');
  const apiVersion = textAt(review, 'apiVersion');
  if ((kind === 'AdmissionReview' || kind === '') && (apiVersion === REVIEW_VERSION || apiVersion === '')) {
    return undefined;
  }
  const version = quote(apiVersion === '' ? REVIEW_VERSION : apiVersion);
  return `no kind ${quote(kind === '' ? 'AdmissionReview' : kind)} is registered for version ${version} in scheme ${quote(SCHEME)}`;
}

const TYPES: Readonly<Record<string, string>> = {
  uid: 'string',
  allowed: 'bool',
  status: 'object',
  patch: 'string',
  patchType: 'string',
  auditAnnotations: 'object',
  warnings: 'array',
};

const GO_TYPES: Readonly<Record<string, string>> = {
  uid: 'types.UID',
  status: 'v1.Status',
  patch: '[]uint8',
  patchType: 'v1.PatchType',
  auditAnnotations: 'map[string]string',
  warnings: '[]string',
};

/** What does not have the type that it should have; null is as good as absent. */
function typeError({ response }: JsonObject): string | undefined {
  if (response == null) return undefined;
  if (!isObject(response)) return mismatch(response, 'AdmissionReview.response', 'v1.AdmissionResponse');
  for (const [field, type] of Object.entries(TYPES)) {
    const value = response[field];
    if (value == null || goType(value) === type) continue;
    return mismatch(value, `AdmissionResponse.response.${field}`, GO_TYPES[field] ?? type);
  }
  const { patch } = response;
  if (typeof patch !== 'string') return undefined;
  const illegal = patch.search(/[^A-Za-z0-9+/=\r\n]/);
  return illegal < 0 ? undefined : `illegal base64 data at input byte ${illegal}`;
}

function mismatch(value: unknown, field: string, type: string): string {
  return `json: cannot unmarshal ${goType(value)} into Go struct field ${field} of type ${type}`;
}

/** By status code; `undefined` takes the text of the body. */
const TEXTS: Readonly<Record<number, string>> = {
  400: 'the server rejected our request for an unknown reason',
  401: 'the server has asked for the client to provide credentials',
  404: 'the server could not find the requested resource',
  405: 'the server does not allow this method on the requested resource',
  409: 'the server reported a conflict',
  422: 'the server rejected our request due to an error in our request',
  429: 'the server has received too many requests and has asked us to try again later',
  503: 'the server is currently unable to handle the request',
  504: 'the server was unable to return a response in the time allotted, but may still be processing the request',
};

const MAX_QUOTED = 2048;

function statusText({ code, contentType, body }: HttpReply): string {
  const isText = contentType === '' || contentType.startsWith('text/');
  const message = isText ? body.slice(0, MAX_QUOTED).trim() : 'unknown';
  if (code === 403 || code === 415) return message;
  if (code === 406 && message !== '' && message !== 'unknown') return message;
  if (code === 406) return 'the server was unable to respond with a content type that the client supports';
  const text = TEXTS[code];
  if (text !== undefined) return text;
  return code >= 500
    ? `an error on the server (${quote(message)}) has prevented the request from succeeding`
    : `the server responded with the status code ${code} but did not return more information`;
}
