/** Reads PodSecurityExceptions from manifests, which are assumed to be approved. */
import { invalidValue, notSupported, requiredField } from '../kube/field-error.ts';
import { type FieldShape, findShapeErrors, type ShapeValue } from '../kube/field-shape.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../kube/names.ts';
import { MAX_EXCEPTION_ITEMS } from '../kube/pod-security-exception.ts';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';
import { findSimilar, quote } from '../kube/text.ts';
import { parseTimestamp } from '../kube/units.ts';
import { printFieldPath } from '../policy/pod/index.ts';
import { type PreparedException, prepareException } from '../policy/psa/index.ts';
import {
  checks,
  CHECKS_WITHOUT_VALUES,
  type ExceptionIndex,
  indexExceptions,
  NO_EXCEPTIONS,
  unexpired,
} from '../policy/pss/index.ts';
import { describeWrongType, type WrongType } from './field-types.ts';
import { apiGroup, manifestName, manifestNamespace, type ManifestObject } from './objects.ts';
import type { Path } from './yaml.ts';

export function isException({ apiVersion, kind }: ManifestObject): boolean {
  return kind === 'PodSecurityException' && apiGroup(apiVersion) === RESOURCES.PodSecurityException.group;
}

const SHAPE = {
  apiVersion: 'string',
  kind: 'string',
  metadata: 'any',
  spec: {
    serviceAccountName: 'string',
    allow: [{ check: 'string', container: 'string', image: 'string', values: ['string'] }],
    expiresAt: 'string',
    reason: 'string',
  },
  status: 'any',
} as const satisfies FieldShape;

const RULES: Readonly<Record<string, { readonly detail: string; readonly fix: string; test(text: string): boolean }>> =
  {
    serviceAccountName: {
      detail: 'must be the name of a service account',
      fix: 'Use the name of a service account in the namespace.',
      test: (text) => dnsSubdomainErrors(text).length === 0,
    },
    container: {
      detail: 'must be the name of a container',
      fix: 'Use the name of a container or init container.',
      test: (text) => dnsLabelErrors(text).length === 0,
    },
    image: {
      detail: 'must be a repository with a registry, and must not have a tag',
      fix: 'Use a repository such as registry.example.com/gateway, optionally with a digest.',
      test: (text) =>
        text.length <= 512 &&
        /^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?\/[a-z0-9]+([._/-]+[a-z0-9]+)*(@sha256:[a-f0-9]{64})?$/.test(text),
    },
    expiresAt: {
      detail: 'must be a time in RFC 3339',
      fix: 'Use a time such as "2027-01-31T00:00:00Z".',
      test: (text) =>
        /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/.test(text) &&
        parseTimestamp(text) !== undefined,
    },
    values: {
      detail: 'must have 1 to 512 characters',
      fix: 'Use the value of the field that violates the check.',
      test: (text) => text !== '' && text.length <= 512,
    },
    reason: {
      detail: 'must have 1 to 1024 characters',
      fix: 'Give a reason, for example a ticket number.',
      test: (text) => text !== '' && text.length <= 1024,
    },
  };

/**
 * Returns an error for each field of an exception that API servers reject. Each unknown field is an error, as in
 * kubectl.
 */
export function exceptionErrors({
  apiVersion,
  value,
}: Pick<ManifestObject, 'apiVersion' | 'value'>): readonly WrongType[] {
  const expected = getApiVersion('PodSecurityException');
  if (apiVersion !== expected) {
    const error = notSupported('apiVersion', apiVersion, [expected]);
    return [{ path: ['apiVersion'], error, fix: `Use ${expected}.` }];
  }
  const misshapen = findShapeErrors(value, SHAPE).map((problem): WrongType => {
    if (!('known' in problem)) return describeWrongType(problem);
    const { path } = problem;
    const similar = findSimilar(String(path.at(-1)), problem.known);
    const fix = similar === undefined ? 'Remove the field.' : `Write ${quote(similar)}.`;
    const error = { type: 'FieldValueForbidden', path: printFieldPath(path), detail: 'unknown field' } as const;
    return { path, error, fix };
  });
  return misshapen.length > 0 ? misshapen : specErrors((value as ShapeValue<typeof SHAPE>).spec);
}

type Spec = NonNullable<ShapeValue<typeof SHAPE>['spec']>;

function specErrors(spec: Spec | null | undefined): readonly WrongType[] {
  if (spec == null) return [missing(['spec'])];
  const { allow } = spec;
  const fields = (['serviceAccountName', 'expiresAt', 'reason'] as const).flatMap((name) =>
    spec[name] == null ? [missing(['spec', name])] : textErrors(['spec', name], spec[name]),
  );
  if (allow == null) return [...fields, missing(['spec', 'allow'])];
  return [
    ...fields,
    ...lengthErrors(['spec', 'allow'], allow),
    ...allow.flatMap((entry, index) => entryErrors(['spec', 'allow', index], entry)),
  ];
}

function missing(path: Path): WrongType {
  const field = printFieldPath(path);
  return { path, error: requiredField(field, ''), fix: `Set ${field}.` };
}

function textErrors(path: Path, value: string | null | undefined, name = String(path.at(-1))): readonly WrongType[] {
  const rule = RULES[name];
  if (rule === undefined || value == null || rule.test(value)) return [];
  return [{ path, error: invalidValue(printFieldPath(path), value, rule.detail), fix: rule.fix }];
}

/** Returns the errors in a list of strings. */
function listErrors(path: Path, list: readonly string[]): readonly WrongType[] {
  const items = list.flatMap((item, index) => textErrors([...path, index], item, 'values'));
  return [...lengthErrors(path, list), ...items];
}

function lengthErrors(path: Path, list: readonly unknown[]): readonly WrongType[] {
  if (list.length > 0 && list.length <= MAX_EXCEPTION_ITEMS) return [];
  const detail = `must have 1 to ${MAX_EXCEPTION_ITEMS} items`;
  const fix = list.length === 0 ? 'Add an item to the list.' : 'Remove items from the list.';
  return [{ path, error: invalidValue(printFieldPath(path), list.length, detail), fix }];
}

const CHECK_IDS: readonly string[] = checks.map(({ id }) => id);

function entryErrors(path: Path, entry: NonNullable<Spec['allow']>[number]): readonly WrongType[] {
  const { check, container, image, values } = entry;
  if (check == null) return [missing([...path, 'check'])];
  const field = printFieldPath([...path, 'check']);
  if (!CHECK_IDS.includes(check)) {
    const similar = findSimilar(check, CHECK_IDS);
    const fix = similar === undefined ? 'Use the ID of a check.' : `Write ${quote(similar)}.`;
    return [{ path: [...path, 'check'], error: notSupported(field, check, CHECK_IDS), fix }];
  }
  const isPaired = (container == null) === (image == null);
  const pair = invalidValue(printFieldPath(path), container ?? image, 'requires both container and image, or neither');
  const takesValues = !CHECKS_WITHOUT_VALUES.includes(check);
  const presence = takesValues
    ? missing([...path, 'values'])
    : {
        path: [...path, 'values'],
        error: invalidValue(`${printFieldPath(path)}.values`, values, `must not be set for ${check}`),
        fix: 'Remove the field.',
      };
  return [
    ...textErrors([...path, 'container'], container),
    ...textErrors([...path, 'image'], image),
    ...(isPaired ? [] : [{ path, error: pair, fix: 'Set both container and image, or neither for pod-level fields.' }]),
    ...(takesValues === (values != null) ? [] : [presence]),
    ...(values == null ? [] : listErrors([...path, 'values'], values)),
  ];
}

/**
 * Returns the exception in a manifest, or `undefined` for objects of other kinds and for exceptions that API servers
 * reject.
 */
export function readManifestException(
  object: ManifestObject,
  fallbackNamespace: string,
): PreparedException | undefined {
  if (!isException(object) || exceptionErrors(object).length > 0) return undefined;
  const { value } = object;
  const metadata = { name: manifestName(value), namespace: manifestNamespace(value) ?? fallbackNamespace };
  return prepareException({ ...value, metadata }, { specHash: '', authors: undefined });
}

/** Returns a function that looks up the unexpired exceptions in a namespace. */
export function manifestExceptions(
  objects: readonly ManifestObject[],
  { namespace, nowMs }: { readonly namespace: string; readonly nowMs: number },
): (namespace: string) => ExceptionIndex {
  const exceptions = Map.groupBy(
    objects.flatMap((object) => readManifestException(object, namespace) ?? []),
    (exception) => exception.namespace,
  );
  const indexes = new Map(
    [...exceptions].map(([name, list]) => {
      const rules = list.map(({ rule }) => rule);
      return [name, indexExceptions(unexpired(rules, nowMs))];
    }),
  );
  return (name) => indexes.get(name) ?? NO_EXCEPTIONS;
}
