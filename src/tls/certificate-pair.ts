/** Reads and validates PEM certificates and key pairs. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { LIMITS } from '../kube/limits.ts';

/** A certificate followed by its chain, and the private key, both in PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** Returns the certificates in a PEM text in order, up to the limit. Skips malformed blocks, as API servers do. */
export function readCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return blocks.slice(0, LIMITS.certificates).flatMap((block) => attempt(() => new X509Certificate(block)) ?? []);
}

/**
 * Returns the SHA-256 fingerprint of the first certificate in a PEM text as lowercase hex, or `''` if there is none.
 */
export function pemFingerprint(pem: string): string {
  const [first] = readCertificates(pem);
  return first ? fingerprint(first) : '';
}

/** Returns the SHA-256 fingerprint of a certificate as lowercase hex. */
export function fingerprint(cert: X509Certificate): string {
  return cert.fingerprint256.replaceAll(':', '').toLowerCase();
}

/**
 * Returns a verb phrase that explains why a certificate is not valid at the given time, or `undefined` if it is valid.
 */
export function validityProblem(cert: X509Certificate, now: Date): string | undefined {
  if (cert.validFromDate > now) return `is not valid before ${formatDate(cert.validFromDate)}`;
  if (cert.validToDate <= now) return `expired at ${formatDate(cert.validToDate)}`;
  return undefined;
}

/**
 * Returns the reason why a server cannot use a key pair at the given time, or `undefined` if it can. The message refers
 * to the certificate and the key by `names`, such as their file names.
 */
export function keyPairProblem(pair: KeyPair, names: KeyPair, now: Date): string | undefined {
  const cert = attempt(() => new X509Certificate(pair.cert));
  if (!cert) return `${names.cert} contains no PEM certificate`;
  const key = attempt(() => createPrivateKey(pair.key));
  if (!key) return `${names.key} contains no unencrypted PEM private key`;
  if (attempt(() => cert.checkPrivateKey(key)) !== true) {
    return `the key in ${names.key} does not match the certificate in ${names.cert}`;
  }
  const problem = validityProblem(cert, now);
  return problem === undefined ? openSslProblem(pair, names.cert) : `the certificate in ${names.cert} ${problem}`;
}

/** Returns the reason why OpenSSL rejects the key pair, if it does. It also rejects broken chains and short keys. */
function openSslProblem(pair: KeyPair, name: string): string | undefined {
  try {
    createSecureContext({ cert: pair.cert, key: pair.key });
    return undefined;
  } catch (error) {
    return `${name} cannot be served: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Calls the function. Returns `undefined` if it throws. */
export function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

function formatDate(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
