/** Checks whether API servers trust the serving certificate, and computes the CA bundles of webhook configurations. */
import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import {
  enforcingWebhooks,
  getWebhooks,
  hasCaInjection,
  isPartOfPortcullis,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../api/webhooks.ts';
import { fingerprint, type KeyPair, readCertificates, validityProblem } from './certificate-pair.ts';

interface TrustInput {
  /** The serving certificate followed by its chain, in PEM. */
  readonly chain: string;
  /** The CAs that the client trusts, in PEM. */
  readonly authorities: string;
  /** DNS name or IP address to which the client connects. */
  readonly host: string;
  readonly now: Date;
}

const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const ANY_USAGE = '2.5.29.37.0';

/**
 * Returns the reason why a client rejects a serving certificate, or `undefined` if the client accepts it. Follows the
 * rules of Go's crypto/x509, which API servers use. A chain may end with any trusted certificate, whether self-signed
 * or not, and every certificate in the chain must be valid.
 * @see https://github.com/golang/go/blob/go1.25.0/src/crypto/x509/verify.go
 */
export function trustProblem({ chain, authorities, host, now }: TrustInput): string | undefined {
  const [leaf, ...intermediates] = readCertificates(chain);
  if (!leaf) return 'there is no serving certificate';
  const invalid = validityProblem(leaf, now);
  if (invalid !== undefined) return `the serving certificate ${invalid}`;
  if (!coversHost(leaf, host)) return `the serving certificate is not valid for ${host}`;
  if (!allowsServerAuth(leaf)) return 'the serving certificate does not allow server authentication';
  const roots = readCertificates(authorities);
  if (roots.length === 0) return 'caBundle contains no certificate';
  const isValid = (cert: X509Certificate): boolean => validityProblem(cert, now) === undefined;
  const candidates = { roots: roots.filter(isValid), intermediates: intermediates.filter(isValid) };
  return hasChain(leaf, candidates) ? undefined : 'the serving certificate is not signed by a valid CA in caBundle';
}

interface ChainCandidates {
  readonly roots: readonly X509Certificate[];
  readonly intermediates: readonly X509Certificate[];
}

/**
 * Returns true if a chain leads from the certificate to a root. Uses each intermediate only once, so the recursion
 * terminates.
 */
function hasChain(cert: X509Certificate, { roots, intermediates }: ChainCandidates): boolean {
  if (roots.some((root) => root.raw.equals(cert.raw) || hasIssued(root, cert))) return true;
  return intermediates.some(
    (authority) =>
      hasIssued(authority, cert) &&
      hasChain(authority, { roots, intermediates: intermediates.filter((other) => other !== authority) }),
  );
}

/** Returns true if a CA signed the certificate. */
export function hasIssued(authority: X509Certificate, cert: X509Certificate): boolean {
  return authority.ca && cert.checkIssued(authority) && cert.verify(authority.publicKey);
}

/** Returns true if the subject alternative names cover the host. Ignores the common name. */
export function coversHost(cert: X509Certificate, host: string): boolean {
  return (isIP(host) === 0 ? cert.checkHost(host, { subject: 'never' }) : cert.checkIP(host)) !== undefined;
}

function allowsServerAuth({ keyUsage }: X509Certificate): boolean {
  // Node returns the extended key usages in `keyUsage`. A certificate that lists none allows all usages.
  const usages = keyUsage as readonly string[] | undefined;
  return !usages || usages.includes(SERVER_AUTH) || usages.includes(ANY_USAGE);
}

// CA bundles

/** Maximum number of CAs that a bundle keeps in addition to the required ones. */
const MAX_OTHER_AUTHORITIES = 16;

interface BundleInput {
  /** The CAs that the bundle must contain, in PEM. */
  readonly required: readonly string[];
  /** The webhooks' current bundles, in PEM. */
  readonly current: readonly string[];
  /** True if all replicas serve certificates that the required CAs signed. */
  readonly isRequiredServed: boolean;
  readonly now: Date;
}

/**
 * Returns the CA bundle for the webhook configurations in PEM. It contains the required CAs. As long as a replica may
 * serve a certificate that another CA signed, it also contains the valid CAs in the current bundles.
 */
export function planBundle({ required, current, isRequiredServed, now }: BundleInput): string {
  const authorities = distinctCertificates(required.flatMap(readCertificates));
  const isUsable = (cert: X509Certificate): boolean => cert.ca && validityProblem(cert, now) === undefined;
  const others = isRequiredServed ? [] : distinctCertificates(current.flatMap(readCertificates).filter(isUsable));
  const limited = others.filter((cert) => !includes(authorities, cert)).slice(0, MAX_OTHER_AUTHORITIES);
  return [...authorities, ...limited].map((cert) => cert.toString()).join('');
}

/** Decodes a `caBundle` from base64. */
export function decodeBundle(caBundle: string): string {
  return Buffer.from(caBundle, 'base64').toString('latin1');
}

/** Returns true if two PEM bundles contain the same certificates, in any order. */
export function isSameBundle(a: string, b: string): boolean {
  return bundleIncludes(a, [b]) && bundleIncludes(b, [a]);
}

/** Returns true if a PEM bundle contains all certificates in the given PEM texts. */
export function bundleIncludes(bundle: string, required: readonly string[]): boolean {
  const certs = readCertificates(bundle);
  return required.flatMap(readCertificates).every((cert) => includes(certs, cert));
}

/** Returns the certificates in the first PEM bundle that are missing from the second. */
export function removedCertificates(before: string, after: string): readonly X509Certificate[] {
  const remaining = readCertificates(after);
  return readCertificates(before).filter((cert) => !includes(remaining, cert));
}

/** Removes duplicate certificates. */
export function distinctCertificates(certs: readonly X509Certificate[]): X509Certificate[] {
  return [...new Map(certs.map((cert) => [fingerprint(cert), cert])).values()];
}

function includes(certs: readonly X509Certificate[], cert: X509Certificate): boolean {
  return certs.some(({ raw }) => raw.equals(cert.raw));
}

// Webhook configurations

/** The Service that API servers use to reach Portcullis. */
export interface Service {
  readonly namespace: string;
  readonly name: string;
}

interface ServedTrust {
  readonly pair: Pick<KeyPair, 'cert'>;
  readonly configurations: readonly WebhookConfiguration[];
  readonly service: Service;
  readonly now: Date;
}

/**
 * Returns a phrase for each decisive webhook whose `caBundle` does not trust the serving certificate. The webhooks that
 * fail closed are decisive. If none of them fails closed, all webhooks are decisive.
 */
export function findTrustProblems(served: ServedTrust): string[] {
  return findProblems(decisiveWebhooks(served), served).map(({ name, problem }) => `${name}: ${problem}`);
}

/**
 * Like `findTrustProblems`, but for all other webhooks, including those in `further` configurations that other clients
 * created.
 */
export function findOtherTrustProblems(served: ServedTrust, further: readonly WebhookConfiguration[]): string[] {
  const decisiveKeys = new Set(decisiveWebhooks(served).map(webhookKey));
  const others = [
    ...servedWebhooks(served).filter((webhook) => !decisiveKeys.has(webhookKey(webhook))),
    ...servedWebhooks({ ...served, configurations: further }),
  ];
  return findProblems(others, served).map(
    ({ name, configuration, problem }) => `${name} in ${configuration}: ${problem}`,
  );
}

/** A webhook that this server serves. */
interface ServedWebhook extends RegisteredWebhook {
  /** Name of the webhook configuration that contains the webhook. */
  readonly configuration: string;
  /** True if Portcullis or cert-manager sets `caBundle`. */
  readonly isInjected: boolean;
}

function servedWebhooks({ configurations, service }: Pick<ServedTrust, 'configurations' | 'service'>): ServedWebhook[] {
  return configurations.filter(isPartOfPortcullis).flatMap((configuration) =>
    getWebhooks(configuration)
      .filter((webhook) => isServed(webhook, service))
      .map((webhook) => ({
        ...webhook,
        configuration: configuration.metadata?.name ?? '',
        isInjected: hasCaInjection(configuration),
      })),
  );
}

function decisiveWebhooks(served: ServedTrust): readonly ServedWebhook[] {
  return enforcingWebhooks(servedWebhooks(served));
}

function webhookKey({ configuration, name }: ServedWebhook): string {
  return `${configuration} ${name}`;
}

function findProblems(webhooks: readonly ServedWebhook[], { pair, now }: ServedTrust) {
  // Caches results, because most webhooks have the same bundle.
  const known = new Map<string, string | undefined>();
  const findProblem = ({ caBundle, host = '', isInjected }: ServedWebhook): string | undefined => {
    if (caBundle === '') return isInjected ? 'caBundle is still empty' : undefined;
    const key = `${host} ${caBundle}`;
    if (!known.has(key)) {
      known.set(key, trustProblem({ chain: pair.cert, authorities: decodeBundle(caBundle), host, now }));
    }
    return known.get(key);
  };
  return webhooks.flatMap((webhook) => {
    const problem = findProblem(webhook);
    return problem === undefined ? [] : [{ name: webhook.name, configuration: webhook.configuration, problem }];
  });
}

/** Returns true if the Service serves the webhook. A webhook with a URL counts, as its configuration has our label. */
function isServed({ service, host }: RegisteredWebhook, ours: Service): boolean {
  return service ? service.namespace === ours.namespace && service.name === ours.name : host !== undefined;
}
