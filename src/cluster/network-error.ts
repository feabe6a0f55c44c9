import { isIP } from 'node:net';
import { withoutBrackets } from './no-proxy.ts';

/** A connection error from Node. */
interface NodeError {
  readonly code?: string;
  readonly message: string;
  readonly address?: string;
  readonly port?: number;
  readonly errors?: readonly unknown[];
  /** The rejected certificate. */
  readonly cert?: { readonly subjectaltname?: string };
}

/** Formats a connection error in the wording of Go's HTTP client, whose errors kubectl prints. */
export function networkError(thrown: unknown, url: string): string {
  const error = firstError(thrown);
  const hostname = URL.canParse(url) ? withoutBrackets(new URL(url).hostname) : '';
  const dialed = error.address === undefined ? '' : ` ${hostPort(error.address, error.port)}`;
  switch (error.code) {
    case 'ECONNREFUSED':
      return `dial tcp${dialed}: connect: connection refused`;
    case 'EHOSTUNREACH':
      return `dial tcp${dialed}: connect: no route to host`;
    case 'ENETUNREACH':
      return `dial tcp${dialed}: connect: network is unreachable`;
    case 'ETIMEDOUT':
      return `dial tcp${dialed}: i/o timeout`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `dial tcp: lookup ${hostname}: no such host`;
    case 'ECONNRESET':
      if (error.message === 'aborted') return 'unexpected EOF';
      return error.message.includes('ECONNRESET') ? 'read: connection reset by peer' : 'EOF';
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return `${UNTRUSTED}certificate has expired or is not yet valid: ${error.message}`;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `${UNTRUSTED}${wrongName(error.cert?.subjectaltname ?? '', hostname)}`;
    default:
      return UNKNOWN_AUTHORITY.has(error.code ?? '')
        ? `${UNTRUSTED}certificate signed by unknown authority`
        : (tlsError(error.message) ?? error.message);
  }
}

/** Formats an error of OpenSSL, which is often an alert of the server. Returns `undefined` for other errors. */
function tlsError(message: string): string | undefined {
  const [, reason] = /:SSL routines:[^:]*:([^:]+)/.exec(message) ?? [];
  if (reason === undefined) return undefined;
  if (message.includes(':SSL alert number ')) {
    const alert = reason.replace(/^\S+ (?:alert )?/, '');
    return `remote error: tls: ${ALERTS.get(alert) ?? alert}`;
  }
  return reason === 'wrong version number' ? 'http: server gave HTTP response to HTTPS client' : `tls: ${reason}`;
}

/** Alerts whose names differ between OpenSSL and Go. */
const ALERTS: ReadonlyMap<string, string> = new Map([
  ['bad record mac', 'bad record MAC'],
  ['certificate expired', 'expired certificate'],
  ['certificate revoked', 'revoked certificate'],
  ['certificate unknown', 'unknown certificate'],
  ['decode error', 'error decoding message'],
  ['decrypt error', 'error decrypting message'],
  ['insufficient security', 'insufficient security level'],
  ['protocol version', 'protocol version not supported'],
  ['unknown ca', 'unknown certificate authority'],
  ['unknown psk identity', 'unknown PSK identity'],
]);

const UNTRUSTED = 'tls: failed to verify certificate: x509: ';

const UNKNOWN_AUTHORITY = new Set([
  'CERT_SIGNATURE_FAILURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Returns the first error if a name has several addresses and all of them failed. */
function firstError(thrown: unknown): NodeError {
  const error = thrown as NodeError;
  const [inner] = error.errors ?? [];
  return inner instanceof Error ? inner : error;
}

/** Joins an IP address and a port, as in `10.0.0.1:6443` or `[fd00::1]:6443`. */
export function hostPort(address: string, port: number | undefined): string {
  return `${isIP(address) === 6 ? `[${address}]` : address}:${port ?? 0}`;
}

function wrongName(subjectAltName: string, hostname: string): string {
  const names = subjectAltName.split(', ').filter((name) => name !== '');
  const kind = isIP(hostname) === 0 ? 'DNS:' : 'IP Address:';
  const valid = names
    .filter((name) => name.startsWith(kind))
    .map((name) => name.slice(kind.length))
    // Node does not shorten IPv6 addresses.
    .map((name) => (isIP(name) === 6 ? withoutBrackets(new URL(`http://[${name}]`).hostname) : name));
  if (valid.length > 0) return `certificate is valid for ${valid.join(', ')}, not ${hostname}`;
  return isIP(hostname) === 0
    ? `certificate is not valid for any names, but wanted to match ${hostname}`
    : `cannot validate certificate for ${hostname} because it doesn't contain any IP SANs`;
}
