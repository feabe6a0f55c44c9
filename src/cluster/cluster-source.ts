/**
 * Finds the cluster and its credentials, either in a kubeconfig or through the pod's service account. The KubeConfig
 * class of client-node handles tokens, certificates and exec plugins. It is loaded only when a cluster is needed,
 * because loading it takes longer than most commands.
 */
import { existsSync, readFileSync } from 'node:fs';
import { access } from 'node:fs/promises';
import type { OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { Cluster, KubeConfig } from '@kubernetes/client-node';
import { failureReason, readSource, type TextFile } from '../config/files.ts';
import { readDocuments } from '../config/yaml.ts';
import { errorCode } from '../kube/error-code.ts';
import { quote } from '../kube/text.ts';
import { isObject, type JsonObject, objectMember, objectsIn } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';

export interface ClusterSource {
  /** A kubeconfig file to use instead of the files that the environment specifies. */
  readonly kubeconfig?: string | undefined;
  /** The context to use instead of the current context. */
  readonly context?: string | undefined;
  /** True to use the service account of the pod in which the process runs. */
  readonly inCluster?: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A cluster's API server and the credentials for it. */
export interface ClusterTarget {
  /** Name of the context in the kubeconfig. Absent for a service account. */
  readonly context?: string | undefined;
  /** URL of the API server, such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** Expected name in the server's certificate, if it differs from the host in the URL. */
  readonly serverName: string | undefined;
  readonly skipVerification: boolean;
  readonly proxyUrl: string | undefined;
  /** Namespace of objects that do not set one. */
  readonly namespace: string;
  /** Returns the current credentials. Files are reread periodically because tokens and certificates are renewed. */
  credentials(): Promise<Credentials>;
}

/** Credentials for connections and requests. Certificates and keys are in PEM. */
export interface Credentials {
  readonly headers: OutgoingHttpHeaders;
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/**
 * Finds the cluster. In order of precedence, it uses the kubeconfig in the options, the files in `KUBECONFIG`,
 * `~/.kube/config`, and the pod's service account. Rejects with a UserError if there is no cluster or the kubeconfig is
 * invalid.
 */
export async function resolveCluster(source: ClusterSource): Promise<ClusterTarget> {
  const { inCluster, env } = source;
  if (inCluster === true && !isPod(env))
    throw new UserError(`not running in a pod: ${missingVariable(env)} is not set`);
  const target = inCluster === true ? await podTarget() : await findCluster(source);
  if (target) return target;
  if (inCluster === true) {
    throw new UserError(`not running in a pod: there is no ${TOKEN_FILE}; automountServiceAccountToken may be false`);
  }
  throw notFound(kubeconfigFiles(env));
}

/** Finds the cluster like `resolveCluster`, but resolves to `undefined` if no cluster is configured. */
export async function findCluster(source: ClusterSource): Promise<ClusterTarget | undefined> {
  const { kubeconfig, context, env } = source;
  const sources = await readKubeconfigs(source);
  const files = kubeconfigFiles(env);
  if (sources.length > 0) return await kubeconfigTarget(sources, context, kubeconfig ?? files.join(delimiter));
  // A missing kubeconfig that was specified explicitly is an error, even in a pod.
  if (env['KUBECONFIG']) throw notFound(files);
  return isPod(env) ? await podTarget() : undefined;
}

/** Returns the names of the contexts. Rejects with a UserError if there is no kubeconfig, or if it is invalid. */
export async function listContexts(source: Omit<ClusterSource, 'context'>): Promise<readonly string[]> {
  const sources = await readKubeconfigs(source);
  if (sources.length === 0) throw notFound(kubeconfigFiles(source.env));
  return mergeKubeconfigs(sources).contexts.flatMap(({ name }) => (typeof name === 'string' ? [name] : []));
}

/** Reads the kubeconfig in the options or, without one, the existing files that the environment specifies. */
async function readKubeconfigs({ kubeconfig, env }: ClusterSource): Promise<readonly TextFile[]> {
  if (kubeconfig !== undefined) return [await readSource(kubeconfig)];
  return (await Promise.all(kubeconfigFiles(env).map(readIfExists))).filter((source) => source !== undefined);
}

function notFound(files: readonly string[]): UserError {
  const reason = files.length === 0 ? 'KUBECONFIG and HOME are not set' : `there is no ${files.join(', no ')}`;
  return new UserError(`no cluster to read: ${reason}; set --kubeconfig`);
}

function kubeconfigFiles(env: ClusterSource['env']): readonly string[] {
  const named = (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  if (named.length > 0) return [...new Set(named)];
  // As in client-go, an existing file takes precedence, because both variables may be set on Windows.
  const files = [env['HOME'], env['USERPROFILE']].flatMap((home) => (home ? [join(home, '.kube', 'config')] : []));
  const file = files.find((file) => existsSync(file)) ?? files[0];
  return file === undefined ? [] : [file];
}

async function readIfExists(file: string): Promise<TextFile | undefined> {
  const isMissing = await access(file).then(
    () => false,
    (error: unknown) => errorCode(error) === 'ENOENT',
  );
  return isMissing ? undefined : await readSource(file);
}

/** File that contains the token of the pod's service account. */
const TOKEN_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/token';

function isPod(env: ClusterSource['env']): boolean {
  return missingVariable(env) === undefined;
}

function missingVariable(env: ClusterSource['env']): string | undefined {
  return ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT'].find((name) => !env[name]);
}

async function podTarget(): Promise<ClusterTarget | undefined> {
  if ((await readIfExists(TOKEN_FILE).catch(() => undefined)) === undefined) return undefined;
  const config = await createKubeConfig();
  config.loadFromCluster();
  const namespace = config.getContexts()[0]?.namespace?.trim();
  return createTarget(config, namespace, {});
}

async function createKubeConfig(): Promise<KubeConfig> {
  // Imports only one module, because the whole package would load the models and clients for all kinds.
  const { KubeConfig: Constructor } = await import('@kubernetes/client-node/dist/config.js');
  return new Constructor();
}

async function kubeconfigTarget(
  sources: readonly TextFile[],
  context: string | undefined,
  files: string,
): Promise<ClusterTarget> {
  const raw = mergeKubeconfigs(sources);
  const config = await createKubeConfig();
  try {
    // As in kubectl, only the entries of the selected context must be complete.
    config.loadFromString(JSON.stringify(raw), { onInvalidEntry: 'filter' });
    return chooseContext(config, context, raw);
  } catch (error) {
    throw new UserError(`${files}: ${errorMessage(error)}`, { cause: error });
  }
}

function chooseContext(config: KubeConfig, wanted: string | undefined, raw: RawKubeconfig): ClusterTarget {
  const name = wanted ?? config.getCurrentContext();
  const names = config.getContexts().map((context) => context.name);
  const choices = names.length === 0 ? '' : `; the contexts are ${names.join(', ')}`;
  if (!name) throw new Error(`there is no current-context: choose one with --context${choices}`);
  const context = config.getContextObject(name);
  const exists = (list: 'clusters' | 'contexts', wanted: string): boolean =>
    raw[list].some((entry) => entry['name'] === wanted);
  if (!context) {
    const problem = exists('contexts', name) ? 'has no cluster' : 'does not exist';
    throw new Error(`context ${quote(name)} ${problem}${choices}`);
  }
  const cluster = config.getCluster(context.cluster);
  if (!cluster) {
    const problem = exists('clusters', context.cluster) ? 'has no server' : 'does not exist';
    throw new Error(`cluster ${quote(context.cluster)} of context ${quote(name)} ${problem}`);
  }
  const user = context.user ? config.getUser(context.user) : { name: 'anonymous' };
  if (!user) throw new Error(`user ${quote(context.user)} of context ${quote(name)} does not exist`);
  const urls = { server: cluster.server, 'proxy-url': cluster.proxyUrl };
  for (const [field, url] of Object.entries(urls)) {
    if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
      throw new Error(`${field} of cluster ${quote(cluster.name)} must be an HTTP or HTTPS URL`);
  }
  // Removes the proxy, which only the connection uses. The build omits client-node's proxy agents.
  const { proxyUrl, ...direct } = cluster;
  const { extensions } = entryNamed(raw.clusters, cluster.name, 'cluster');
  config.loadFromClusterAndUser(direct, { ...user, exec: withExecutionInfo(user.exec, cluster, extensions) });
  const target = createTarget(config, context.namespace, entryNamed(raw.users, user.name, 'user'));
  return { ...target, context: name, proxyUrl };
}

/** Returns the fields of the entry with a name. They include the fields that client-node does not read. */
function entryNamed(entries: readonly JsonObject[], name: string, field: 'cluster' | 'user'): JsonObject {
  return objectMember(
    entries.find((entry) => entry['name'] === name),
    field,
  );
}

interface RawKubeconfig {
  readonly clusters: JsonObject[];
  readonly users: JsonObject[];
  readonly contexts: JsonObject[];
  'current-context'?: unknown;
}

/**
 * Merges kubeconfigs. If several entries have the same name, the first entry takes precedence. Relative paths are
 * resolved against the kubeconfig's directory.
 * @throws {UserError} with the file, line and column of a syntax error
 * @see https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
 */
function mergeKubeconfigs(sources: readonly TextFile[]): RawKubeconfig {
  const merged: RawKubeconfig = { clusters: [], users: [], contexts: [] };
  for (const { file, text } of sources) {
    const { documents, errors } = readDocuments(text, file);
    const [error] = errors;
    if (error) throw new UserError(`${file}:${error.line}:${error.column}: ${error.message}`);
    const value = documents[0]?.value ?? {};
    if (!isObject(value)) throw new UserError(`${file}: not a kubeconfig: it does not contain an object`);
    merged['current-context'] ||= value['current-context'];
    for (const list of ['clusters', 'users', 'contexts'] as const) {
      const entries: unknown = value[list] ?? [];
      if (!Array.isArray(entries)) throw new UserError(`${file}: ${list} must be a list`);
      for (const entry of entries.filter(isObject)) {
        if (merged[list].every(({ name }) => name !== entry['name']))
          merged[list].push(adaptEntry(entry, dirname(file)));
      }
    }
  }
  return merged;
}

/**
 * Adapts an entry for client-node, which does not support tokenFile and reads files even if inline data is set. As in
 * client-go, an empty text is equivalent to an absent field.
 */
function adaptEntry(entry: JsonObject, folder: string): JsonObject {
  const absolute = (path: unknown): unknown => (typeof path === 'string' ? resolve(folder, path) : path);
  const adapted: Record<string, unknown> = { ...entry };
  for (const key of ['cluster', 'user']) {
    if (!isObject(entry[key])) continue;
    const fields: Record<string, unknown> = Object.fromEntries(
      Object.entries(entry[key]).filter(([, value]) => value !== ''),
    );
    for (const file of ['certificate-authority', 'client-certificate', 'client-key'])
      fields[file] = fields[`${file}-data`] == null ? absolute(fields[file]) : undefined;
    if (typeof fields['tokenFile'] === 'string') {
      fields['auth-provider'] = { name: 'tokenFile', config: { tokenFile: absolute(fields['tokenFile']) } };
      delete fields['token'];
    }
    const { exec } = fields;
    // A command without a slash is looked up in PATH, so it is not resolved.
    if (isObject(exec) && /[/\\]/.test(String(exec['command'])))
      fields['exec'] = { ...exec, command: absolute(exec['command']) };
    adapted[key] = fields;
  }
  return adapted;
}

function createTarget(config: KubeConfig, namespace: string | undefined, user: JsonObject): ClusterTarget {
  const cluster = config.getCurrentCluster();
  const server = cluster?.server ?? '';
  return {
    server,
    serverName: cluster?.tlsServerName,
    skipVerification: cluster?.skipTLSVerify === true,
    proxyUrl: undefined,
    namespace: namespace || 'default',
    // Credentials are never sent unencrypted.
    credentials: server.startsWith('http:')
      ? () => Promise.resolve({ headers: {}, ca: undefined, cert: undefined, key: undefined })
      : cached(() => readCredentials(config, impersonationHeaders(user))),
  };
}

/**
 * Adds the environment variable that describes the cluster to an exec plugin and disables prompts.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
function withExecutionInfo(exec: unknown, cluster: Cluster, extensions: unknown): unknown {
  if (!isObject(exec)) return exec;
  const isInformed = exec['provideClusterInfo'] === true;
  const spec = { interactive: false, ...(isInformed ? { cluster: executionCluster(cluster, extensions) } : {}) };
  const value = JSON.stringify({ apiVersion: exec['apiVersion'], kind: 'ExecCredential', spec });
  const env: readonly unknown[] = Array.isArray(exec['env']) ? exec['env'] : [];
  return { ...exec, env: [...env, { name: 'KUBERNETES_EXEC_INFO', value }] };
}

/** Extension of a cluster that contains the configuration of its exec plugins. */
const EXEC_EXTENSION = 'client.authentication.k8s.io/exec';

function executionCluster(
  { server, caData, caFile, tlsServerName, skipTLSVerify, proxyUrl }: Cluster,
  extensions: unknown,
) {
  return {
    server,
    'certificate-authority-data': caData ?? (caFile && readFileSync(caFile, 'base64')),
    'tls-server-name': tlsServerName,
    'insecure-skip-tls-verify': skipTLSVerify,
    'proxy-url': proxyUrl,
    config: objectsIn(extensions).find(({ name }) => name === EXEC_EXTENSION)?.['extension'],
  };
}

/**
 * Time for which credentials are cached, after which renewed tokens and certificates take effect. client-node itself
 * caches tokens for a minute.
 */
const CREDENTIALS_TTL_MS = 10_000;

/** Caches a result for a limited time. Does not cache failures. */
function cached<T>(read: () => Promise<T>): () => Promise<T> {
  let current: { readonly value: Promise<T>; readonly untilMs: number } | undefined;
  return async () => {
    if (!current || Date.now() >= current.untilMs)
      current = { value: read(), untilMs: Date.now() + CREDENTIALS_TTL_MS };
    try {
      return await current.value;
    } catch (error) {
      current = undefined;
      throw error;
    }
  };
}

async function readCredentials(config: KubeConfig, impersonation: OutgoingHttpHeaders): Promise<Credentials> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw credentialsError(error, config);
  }
  const { Authorization: bearer } = (options.headers ?? {}) as Readonly<Record<string, unknown>>;
  const basic = options.auth == null ? undefined : `Basic ${Buffer.from(options.auth).toString('base64')}`;
  const authorization = typeof bearer === 'string' ? bearer.trim() : basic;
  const [ca, cert, key] = [options.ca, options.cert, options.key].map(pemText);
  if ((cert === undefined) !== (key === undefined)) {
    const server = config.getCurrentCluster()?.server ?? '';
    throw new UserError(`the credentials for ${server} contain only one of client-certificate and client-key`);
  }
  return { headers: { ...(authorization ? { authorization } : {}), ...impersonation }, ca, cert, key };
}

/** Converts the content of files, which client-node returns as buffers, to text. */
function pemText(pem: unknown): string | undefined {
  return Buffer.isBuffer(pem) ? pem.toString() : typeof pem === 'string' ? pem : undefined;
}

function credentialsError(error: unknown, config: KubeConfig): UserError {
  if (error instanceof Error && 'syscall' in error && error.syscall === 'open' && 'path' in error)
    return new UserError(`cannot read ${String(error.path)}: ${failureReason(error)}`, { cause: error });
  const user = config.getCurrentUser();
  const exec: unknown = user?.exec;
  const provider: unknown = user?.authProvider;
  const name = isObject(exec) ? exec['command'] : isObject(provider) ? provider['name'] : 'of the kubeconfig';
  return new UserError(`the credential plugin ${String(name)} failed: ${errorMessage(error)}`, { cause: error });
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message.trim() : String(error);
}

/**
 * Returns the impersonation headers. client-node itself supports only the username.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
function impersonationHeaders(user: JsonObject): OutgoingHttpHeaders {
  const { as: username, 'as-uid': uid, 'as-groups': groups, 'as-user-extra': extra } = user;
  if (typeof username !== 'string') return {};
  const strings = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
  return {
    'impersonate-user': username,
    ...(typeof uid === 'string' ? { 'impersonate-uid': uid } : {}),
    ...(strings(groups).length === 0 ? {} : { 'impersonate-group': strings(groups) }),
    ...Object.fromEntries(
      Object.entries(isObject(extra) ? extra : {}).map(([key, values]) => [
        `impersonate-extra-${encodeURIComponent(key)}`,
        strings(values),
      ]),
    ),
  };
}
