import { X509Certificate } from 'node:crypto';

/** More than any list of authorities that is in use has: a longer text is read so far. */
const MOST = 500;

/** The certificates of a PEM text in their order; what cannot be read is left out, as API servers do. */
export function readCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return blocks.slice(0, MOST).flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

/** SHA-256 of the first certificate of a PEM text, in lower-case hex; `''` if there is none. */
export function fingerprintOf(pem: string): string {
  const [first] = readCertificates(pem);
  return first ? fingerprint(first) : '';
}

/** SHA-256 of a certificate, in lower-case hex. */
export function fingerprint(cert: X509Certificate): string {
  return cert.fingerprint256.replaceAll(':', '').toLowerCase();
}

/** Why a certificate is not valid at that time, to follow its name; `undefined` if it is. */
export function validityProblem(cert: X509Certificate, now: Date): string | undefined {
  if (cert.validFromDate > now) return `is not valid before ${printDate(cert.validFromDate)}`;
  if (cert.validToDate <= now) return `has expired at ${printDate(cert.validToDate)}`;
  return undefined;
}

function printDate(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
