import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { readCertificates, validityProblem } from './pem.ts';

export interface Trust {
  /** What the server shows: its certificate, the chain behind it, in PEM. */
  readonly chain: string;
  /** Whom the client trusts, in PEM. */
  readonly authorities: string;
  /** The name or address by which the client calls the server. */
  readonly host: string;
  readonly now: Date;
}

const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const ANY_USAGE = '2.5.29.37.0';

/**
 * Why a client would not talk to a server; `undefined` if it would. It judges as Go's crypto/x509 does, which API servers
 * use: any trusted certificate ends a chain, whether it signed itself or not, and each of the chain has to be valid now.
 * @see https://github.com/golang/go/blob/go1.25.0/src/crypto/x509/verify.go
 */
export function trustProblem({ chain, authorities, host, now }: Trust): string | undefined {
  const [leaf, ...intermediates] = readCertificates(chain);
  if (!leaf) return 'there is no serving certificate';
  const invalid = validityProblem(leaf, now);
  if (invalid !== undefined) return `the serving certificate ${invalid}`;
  if (!isFor(leaf, host)) return `the serving certificate is not for ${host}`;
  if (!mayServe(leaf)) return 'the serving certificate is not one for servers';
  const roots = readCertificates(authorities);
  if (roots.length === 0) return 'caBundle holds no certificate';
  const isValid = (cert: X509Certificate): boolean => validityProblem(cert, now) === undefined;
  const usable = { roots: roots.filter(isValid), intermediates: intermediates.filter(isValid) };
  return leads(leaf, usable) ? undefined : 'the serving certificate is not signed by a valid authority in caBundle';
}

interface Candidates {
  readonly roots: readonly X509Certificate[];
  readonly intermediates: readonly X509Certificate[];
}

/** True if a chain leads from the certificate to a root. */
function leads(cert: X509Certificate, { roots, intermediates }: Candidates): boolean {
  if (roots.some((root) => root.raw.equals(cert.raw) || hasIssued(root, cert))) return true;
  // None is used twice, so this ends.
  return intermediates.some(
    (one) =>
      hasIssued(one, cert) && leads(one, { roots, intermediates: intermediates.filter((other) => other !== one) }),
  );
}

/** True if the one is an authority and has signed the other. */
export function hasIssued(authority: X509Certificate, cert: X509Certificate): boolean {
  return authority.ca && cert.checkIssued(authority) && cert.verify(authority.publicKey);
}

/** True if the certificate says that the server has that name or address; the common name does not count. */
export function isFor(cert: X509Certificate, host: string): boolean {
  return (isIP(host) === 0 ? cert.checkHost(host, { subject: 'never' }) : cert.checkIP(host)) !== undefined;
}

function mayServe({ keyUsage }: X509Certificate): boolean {
  // Node gives the extended usages under this name; without any, all are allowed.
  const usages = keyUsage as readonly string[] | undefined;
  return !usages || usages.includes(SERVER_AUTH) || usages.includes(ANY_USAGE);
}
