/** Decodes the envelope of a review from bytes to a validated AdmissionRequest. */
import { isUtf8 } from 'node:buffer';
import { compileSchema } from '../config/ajv.ts';
import type { AdmissionRequest } from '../kube/admission.ts';
import { LIMITS } from '../kube/limits.ts';
import { isObject, type UserInfo } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';

const string = { type: 'string', maxLength: LIMITS.nameCharacters };
const longString = { type: 'string', maxLength: LIMITS.claimCharacters };
const nullable = (schema: object): object => ({ ...schema, nullable: true });
const kind = { type: 'object', properties: { group: string, version: string, kind: string }, required: ['kind'] };
const resource = {
  type: 'object',
  properties: { group: string, version: string, resource: string },
  required: ['resource'],
};

/** Schema of the envelope. The policies decode `object` and `oldObject`. */
const request = {
  type: 'object',
  required: ['uid', 'kind', 'resource', 'operation'],
  properties: {
    uid: { ...string, minLength: 1 },
    kind,
    resource,
    subResource: string,
    requestKind: nullable(kind),
    requestResource: nullable(resource),
    requestSubResource: string,
    name: string,
    namespace: string,
    operation: { type: 'string', enum: ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'] },
    userInfo: {
      type: 'object',
      properties: {
        username: longString,
        uid: longString,
        groups: nullable({ type: 'array', items: longString }),
        extra: nullable({ type: 'object', additionalProperties: nullable({ type: 'array', items: longString }) }),
      },
    },
    dryRun: nullable({ type: 'boolean' }),
  },
};
const validateReview = compileSchema({ type: 'object', required: ['request'], properties: { request } });

const API_VERSION = 'admission.k8s.io/v1';
const KIND = 'AdmissionReview';

/** A request, or the reason why the body does not contain one. */
export type Envelope = { readonly request: AdmissionRequest } | { readonly error: string };

/**
 * Reads an AdmissionReview in `admission.k8s.io/v1`. The messages start with the same text as those of the upstream
 * webhook server.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.36.0/cmd/webhook/server/server.go
 */
export function readReview(body: Buffer): Envelope {
  if (body.length === 0) return malformed('request body is empty');
  if (!isUtf8(body)) return undecodable('the body is not valid UTF-8');
  let review: unknown;
  try {
    // `JSON.parse` treats `__proto__`, which is a valid map key, as an ordinary property.
    review = JSON.parse(body.toString());
  } catch (error) {
    return undecodable(error instanceof Error ? error.message : String(error));
  }
  if (!isObject(review)) return undecodable(`the body must be a JSON object of kind ${KIND}`);
  // As in upstream, `apiVersion` and `kind` may be absent.
  const apiVersion = review.apiVersion ?? API_VERSION;
  const reviewKind = review.kind ?? KIND;
  if (apiVersion !== API_VERSION) {
    return undecodable(`apiVersion: must be "${API_VERSION}"; set admissionReviewVersions: ["v1"] in the webhook`);
  }
  if (reviewKind !== KIND) return malformed(`unexpected AdmissionReview kind: ${formatKind(reviewKind)}`);
  const problem = validateReview(review);
  if (problem !== undefined) {
    const exceeded = (['nameCharacters', 'claimCharacters'] as const).find((limit) =>
      problem.includes(`more than ${LIMITS[limit]} characters`),
    );
    if (exceeded) countExceeded(exceeded);
    return undecodable(problem);
  }
  const { request } = review as { readonly request: { userInfo?: UserInfo } & Omit<AdmissionRequest, 'userInfo'> };
  // As in Go, an absent user is a user without a name.
  request.userInfo ??= {};
  return { request: request as AdmissionRequest };
}

function malformed(error: string) {
  return { error };
}

/** Returns the error for a body that cannot be decoded. */
export function undecodable(reason: string) {
  return malformed(`unable to decode the request: ${reason}`);
}

function formatKind(value: unknown): string {
  return typeof value === 'string' ? `${API_VERSION}, Kind=${value}` : 'kind must be a string';
}

/**
 * Reads the request fields at the beginning of a review. API servers send them before the objects, whose bytes may be
 * missing or invalid. The user is the last of these fields. Returns `undefined` if the fields do not identify the
 * request.
 */
export function readIdentity(body: Buffer): AdmissionRequest | undefined {
  const start = body.toString('utf8', 0, LIMITS.identityBytes + OBJECT.length);
  const first = start.indexOf(OBJECT);
  // Also tries the second occurrence, because a key in the user's extra information may also be `object`.
  const found = readEnd(start, first) ?? readEnd(start, start.indexOf(OBJECT, first + 1));
  if (found === undefined && body.length > LIMITS.identityBytes) countExceeded('identityBytes');
  return found;
}

/** Bytes before the first object. They cannot occur in strings, in which quotation marks are escaped. */
const OBJECT = ',"object":';

function readEnd(start: string, end: number): AdmissionRequest | undefined {
  if (end === -1) return undefined;
  const envelope = readReview(Buffer.from(`${start.slice(0, end)}}}`));
  return 'request' in envelope && envelope.request.userInfo?.username ? envelope.request : undefined;
}
