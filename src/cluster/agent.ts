import { X509Certificate } from 'node:crypto';
import { Agent as PlainAgent } from 'node:http';
import { Agent, type AgentOptions } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { UserError } from '../config/user-error.ts';
import { dataOrFile, type Credentials } from './credentials.ts';
import type { ClusterEntry } from './kubeconfig-entries.ts';

/** Keeps the connections to a server, which belong to whoever opened them. */
export interface AgentKeeper {
  agentFor(credentials: Credentials): Promise<PlainAgent>;
  close(): void;
}

/** `env` may name proxies, as `HTTPS_PROXY` and `NO_PROXY`; nothing on this machine is asked through one of those. */
export function createAgentKeeper(
  cluster: ClusterEntry,
  env: Readonly<Record<string, string | undefined>>,
): AgentKeeper {
  const base: AgentOptions = { keepAlive: true, proxyEnv: proxyFor(cluster, env) };
  const isPlain = cluster.server.startsWith('http:');
  let current: (Files & { readonly agent: PlainAgent }) | undefined;
  return {
    async agentFor({ cert, key }) {
      const authority = isPlain ? undefined : await dataOrFile(cluster.authorityData, cluster.authorityFile);
      const isSame = current?.authority === authority && current?.cert === cert && current?.key === key;
      if (current && isSame) return current.agent;
      const files = { authority, cert, key };
      // The former one is left alone: its connections may be in use.
      const agent = isPlain ? new PlainAgent(base) : new Agent({ ...base, ...tlsOptions(cluster, files) });
      current = { ...files, agent };
      return agent;
    },
    close: () => current?.agent.destroy(),
  };
}

/** What connections are made with, in PEM; as long as it stays, so do they. */
interface Files {
  readonly authority: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

function proxyFor({ proxyUrl, server }: ClusterEntry, env: NonNullable<AgentOptions['proxyEnv']>) {
  if (proxyUrl !== undefined) return { HTTPS_PROXY: proxyUrl, HTTP_PROXY: proxyUrl };
  return LOOPBACK.test(new URL(server).hostname) ? {} : env;
}

/** @throws {UserError} for certificates or keys that TLS cannot use */
function tlsOptions(cluster: ClusterEntry, { authority, cert, key }: Files): AgentOptions {
  const files = {
    ...(authority === undefined ? systemAuthorities() : { ca: authority }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
  try {
    // TLS would overlook an authority that is none.
    if (authority !== undefined) new X509Certificate(authority);
    createSecureContext(files);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(`the certificates for ${cluster.server} cannot be used: ${reason}`, { cause: error });
  }
  return {
    ...files,
    rejectUnauthorized: !cluster.skipVerification,
    ...(cluster.serverName === undefined ? {} : { servername: cluster.serverName }),
  };
}

/** Those that the machine trusts; where it says nothing, those that Node trusts. */
function systemAuthorities(): Pick<AgentOptions, 'ca'> {
  const ca = getCACertificates('system');
  return ca.length === 0 ? {} : { ca };
}
