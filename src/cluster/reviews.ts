/** Selects the part of a large review that decisions read. Runs in the worker thread. */
import { hash } from 'node:crypto';
import { isSemanticallyAbsent } from '../kube/equality.ts';
import { LIMITS } from '../kube/limits.ts';
import { podTemplatePath } from '../kube/pod.ts';
import { isObject, type JsonObject, objectMember } from '../kube/types.ts';
import { mayBeOlmPod } from '../policy/olm/index.ts';
import { NAMESPACE, OTHER_KIND, POD, select, type Selection, selectWorkload } from '../policy/pod/index.ts';
import { checkSize, TooLargeError } from './json.ts';

/** Members of the request that decisions read, except the objects. */
const REQUEST = Object.fromEntries(
  [
    ...['uid', 'kind', 'resource', 'subResource', 'requestKind', 'requestResource', 'requestSubResource'],
    ...['name', 'namespace', 'operation', 'userInfo', 'dryRun'],
  ].map((member) => [member, 'all'] as const),
);

const RELEVANT = { values: 'reviewValues', levels: 'nestingLevels' } as const;

/**
 * Returns the text of a review without the fields that decisions do not read, and the number of its values. If
 * `isWhole` is true, keeps all fields of the objects. Lists keep their order, so the paths of patches remain valid.
 * @throws {SyntaxError} if the text is not JSON
 * @throws {TooLargeError} if it exceeds a limit
 */
export function reduceReview(parse: () => unknown, isWhole: boolean) {
  const review = withSubject('the review exceeds', parse);
  return withSubject('the fields that decisions read exceed', () => {
    const text = Buffer.from(JSON.stringify(selectReview(review, isWhole)));
    if (text.length > LIMITS.relevantBytes)
      throw new TooLargeError('relevantBytes', `more than ${LIMITS.relevantBytes} bytes`);
    return { text, values: checkSize(text, RELEVANT) };
  });
}

/** Adds the subject and its verb to the message of an exceeded limit. */
function withSubject<T>(subject: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (error instanceof TooLargeError) throw new TooLargeError(error.limit, `${subject} a limit: ${error.message}`);
    // Recursion has overflowed the stack.
    if (error instanceof RangeError)
      throw new TooLargeError('nestingLevels', `${subject} a limit: too many nested levels`);
    throw error;
  }
}

function selectReview(review: unknown, isWhole: boolean): unknown {
  const envelope = { apiVersion: 'all', kind: 'all', request: 'all' } as const;
  const { request } = isObject(review) ? review : {};
  if (!isObject(request)) return isObject(review) ? select(review, { members: envelope }) : null;
  const { object, oldObject } = request;
  const selection = isWhole ? 'all' : findSelection(request, [object, oldObject]);
  // If there are two objects, decisions compare them. Values that decisions do not read are then replaced with their
  // digests.
  const replace = isObject(object) && isObject(oldObject) ? digestUnlessAbsent : undefined;
  const selected = Object.entries({ object, oldObject }).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, select(value, selection, { mark: digest, replace })] as const],
  );
  return {
    ...(select(review, { members: { apiVersion: 'all', kind: 'all' } }) as JsonObject),
    request: { ...(select(request, { members: REQUEST }) as JsonObject), ...Object.fromEntries(selected) },
  };
}

const DIGEST_LENGTH = 44;

/**
 * Returns the JSON text of a short value, and the digest of a long value. A digest ends with `=`, unlike a JSON text.
 */
function digest(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= DIGEST_LENGTH ? text : hash('sha256', text, 'base64');
}

function digestUnlessAbsent(value: unknown, key: string): string | undefined {
  return isSemanticallyAbsent(value, key) ? undefined : digest(value);
}

/** Returns the selection for both objects. Selects whole objects if their kind differs from the kind in the request. */
function findSelection({ kind, namespace }: JsonObject, objects: readonly unknown[]): Selection {
  if (!isObject(kind)) return OTHER_KIND;
  const { group = '', version, kind: name } = kind;
  if (typeof group !== 'string' || typeof version !== 'string' || typeof name !== 'string') return OTHER_KIND;
  const apiVersion = group ? `${group}/${version}` : version;
  const isOther = (object: unknown): boolean =>
    isObject(object) && ((object['apiVersion'] ?? apiVersion) !== apiVersion || (object['kind'] ?? name) !== name);
  if (objects.some(isOther)) return 'all';
  // OLM pods are kept whole, because hardening replaces whole lists.
  const [object] = objects;
  if (!group && name === 'Pod') return mayBeOlmPod(objectMember(object, 'metadata'), namespace) ? 'all' : POD;
  if (!group && name === 'Namespace') return NAMESPACE;
  const path = podTemplatePath(group, name);
  return path ? selectWorkload(path) : OTHER_KIND;
}
