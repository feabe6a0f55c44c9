import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import { TLSSocket, type PeerCertificate } from 'node:tls';
import { ApiError, createStatus } from '../../kube/status.ts';
import type { UserInfo } from '../../kube/types.ts';

const ANONYMOUS: UserInfo = { username: 'system:anonymous', groups: ['system:unauthenticated'] };

/** Makes the function that says who is at the other end of a connection. Throws ApiError 401. */
export function createAuthenticator(): (socket: Socket, authorization: string | undefined) => UserInfo {
  const known = new WeakMap<Socket, UserInfo | 'unknown'>();
  return (socket, authorization) => {
    const user = known.get(socket) ?? identify(socket);
    known.set(socket, user);
    if (user === 'unknown') throw unauthorized();
    // There are no tokens, so none is valid; a certificate counts before it.
    if (user === ANONYMOUS && authorization !== undefined) throw unauthorized();
    return user;
  };
}

function identify(socket: Socket): UserInfo | 'unknown' {
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  if (certificate?.raw === undefined || !(socket instanceof TLSSocket)) return ANONYMOUS;
  return socket.authorized ? userOf(certificate) : 'unknown';
}

/** The common name is the user, organizations are the groups. */
function userOf({ subject, raw }: PeerCertificate): UserInfo {
  const organizations = [subject.O].flat();
  const digest = createHash('sha256').update(raw).digest('hex');
  return {
    username: [subject.CN].flat()[0] ?? '',
    groups: [...organizations.filter((name) => name !== undefined), 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${digest}`] },
  };
}

function unauthorized(): ApiError {
  return new ApiError(createStatus(401, 'Unauthorized', 'Unauthorized'));
}
