import type { X509Certificate } from 'node:crypto';
import { fingerprint, readCertificates, validityProblem } from './pem.ts';

/** So many authorities of others are kept beside ours at most. */
const MOST_OTHERS = 16;

export interface BundleOptions {
  /** What has to be trusted, in PEM. */
  readonly ours: readonly string[];
  /** What API servers trust now, in PEM, as each webhook has it. */
  readonly held: readonly string[];
  /** True if nothing else is served any more, anywhere. */
  readonly isOursServed: boolean;
  readonly now: Date;
}

/**
 * Whom API servers are to trust, in PEM: our authorities, and all others that they trust already as long as somebody may
 * serve what those have signed.
 */
export function planBundle({ ours, held, isOursServed, now }: BundleOptions): string {
  const wanted = distinct(ours.flatMap(readCertificates));
  const isUsable = (cert: X509Certificate): boolean => cert.ca && validityProblem(cert, now) === undefined;
  const others = isOursServed ? [] : distinct(held.flatMap(readCertificates).filter(isUsable));
  const missing = others.filter((cert) => !has(wanted, cert));
  return [...wanted, ...missing.slice(0, MOST_OTHERS)].map((cert) => cert.toString()).join('');
}

/** The text of a `caBundle`. */
export function pemOf(caBundle: string): string {
  return Buffer.from(caBundle, 'base64').toString('latin1');
}

/** True if the bundles hold the same certificates, in whatever order. */
export function holdSame(a: string, b: string): boolean {
  const [certs, others] = [distinct(readCertificates(a)), distinct(readCertificates(b))];
  return certs.length === others.length && others.every((cert) => has(certs, cert));
}

/** True if the bundle holds each of those certificates. */
export function holdsAll(bundle: string, wanted: readonly string[]): boolean {
  const held = readCertificates(bundle);
  return wanted.flatMap(readCertificates).every((cert) => has(held, cert));
}

/** The certificates of the bundle before that the one after lacks. */
export function removedBy(before: string, after: string): readonly X509Certificate[] {
  const kept = readCertificates(after);
  return readCertificates(before).filter((cert) => !has(kept, cert));
}

/** Each certificate once. */
export function distinct(certs: readonly X509Certificate[]): X509Certificate[] {
  return [...new Map(certs.map((cert) => [fingerprint(cert), cert])).values()];
}

function has(certs: readonly X509Certificate[], wanted: X509Certificate): boolean {
  return certs.some(({ raw }) => raw.equals(wanted.raw));
}
