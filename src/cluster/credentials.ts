import type { RequestOptions } from 'node:https';
import type { OutgoingHttpHeaders } from 'node:http';
import { UserError } from '../config/user-error.ts';
import type { JsonObject } from '../kube/types.ts';
import type { ClusterEntry, UserEntry, Impersonation } from './kubeconfig-entries.ts';
import { readSource } from '../config/source.ts';

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
