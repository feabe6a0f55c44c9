/** Parses the SubjectAccessReviews that API servers send to the authorization webhook. */
import { LIMITS } from '../../kube/limits.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { type AccessRequest, NODE_GROUP, NODE_PREFIX, type ResourceAttributes } from './authorizer.ts';

const GROUP = 'authorization.k8s.io';
const KIND = 'SubjectAccessReview';
/** Name of the field that contains the user's groups, by API version. */
const GROUPS_FIELD: Readonly<Record<string, string>> = { [`${GROUP}/v1`]: 'groups', [`${GROUP}/v1beta1`]: 'group' };

interface AccessReview {
  /** The type of the review. The response repeats it. */
  readonly type: { readonly apiVersion: string; readonly kind: string };
  readonly access: AccessRequest;
}

/**
 * The username prefix and the group of all nodes as they occur in a review. API servers do not escape these strings.
 */
const NODE_TEXTS = [`"${NODE_PREFIX}`, `"${NODE_GROUP}"`];

/**
 * Returns false if the review cannot be about a node's request. API servers accept selectors of up to 1 MiB from every
 * user. These take up to 17 MiB in a review, so reviews are searched instead of parsed.
 */
export function mayBeNode(bytes: Buffer): boolean {
  return NODE_TEXTS.every((text) => bytes.includes(text));
}

/** Returns the type of a review that is too large to parse. API servers write the type first. */
export function findReviewType(bytes: Buffer): AccessReview['type'] {
  const [start = ''] = bytes.toString('utf8', 0, LIMITS.accessReviewBytes).split('"spec"', 1);
  return { apiVersion: start.includes(`"${GROUP}/v1beta1"`) ? `${GROUP}/v1beta1` : `${GROUP}/v1`, kind: KIND };
}

/** Parses a review. Returns the reason if it is malformed. */
export function parseAccessReview(body: string): AccessReview | { readonly error: string } {
  const review = parseJson(body);
  if (!review) return malformed('the body must be a JSON object');
  const { apiVersion, kind, spec } = review;
  const field =
    typeof apiVersion === 'string' && Object.hasOwn(GROUPS_FIELD, apiVersion) ? GROUPS_FIELD[apiVersion] : undefined;
  if (kind !== KIND || field === undefined || typeof apiVersion !== 'string') {
    return malformed(`must be a ${KIND} of ${Object.keys(GROUPS_FIELD).join(' or ')}`);
  }
  if (!isObject(spec)) return malformed('spec must be an object');
  const { user, resourceAttributes, nonResourceAttributes } = spec;
  const groups = spec[field] ?? [];
  if (user !== undefined && typeof user !== 'string') return malformed('spec.user must be a string');
  if (!Array.isArray(groups) || !groups.every((group) => typeof group === 'string')) {
    return malformed(`spec.${field} must be a list of strings`);
  }
  if (isObject(resourceAttributes) === isObject(nonResourceAttributes)) {
    return malformed('spec must have either resourceAttributes or nonResourceAttributes');
  }
  const attributes = isObject(resourceAttributes) ? resourceAttributes : {};
  const invalid = ATTRIBUTES.find((name) => typeof (attributes[name] ?? '') !== 'string');
  if (invalid !== undefined) {
    const value = quote(JSON.stringify(attributes[invalid]).slice(0, 100));
    return malformed(`spec.resourceAttributes.${invalid} must be a string, not ${value}`);
  }
  const resource = Object.fromEntries(ATTRIBUTES.map((name) => [name, attributes[name] ?? '']));
  return {
    type: { apiVersion, kind },
    access: {
      username: user ?? '',
      groups,
      resource: isObject(resourceAttributes) ? (resource as unknown as ResourceAttributes) : undefined,
    },
  };
}

const ATTRIBUTES = ['verb', 'group', 'resource', 'subresource', 'name'] as const satisfies (keyof ResourceAttributes)[];

function parseJson(body: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function malformed(reason: string) {
  return { error: `invalid ${KIND}: ${reason}` };
}
