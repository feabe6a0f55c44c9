import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';

/** A certificate, its chain behind it, and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/**
 * What is wrong with a pair, as one phrase to follow the name of its files; `undefined` if a server can use it now.
 * @param names what the certificate and the key are called in the phrase, such as the names of their files
 */
export function keyPairError(pair: KeyPair, names: KeyPair, now: Date): string | undefined {
  const cert = attempt(() => new X509Certificate(pair.cert));
  if (!cert) return `${names.cert} holds no PEM certificate`;
  const key = attempt(() => createPrivateKey(pair.key));
  if (!key) return `${names.key} holds no PEM private key that can be read without a passphrase`;
  return (
    (matches(cert, key) ? undefined : `the key in ${names.key} is not that of the certificate in ${names.cert}`) ??
    validityError(cert, names.cert, now) ??
    refusal(pair, names.cert)
  );
}

function validityError(cert: X509Certificate, name: string, now: Date): string | undefined {
  if (cert.validFromDate > now) return `the certificate in ${name} is not valid before ${iso(cert.validFromDate)}`;
  if (cert.validToDate <= now) return `the certificate in ${name} has expired at ${iso(cert.validToDate)}`;
  return undefined;
}

/** What OpenSSL itself does not like, such as a broken chain or a key that is too short. */
function refusal(pair: KeyPair, name: string): string | undefined {
  try {
    createSecureContext({ cert: pair.cert, key: pair.key });
    return undefined;
  } catch (error) {
    return `${name} cannot be served: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function matches(cert: X509Certificate, key: KeyObject): boolean {
  return attempt(() => cert.checkPrivateKey(key)) ?? false;
}

function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

function iso(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
