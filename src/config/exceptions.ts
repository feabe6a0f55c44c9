/** Reads PodSecurityExceptions from manifests. These are assumed to be approved. */
import { RESOURCES } from '../kube/resources.ts';
import { type PreparedException, prepareException } from '../policy/psa/exceptions.ts';
import { type ExceptionIndex, indexExceptions, NO_EXCEPTIONS, unexpired } from '../policy/pss/exceptions.ts';
import { apiGroup, manifestName, manifestNamespace, type ManifestObject } from './objects.ts';

/** Returns `undefined` for objects of other kinds, and for exceptions that do not conform to the schema. */
export function readManifestException(
  { apiVersion, kind, value }: ManifestObject,
  fallbackNamespace: string,
): PreparedException | undefined {
  const isException = kind === 'PodSecurityException' && apiGroup(apiVersion) === RESOURCES.PodSecurityException.group;
  const metadata = { name: manifestName(value), namespace: manifestNamespace(value) ?? fallbackNamespace };
  return isException ? prepareException({ ...value, metadata }, { specHash: '', authors: undefined }) : undefined;
}

/** Returns a function that returns the unexpired exceptions in a namespace. */
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
