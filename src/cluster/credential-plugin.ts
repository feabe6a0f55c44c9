import type { RequestOptions } from 'node:https';
import { UserError } from '../config/user-error.ts';
import type { JsonObject } from '../kube/types.ts';
import type { Credentials } from './credentials.ts';
import type { ClusterEntry, UserEntry } from './kubeconfig-entries.ts';

/**
 * Makes the function that asks the program or provider that a user names for credentials, which it remembers for as
 * long as they are good. Without one it gives none.
 */
export function askPlugin(user: UserEntry, cluster: ClusterEntry): () => Promise<Credentials> {
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
