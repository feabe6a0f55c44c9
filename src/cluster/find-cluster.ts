import { dirname, resolve, delimiter, join } from 'node:path';
import { access, readFile } from 'node:fs/promises';
import { readDocuments, type Path } from '../config/manifests.ts';
import { type Source, readSource } from '../config/source.ts';
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
import { quote } from '../kube/quote.ts';

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

export interface Whereabouts {
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
export async function findCluster(whereabouts: Whereabouts): Promise<FoundCluster> {
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
export async function findAnyCluster({ kubeconfig, context, env }: Whereabouts): Promise<FoundCluster | undefined> {
  if (kubeconfig !== undefined)
    return chooseContext(readKubeconfig([await readSource(kubeconfig)]), context, kubeconfig);
  const files = filesOf(env);
  const sources = (await Promise.all(files.map(readIfThere))).filter((source) => source !== undefined);
  if (sources.length > 0) return chooseContext(readKubeconfig(sources), context, files.join(delimiter));
  // Whoever names one means that cluster, and no other.
  if (namedIn(env).length > 0) throw notFound(files);
  return await findAround(env);
}

function namedIn(env: Whereabouts['env']): readonly string[] {
  return (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
}

function filesOf(env: Whereabouts['env']): readonly string[] {
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
async function findAround(env: Whereabouts['env']): Promise<FoundCluster | undefined> {
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
function missingAround(env: Whereabouts['env']): string {
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
