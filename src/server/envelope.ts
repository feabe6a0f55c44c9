import { isUtf8 } from 'node:buffer';
import { compileShape } from '../config/ajv.ts';
import type { AdmissionRequest } from '../kube/admission.ts';
import { isObject } from '../kube/types.ts';

/** The body of an admission review, taken apart: the request inside, or why there is none. */
export type Envelope = { readonly request: AdmissionRequest } | { readonly error: string };

const text = { type: 'string' };
const kind = {
  type: 'object',
  properties: { group: text, version: text, kind: text },
  required: ['kind'],
};
const resource = {
  type: 'object',
  properties: { group: text, version: text, resource: text },
  required: ['resource'],
};
const nullable = (schema: object): object => ({ ...schema, nullable: true });

/** Only the envelope: what is in `object` and `oldObject` is the business of the decision. */
const request = {
  type: 'object',
  required: ['uid', 'kind', 'resource', 'operation'],
  properties: {
    uid: { type: 'string', minLength: 1 },
    kind,
    resource,
    subResource: text,
    requestKind: nullable(kind),
    requestResource: nullable(resource),
    requestSubResource: text,
    name: text,
    namespace: text,
    operation: { type: 'string', enum: ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'] },
    userInfo: {
      type: 'object',
      properties: {
        username: text,
        uid: text,
        groups: nullable({ type: 'array', items: text }),
        extra: nullable({ type: 'object', additionalProperties: nullable({ type: 'array', items: text }) }),
      },
    },
    dryRun: nullable({ type: 'boolean' }),
  },
};
const checkReview = compileShape({ type: 'object', required: ['request'], properties: { request } });

const API_VERSION = 'admission.k8s.io/v1';
const KIND = 'AdmissionReview';

/**
 * Reads an AdmissionReview of `admission.k8s.io/v1`. Plain `JSON.parse`: a map key named `__proto__` is legal and
 * becomes a property like any other. The texts are those of the upstream webhook server, followed by the reason.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.36.0/cmd/webhook/server/server.go
 */
export function readEnvelope(body: Buffer): Envelope {
  if (body.length === 0) return { error: 'request body is empty' };
  if (!isUtf8(body)) return undecodable('the body is not valid UTF-8');
  if (hasTooManyValues(body)) return undecodable(`the body has more than ${MAX_BRACKETS} objects and lists`);
  let review: unknown;
  try {
    review = JSON.parse(body.toString());
  } catch (error) {
    return undecodable(error instanceof Error ? error.message : String(error));
  }
  if (!isObject(review)) return undecodable(`the body must be a JSON object of kind ${KIND}`);
  // As upstream: without apiVersion and kind it is taken for what this path serves.
  const apiVersion = review.apiVersion ?? API_VERSION;
  const reviewKind = review.kind ?? KIND;
  if (apiVersion !== API_VERSION) {
    return undecodable(`apiVersion: must be "${API_VERSION}"; set admissionReviewVersions: ["v1"] in the webhook`);
  }
  if (reviewKind !== KIND) return { error: `unexpected AdmissionReview kind: ${printKind(reviewKind)}` };
  const wrong = checkReview(review);
  if (wrong !== undefined) return undecodable(wrong);
  return { request: review.request as AdmissionRequest };
}

/** An object that can be stored has far fewer; parsing millions of empty ones takes half a second and 500 MiB. */
const MAX_BRACKETS = 1_000_000;
const BRACE = '{'.charCodeAt(0);
const BRACKET = '['.charCodeAt(0);

function hasTooManyValues(body: Buffer): boolean {
  if (body.length < 2 * MAX_BRACKETS) return false;
  let count = 0;
  for (let index = 0; index < body.length; index++) {
    const byte = body[index];
    if (byte === BRACE || byte === BRACKET) count++;
  }
  return count > MAX_BRACKETS;
}

function undecodable(reason: string): Envelope {
  return { error: `unable to decode the request: ${reason}` };
}

function printKind(value: unknown): string {
  return typeof value === 'string' ? `${API_VERSION}, Kind=${value}` : 'kind must be a string';
}
