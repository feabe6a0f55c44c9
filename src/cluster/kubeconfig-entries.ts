import type { Path } from '../config/manifests.ts';
import type { JsonObject } from '../kube/types.ts';
import type { FieldReader } from './field-reader.ts';

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

/** Makes a path absolute. */
export type InFolder = (path: string | undefined) => string | undefined;

export function clusterAt(reader: FieldReader, path: Path, inFolder: InFolder): ClusterEntry {
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

export function userAt(reader: FieldReader, path: Path, inFolder: InFolder): UserEntry {
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

export function contextAt(reader: FieldReader, path: Path): ContextEntry {
  const cluster = reader.text([...path, 'cluster']);
  if (cluster === undefined) throw reader.fail([...path, 'cluster'], ' is missing');
  return { cluster, user: reader.text([...path, 'user']), namespace: reader.text([...path, 'namespace']) };
}
