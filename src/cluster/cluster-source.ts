import { dirname, resolve, delimiter, join } from 'node:path';
import { access, readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import type { OutgoingHttpHeaders } from 'node:http';
import { type ManifestDocument, type Path, readDocuments } from '../config/yaml.ts';
import { UserError, type Source, readSource } from '../config/files.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { quote } from '../kube/text.ts';

/**
 * Reads fields of a document by their paths. An absent or empty one is `undefined`.
 * Throws a UserError with file, line and column for a field of another type.
 */
interface FieldReader {
  text(path: Path): string | undefined;
  flag(path: Path): boolean;
  texts(path: Path): readonly string[];
  object(path: Path): JsonObject | undefined;
  /** The paths of the items of a list. */
  items(path: Path): readonly Path[];
  fail(path: Path, problem: string): UserError;
}

function createFieldReader({ file, value: root, positionOf }: ManifestDocument): FieldReader {
  const fail = (path: Path, problem: string): UserError => {
    const { line, column } = positionOf(path);
    return new UserError(`${file}:${line}:${column}: ${printPath(path)}${problem}`);
  };
  const read = <T>(path: Path, is: (value: unknown) => value is T, name: string): T | undefined => {
    const value = valueAt(root, path);
    if (value == null) return undefined;
    if (!is(value)) throw fail(path, ` must be ${name}`);
    return value;
  };
  return {
    text: (path) => read(path, isText, 'a string') || undefined,
    flag: (path) => read(path, isFlag, 'true or false') ?? false,
    texts: (path) => read(path, isTexts, 'a list of strings') ?? [],
    object: (path) => read(path, isObject, 'an object'),
    items: (path) => (read(path, Array.isArray, 'a list') ?? []).map((_item, index) => [...path, index]),
    fail,
  };
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce((value, name) => {
    if (Array.isArray(value)) return value[Number(name)] as unknown;
    return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }, root);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isFlag(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(isText);
}

/** `users[0].user.token` */
function printPath(path: Path): string {
  return path.reduce<string>(
    (text, name) => (typeof name === 'number' ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`),
    '',
  );
}

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
interface UserEntry {
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
interface Impersonation {
  readonly username: string;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

interface ContextEntry {
  readonly cluster: string;
  readonly user: string | undefined;
  readonly namespace: string | undefined;
}

/** Makes a path absolute. */
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

/** Several kubeconfig files as one. */
interface Kubeconfig {
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

export interface ClusterSource {
  /** The kubeconfig, instead of those that the environment names. */
  readonly kubeconfig?: string | undefined;
  /** Instead of the current one. */
  readonly context?: string | undefined;
  /** The cluster in whose pod this runs, and no other. */
  readonly inCluster?: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A cluster, and who goes there. */
interface FoundCluster {
  readonly cluster: ClusterEntry;
  /** Absent: nobody in particular. */
  readonly user: UserEntry | undefined;
  /** Where objects belong that name no namespace. */
  readonly namespace: string;
}

/** Where a pod finds what it needs to know of its cluster. */
const IN_CLUSTER = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Finds the cluster: by the kubeconfig that is named, by those of `KUBECONFIG`, by `~/.kube/config`, or around the
 * process, the first that there is.
 * Rejects with a UserError if there is none, or if the kubeconfig does not lead to one.
 */
export async function resolveCluster(whereabouts: ClusterSource): Promise<FoundCluster> {
  if (whereabouts.inCluster === true) {
    const around = await findAround(whereabouts.env);
    if (around) return around;
    throw new UserError(`this is no pod of a cluster: ${missingAround(whereabouts.env)}`);
  }
  const found = await findAnyCluster(whereabouts);
  if (found) return found;
  throw notFound(filesOf(whereabouts.env));
}

function notFound(files: readonly string[]): UserError {
  const looked = files.length === 0 ? 'KUBECONFIG and HOME are not set' : `there is no ${files.join(', no ')}`;
  return new UserError(`no cluster to read: ${looked}; name a kubeconfig with --kubeconfig`);
}

/**
 * The same; resolves to `undefined` if nobody names a kubeconfig, there is none at home, and no cluster around the process.
 */
export async function findAnyCluster({ kubeconfig, context, env }: ClusterSource): Promise<FoundCluster | undefined> {
  if (kubeconfig !== undefined)
    return chooseContext(readKubeconfig([await readSource(kubeconfig)]), context, kubeconfig);
  const files = filesOf(env);
  const sources = (await Promise.all(files.map(readIfThere))).filter((source) => source !== undefined);
  if (sources.length > 0) return chooseContext(readKubeconfig(sources), context, files.join(delimiter));
  // Whoever names one means that cluster, and no other.
  if (namedIn(env).length > 0) throw notFound(files);
  return await findAround(env);
}

function namedIn(env: ClusterSource['env']): readonly string[] {
  return (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
}

function filesOf(env: ClusterSource['env']): readonly string[] {
  const named = namedIn(env);
  if (named.length > 0) return [...new Set(named)];
  const home = env['HOME'] || env['USERPROFILE'];
  return home ? [join(home, '.kube', 'config')] : [];
}

async function readIfThere(file: string): Promise<Source | undefined> {
  const isMissing = await access(file).then(
    () => false,
    (error: unknown) => error instanceof Error && 'code' in error && error.code === 'ENOENT',
  );
  return isMissing ? undefined : await readSource(file);
}

function chooseContext(config: Kubeconfig, wanted: string | undefined, files: string): FoundCluster {
  const name = wanted ?? config.currentContext;
  if (name === undefined) {
    throw new UserError(
      `${files}: there is no current-context: choose one with --context${choicesOf(config.contexts)}`,
    );
  }
  const context = config.contexts.get(name);
  if (!context) throw new UserError(`${files}: context ${quote(name)} does not exist${choicesOf(config.contexts)}`);
  const cluster = config.clusters.get(context.cluster);
  if (!cluster)
    throw new UserError(`${files}: cluster ${quote(context.cluster)} of context ${quote(name)} does not exist`);
  const user = context.user === undefined ? undefined : config.users.get(context.user);
  if (context.user !== undefined && !user) {
    throw new UserError(`${files}: user ${quote(context.user)} of context ${quote(name)} does not exist`);
  }
  return { cluster, user, namespace: context.namespace || 'default' };
}

function choicesOf(contexts: Kubeconfig['contexts']): string {
  return contexts.size === 0 ? '' : `; there are ${[...contexts.keys()].join(', ')}`;
}

/** The cluster in whose pod this runs; `undefined` where it is no pod. */
async function findAround(env: ClusterSource['env']): Promise<FoundCluster | undefined> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  const read = (file: string): Promise<string | undefined> =>
    readFile(join(IN_CLUSTER, file), 'utf8').catch(() => undefined);
  if (!host || !port || (await read('token')) === undefined) return undefined;
  return {
    cluster: {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      authorityData: undefined,
      authorityFile: join(IN_CLUSTER, 'ca.crt'),
      skipVerification: false,
      serverName: undefined,
      proxyUrl: undefined,
    },
    user: { ...NOBODY, tokenFile: join(IN_CLUSTER, 'token') },
    namespace: (await read('namespace'))?.trim() || 'default',
  };
}

/** What a process lacks to be a pod that may speak to its cluster. */
function missingAround(env: ClusterSource['env']): string {
  const unset = ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT'].find((name) => !env[name]);
  if (unset !== undefined) return `${unset} is not set`;
  return `there is no token at ${join(IN_CLUSTER, 'token')}; automountServiceAccountToken may be false`;
}

const NOBODY: UserEntry = {
  certificateData: undefined,
  certificateFile: undefined,
  keyData: undefined,
  keyFile: undefined,
  token: undefined,
  tokenFile: undefined,
  username: undefined,
  password: undefined,
  impersonate: undefined,
  exec: undefined,
  authProvider: undefined,
};

/**
 * Makes the function that asks the program or provider that a user names for credentials, which it remembers for as
 * long as they are good. Without one it gives none.
 */
function askPlugin(user: UserEntry, cluster: ClusterEntry): () => Promise<Credentials> {
  const { exec, authProvider } = user;
  if (exec === undefined && authProvider === undefined) return () => Promise.resolve({ headers: {} });
  const name = String(exec?.['command'] ?? authProvider?.['name']);
  const loading = loadPlugin({
    name,
    ...(authProvider === undefined ? {} : { authProvider }),
    ...(exec === undefined ? {} : { exec: { ...exec, env: [...listOf(exec['env']), executionInfo(exec, cluster)] } }),
  });
  // Whoever asks is told.
  loading.catch(() => undefined);
  return async () => {
    const options: RequestOptions = {};
    try {
      await (await loading).applyToHTTPSOptions(options);
    } catch (error) {
      const reason = error instanceof Error ? error.message.trim() : String(error);
      throw new UserError(`the credential plugin ${name} failed: ${reason}`, { cause: error });
    }
    return credentialsIn(options);
  };
}

/** Loaded only where it is needed: reading it takes longer than most commands. */
async function loadPlugin(user: { readonly name: string }): Promise<Plugin> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  // No file: everything that is not a plugin is read elsewhere.
  config.loadFromClusterAndUser({ name: 'cluster', server: 'https://cluster', skipTLSVerify: false }, user);
  return config;
}

interface Plugin {
  applyToHTTPSOptions(options: RequestOptions): Promise<void>;
}

function credentialsIn({ headers = {}, cert, key }: RequestOptions): Credentials {
  const { Authorization: authorization } = headers as Readonly<Record<string, unknown>>;
  return {
    headers: typeof authorization === 'string' ? { authorization } : {},
    ...(typeof cert === 'string' && typeof key === 'string' ? { cert, key } : {}),
  };
}

/**
 * What tells the program that nobody answers its questions, and for which cluster it is asked.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
function executionInfo(exec: JsonObject, cluster: ClusterEntry): JsonObject {
  const info = {
    apiVersion: exec['apiVersion'],
    kind: 'ExecCredential',
    spec: {
      interactive: false,
      ...(exec['provideClusterInfo'] === true
        ? {
            cluster: {
              server: cluster.server,
              'certificate-authority-data': cluster.authorityData,
              'tls-server-name': cluster.serverName,
              'insecure-skip-tls-verify': cluster.skipVerification,
            },
          }
        : {}),
    },
  };
  return { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify(info) };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** What shows a server who is asking: headers, and a client certificate with its key in PEM. */
export interface Credentials {
  readonly headers: OutgoingHttpHeaders;
  readonly cert?: string;
  readonly key?: string;
}

/**
 * Makes the function that gives the credentials of a user as they are now: files are read again each time, since
 * tokens and certificates are renewed. Rejects with a UserError that says what cannot be read.
 */
export function createCredentials(user: UserEntry | undefined, cluster: ClusterEntry): () => Promise<Credentials> {
  if (!user) return () => Promise.resolve({ headers: {} });
  const plugin = askPlugin(user, cluster);
  return async () => {
    const [cert, key, authorization, given] = await Promise.all([
      dataOrFile(user.certificateData, user.certificateFile),
      dataOrFile(user.keyData, user.keyFile),
      authorizationOf(user),
      plugin(),
    ]);
    const headers = {
      ...(authorization === undefined ? given.headers : { authorization }),
      ...(user.impersonate ? impersonationHeaders(user.impersonate) : {}),
    };
    const pair = { cert: cert ?? given.cert, key: key ?? given.key };
    if (pair.cert === undefined && pair.key === undefined) return { headers };
    if (pair.cert === undefined || pair.key === undefined) {
      throw new UserError(`the credentials for ${cluster.server} hold only one of client-certificate and client-key`);
    }
    return { headers, cert: pair.cert, key: pair.key };
  };
}

/** A text that is given in base64, or else by a file. */
export async function dataOrFile(data: string | undefined, file: string | undefined): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8');
  return file === undefined ? undefined : await readText(file);
}

async function authorizationOf({ token, tokenFile, username, password }: UserEntry): Promise<string | undefined> {
  const bearer = tokenFile === undefined ? token : (await readText(tokenFile)).trim();
  if (bearer !== undefined && bearer !== '') return `Bearer ${bearer}`;
  if (username === undefined) return undefined;
  return `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`;
}

async function readText(file: string): Promise<string> {
  return (await readSource(file)).text;
}

/** @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
function impersonationHeaders({ username, uid, groups, extra }: Impersonation): Credentials['headers'] {
  return {
    'impersonate-user': username,
    ...(uid === undefined ? {} : { 'impersonate-uid': uid }),
    ...(groups.length === 0 ? {} : { 'impersonate-group': [...groups] }),
    ...Object.fromEntries(
      Object.entries(extra).map(([key, values]) => [`impersonate-extra-${encodeURIComponent(key)}`, [...values]]),
    ),
  };
}
