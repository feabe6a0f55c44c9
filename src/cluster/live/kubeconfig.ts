import { dirname, resolve } from 'node:path';
import { readDocuments } from '../../config/manifests.ts';
import type { Path } from '../../config/manifests.ts';
import type { Source } from '../../config/source.ts';
import { UserError } from '../../config/user-error.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { createFieldReader, type FieldReader } from './field-reader.ts';

/** Where a cluster is, and how it is known to be that. */
export interface ClusterEntry {
  readonly server: string;
  /** PEM, in base64; goes before the file. */
  readonly authorityData: string | undefined;
  readonly authorityFile: string | undefined;
  readonly skipVerification: boolean;
  readonly serverName: string | undefined;
  readonly proxyUrl: string | undefined;
}

/** How a user shows who it is. What holds data goes before what names a file. */
export interface UserEntry {
  readonly certificateData: string | undefined;
  readonly certificateFile: string | undefined;
  readonly keyData: string | undefined;
  readonly keyFile: string | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly impersonate: Impersonation | undefined;
  /** A program, or a provider that clients know, that gives credentials; as they stand in the file. */
  readonly exec: JsonObject | undefined;
  readonly authProvider: JsonObject | undefined;
}

/** As whom to act. */
export interface Impersonation {
  readonly username: string;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export interface ContextEntry {
  readonly cluster: string;
  readonly user: string | undefined;
  readonly namespace: string | undefined;
}

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
  const inFolder = (path: string | undefined): string | undefined => path && resolve(dirname(file), path);
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

type InFolder = (path: string | undefined) => string | undefined;

function clusterAt(reader: FieldReader, path: Path, inFolder: InFolder): ClusterEntry {
  return {
    server: urlAt(reader, [...path, 'server'], ' must be a URL such as https://127.0.0.1:6443'),
    authorityData: reader.text([...path, 'certificate-authority-data']),
    authorityFile: inFolder(reader.text([...path, 'certificate-authority'])),
    skipVerification: reader.flag([...path, 'insecure-skip-tls-verify']),
    serverName: reader.text([...path, 'tls-server-name']),
    proxyUrl: reader.text([...path, 'proxy-url']) && urlAt(reader, [...path, 'proxy-url'], ' must be an HTTP proxy'),
  };
}

function urlAt(reader: FieldReader, path: Path, rule: string): string {
  const url = URL.parse(reader.text(path) ?? '');
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') throw reader.fail(path, rule);
  return url.href.replace(/\/$/, '');
}

function userAt(reader: FieldReader, path: Path, inFolder: InFolder): UserEntry {
  return {
    certificateData: reader.text([...path, 'client-certificate-data']),
    certificateFile: inFolder(reader.text([...path, 'client-certificate'])),
    keyData: reader.text([...path, 'client-key-data']),
    keyFile: inFolder(reader.text([...path, 'client-key'])),
    token: reader.text([...path, 'token']),
    tokenFile: inFolder(reader.text([...path, 'tokenFile'])),
    username: reader.text([...path, 'username']),
    password: reader.text([...path, 'password']),
    impersonate: impersonationAt(reader, path),
    exec: execAt(reader, [...path, 'exec'], inFolder),
    authProvider: reader.object([...path, 'auth-provider']),
  };
}

function impersonationAt(reader: FieldReader, path: Path): Impersonation | undefined {
  const username = reader.text([...path, 'as']);
  if (username === undefined) return undefined;
  const extra = Object.keys(reader.object([...path, 'as-user-extra']) ?? {});
  return {
    username,
    uid: reader.text([...path, 'as-uid']),
    groups: reader.texts([...path, 'as-groups']),
    extra: Object.fromEntries(extra.map((key) => [key, reader.texts([...path, 'as-user-extra', key])])),
  };
}

/** A command that is a path is relative to the file; another one is looked for in the PATH. */
function execAt(reader: FieldReader, path: Path, inFolder: InFolder): JsonObject | undefined {
  const exec = reader.object(path);
  if (exec === undefined) return undefined;
  const command = reader.text([...path, 'command']);
  if (command === undefined) throw reader.fail([...path, 'command'], ' is missing');
  reader.texts([...path, 'args']);
  for (const item of reader.items([...path, 'env'])) {
    for (const field of ['name', 'value']) reader.text([...item, field]);
  }
  return { ...exec, command: /[/\\]/.test(command) ? inFolder(command) : command };
}

function contextAt(reader: FieldReader, path: Path): ContextEntry {
  const cluster = reader.text([...path, 'cluster']);
  if (cluster === undefined) throw reader.fail([...path, 'cluster'], ' is missing');
  return { cluster, user: reader.text([...path, 'user']), namespace: reader.text([...path, 'namespace']) };
}

function firstOf<T>(entries: Named<T>): ReadonlyMap<string, T> {
  const first = new Map<string, T>();
  for (const [name, entry] of entries) if (!first.has(name)) first.set(name, entry);
  return first;
}
