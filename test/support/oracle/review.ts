/** The type of an AdmissionReview of admission.k8s.io/v1. */
import { at, isObject, textAt } from './json.ts';
import { matchesType, type Type } from './object-schema.ts';

const text: Type = 'text';
const kind: Type = { fields: { group: text, version: text, kind: text } };
const resource: Type = { fields: { group: text, version: text, resource: text } };

const REVIEW: Type = {
  fields: {
    apiVersion: text,
    kind: text,
    request: {
      fields: {
        uid: text,
        kind,
        resource,
        subResource: text,
        requestKind: kind,
        requestResource: resource,
        requestSubResource: text,
        name: text,
        namespace: text,
        operation: text,
        userInfo: {
          fields: { username: text, uid: text, groups: { list: text }, extra: { map: { list: text } } },
        },
        dryRun: 'boolean',
      },
    },
  },
};

/** True if an API server can send the review. The server responds to such a review. */
export function isLegalReview(review: unknown): boolean {
  return (
    matchesType(review, REVIEW) &&
    textAt(review, 'apiVersion') === 'admission.k8s.io/v1' &&
    textAt(review, 'kind') === 'AdmissionReview' &&
    isObject(at(review, 'request')) &&
    textAt(review, 'request', 'uid') !== '' &&
    textAt(review, 'request', 'kind', 'kind') !== '' &&
    textAt(review, 'request', 'resource', 'resource') !== '' &&
    hasName(at(review, 'request', 'requestKind'), 'kind') &&
    hasName(at(review, 'request', 'requestResource'), 'resource') &&
    ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'].includes(textAt(review, 'request', 'operation')) &&
    !hasNullText(at(review, 'request')) &&
    !hasLongText(at(review, 'request'))
  );
}

/** Names have at most 253 characters. The server accepts 1,024 characters, and more only for users. */
function hasLongText(request: unknown): boolean {
  const envelope = isObject(request) ? { ...request, object: null, oldObject: null, options: null } : {};
  return /"(?:[^"\\]|\\.){1025,}"/.test(JSON.stringify(envelope));
}

function hasName(value: unknown, field: string): boolean {
  return value === undefined || textAt(value, field) !== '';
}

/** An API server omits empty strings and does not send null. */
function hasNullText(request: unknown): boolean {
  const parts = ['kind', 'resource', 'requestKind', 'requestResource', 'userInfo'];
  const holders = [request, ...parts.map((part) => at(request, part))];
  return holders.some(
    (holder) =>
      isObject(holder) && Object.entries(holder).some(([key, value]) => value === null && !NULLABLE.includes(key)),
  );
}

const NULLABLE = ['object', 'oldObject', 'options', 'dryRun', 'requestKind', 'requestResource', 'groups', 'extra'];
