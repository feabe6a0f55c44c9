import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { quote } from '../kube/text.ts';

/** Why a caller gets no answer, and the HTTP status that says so. */
export interface CallerRefusal {
  readonly code: 401 | 403;
  readonly reason: string;
}

/** Tells who may send reviews. */
export interface Callers {
  /** `undefined` if whoever opened that connection may. */
  refuse(socket: Socket): CallerRefusal | undefined;
}

/**
 * Makes the check of callers by their client certificates, which TLS has compared with the authorities that the server
 * trusts. Without names, every certificate of those authorities will do.
 */
export function createCallers(names: readonly string[]): Callers {
  const allowed = new Set(names);
  // A connection stays that of one caller.
  const known = new WeakMap<Socket, { readonly refusal: CallerRefusal | undefined }>();
  return {
    refuse(socket) {
      const found = known.get(socket) ?? { refusal: refusalOf(socket, allowed) };
      known.set(socket, found);
      return found.refusal;
    },
  };
}

function refusalOf(socket: Socket, allowed: ReadonlySet<string>): CallerRefusal | undefined {
  if (!(socket instanceof TLSSocket) || !socket.getPeerX509Certificate())
    return { code: 401, reason: 'a client certificate is required' };
  if (!socket.authorized) {
    // Declared as an error, it is the code of one.
    const why = String(socket.authorizationError);
    return { code: 401, reason: `the client certificate is not accepted: ${REASONS.get(why) ?? why}` };
  }
  if (allowed.size === 0) return undefined;
  const commonName = commonNameOf(socket);
  if (commonName !== undefined && allowed.has(commonName)) return undefined;
  const name = commonName === undefined ? 'nobody by name' : quote(commonName);
  return { code: 403, reason: `the client certificate is for ${name}, who may not send reviews` };
}

/** Of several, as of none, none counts. */
function commonNameOf(socket: TLSSocket): string | undefined {
  const name: unknown = socket.getPeerCertificate().subject.CN;
  return typeof name === 'string' ? name : undefined;
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['CERT_HAS_EXPIRED', 'it has expired'],
  ['CERT_NOT_YET_VALID', 'it is not valid yet'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'it has signed itself'],
  ['INVALID_PURPOSE', 'it is not one for clients'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'no authority is known that has signed it'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'no authority is known that has signed it'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'no authority is known that has signed it'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'no authority is known that has signed it'],
]);
