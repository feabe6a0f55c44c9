import { dirname, resolve } from 'node:path';
import { readDocuments, type Path } from '../config/manifests.ts';
import type { Source } from '../config/source.ts';
import { UserError } from '../config/user-error.ts';
import { isObject } from '../kube/types.ts';
import { createFieldReader, type FieldReader } from './field-reader.ts';
import {
  clusterAt,
  contextAt,
  userAt,
  type ClusterEntry,
  type ContextEntry,
  type InFolder,
  type UserEntry,
} from './kubeconfig-entries.ts';

/** Several kubeconfig files as one. */
export interface Kubeconfig {
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  readonly users: ReadonlyMap<string, UserEntry>;
  readonly contexts: ReadonlyMap<string, ContextEntry>;
  readonly currentContext: string | undefined;
}

/**
 * Reads kubeconfigs and joins them: of what several files say, the first one counts. Paths in a file are relative to it.
 * @throws {UserError} that names file, line and column of what cannot be read
 * @see https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
 */
export function readKubeconfig(sources: readonly Source[]): Kubeconfig {
  const parts = sources.map(readOne);
  return {
    clusters: firstOf(parts.flatMap(({ clusters }) => clusters)),
    users: firstOf(parts.flatMap(({ users }) => users)),
    contexts: firstOf(parts.flatMap(({ contexts }) => contexts)),
    currentContext: parts.map(({ currentContext }) => currentContext).find((name) => name !== undefined),
  };
}

type Named<T> = readonly (readonly [name: string, entry: T])[];

interface Part {
  readonly clusters: Named<ClusterEntry>;
  readonly users: Named<UserEntry>;
  readonly contexts: Named<ContextEntry>;
  readonly currentContext: string | undefined;
}

function readOne({ file, text }: Source): Part {
  const { documents, errors } = readDocuments(text, file);
  const [error] = errors;
  if (error) throw new UserError(`${file}:${error.line}:${error.column}: ${error.message}`);
  const [document] = documents;
  if (!document) return { clusters: [], users: [], contexts: [], currentContext: undefined };
  if (!isObject(document.value)) throw new UserError(`${file}: no kubeconfig: it holds no object`);
  const reader = createFieldReader(document);
  const inFolder: InFolder = (path) => path && resolve(dirname(file), path);
  return {
    clusters: named(reader, 'clusters', (path) => clusterAt(reader, [...path, 'cluster'], inFolder)),
    users: named(reader, 'users', (path) => userAt(reader, [...path, 'user'], inFolder)),
    contexts: named(reader, 'contexts', (path) => contextAt(reader, [...path, 'context'])),
    currentContext: reader.text(['current-context']),
  };
}

function named<T>(reader: FieldReader, list: string, read: (path: Path) => T): Named<T> {
  return reader.items([list]).map((path) => {
    const name = reader.text([...path, 'name']);
    if (name === undefined) throw reader.fail([...path, 'name'], ' is missing');
    return [name, read(path)];
  });
}

function firstOf<T>(entries: Named<T>): ReadonlyMap<string, T> {
  const first = new Map<string, T>();
  for (const [name, entry] of entries) if (!first.has(name)) first.set(name, entry);
  return first;
}
