/** Checks the certificates of clients. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { quote } from '../kube/text.ts';

/** The response to a client that is not allowed to send reviews. */
export interface ClientRejection {
  readonly status: number;
  readonly reason: string;
}

/**
 * Returns the rejection of a client that is not allowed to send reviews, or `undefined` if it is allowed. TLS has
 * already verified the client's certificate.
 */
export function rejectClient(socket: Socket, allowed: ReadonlySet<string>): ClientRejection | undefined {
  if (!(socket instanceof TLSSocket) || !socket.getPeerX509Certificate()) {
    return { status: 401, reason: 'a client certificate is required' };
  }
  if (!socket.authorized) {
    // Node declares the type Error, but the value is an error code.
    const code = String(socket.authorizationError);
    return { status: 401, reason: `the client certificate is not accepted: ${CERTIFICATE_ERRORS.get(code) ?? code}` };
  }
  if (allowed.size === 0) return undefined;
  // If the certificate has several common names, the value is a list, and the client is rejected.
  const commonName: unknown = socket.getPeerCertificate().subject.CN;
  if (typeof commonName !== 'string') {
    return {
      status: 403,
      reason: 'the client certificate must have exactly one common name',
    };
  }
  if (allowed.has(commonName)) return undefined;
  return { status: 403, reason: `client ${quote(commonName)} is not allowed to send reviews` };
}

const UNKNOWN_AUTHORITY = 'it is signed by an unknown authority';
const CERTIFICATE_ERRORS: ReadonlyMap<string, string> = new Map([
  ['CERT_HAS_EXPIRED', 'it has expired'],
  ['CERT_NOT_YET_VALID', 'it is not valid yet'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'it is self-signed'],
  ['INVALID_PURPOSE', 'it does not allow client authentication'],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_AUTHORITY],
]);
