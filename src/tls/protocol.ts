import type { SecureVersion } from 'node:tls';

/**
 * Protocol settings of a TLS server. They must be passed to every new secure context, because contexts do not inherit
 * them.
 */
export interface ProtocolSettings {
  readonly minVersion: SecureVersion;
  /** OpenSSL names of the cipher suites, separated by colons. */
  readonly ciphers: string;
}

const VERSIONS: ReadonlyMap<string, SecureVersion> = new Map([
  ['VersionTLS12', 'TLSv1.2'],
  ['VersionTLS13', 'TLSv1.3'],
]);

/** TLS 1.3 cipher suites. They are always enabled, as in Go. */
const TLS13_SUITES = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'] as const;

/** Default TLS 1.2 cipher suites and their OpenSSL names. */
const DEFAULT_SUITES: ReadonlyMap<string, string> = new Map([
  ['TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256', 'ECDHE-ECDSA-AES128-GCM-SHA256'],
  ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
  ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
  ['TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
  ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256', 'ECDHE-RSA-CHACHA20-POLY1305'],
]);

/** Other accepted cipher suites. They lack authenticated encryption, or their names are outdated. */
const OTHER_SUITES: ReadonlyMap<string, string> = new Map([
  ['TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA', 'ECDHE-ECDSA-AES128-SHA'],
  ['TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA', 'ECDHE-ECDSA-AES256-SHA'],
  ['TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA', 'ECDHE-RSA-AES128-SHA'],
  ['TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA', 'ECDHE-RSA-AES256-SHA'],
  ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
]);

/** Accepted values of `--tls-min-version`. */
export const TLS_VERSIONS: readonly string[] = [...VERSIONS.keys()];

/** Accepted values of `--tls-cipher-suites`. */
export const TLS_CIPHER_SUITES: readonly string[] = [...TLS13_SUITES, ...DEFAULT_SUITES.keys(), ...OTHER_SUITES.keys()];

/**
 * Translates the values of `--tls-min-version` and `--tls-cipher-suites` from Go's names to those of OpenSSL. For an
 * unknown value, throws a RangeError that names the option and its accepted values.
 * @see https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
 */
export function protocolSettings(minVersion = 'VersionTLS12', cipherSuites: readonly string[] = []): ProtocolSettings {
  const version = VERSIONS.get(minVersion);
  if (version === undefined) throw unknownValue('--tls-min-version', minVersion, TLS_VERSIONS);
  const chosen = cipherSuites.length === 0 ? [...DEFAULT_SUITES.values()] : cipherSuites.flatMap(opensslNames);
  return { minVersion: version, ciphers: [...new Set([...TLS13_SUITES, ...chosen])].join(':') };
}

function opensslNames(suite: string): string[] {
  const name = DEFAULT_SUITES.get(suite) ?? OTHER_SUITES.get(suite);
  if (name !== undefined) return [name];
  if (TLS13_SUITES.some((always) => always === suite)) return [];
  throw unknownValue('--tls-cipher-suites', suite, TLS_CIPHER_SUITES);
}

function unknownValue(option: string, value: string, accepted: readonly string[]): RangeError {
  return new RangeError(`${option}: unknown value ${JSON.stringify(value)}; accepted values: ${accepted.join(', ')}`);
}
