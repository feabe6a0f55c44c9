import type { OutgoingHttpHeaders } from 'node:http';
import { readSource } from '../config/source.ts';
import { UserError } from '../config/user-error.ts';
import type { ClusterEntry, Impersonation, UserEntry } from './kubeconfig-entries.ts';
import { askPlugin } from './credential-plugin.ts';

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
