import { isIP } from 'node:net';
import { DEFAULT_FEATURES, FEATURES, INSTALLATION } from '../api/names.ts';
import { dnsSubdomainErrors } from '../kube/names.ts';
import { quote } from '../kube/text.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { LOG_FORMATS, LOG_LEVELS } from '../telemetry/logger.ts';
import { TLS_CIPHER_SUITES, TLS_VERSIONS } from '../tls/index.ts';
import {
  durationMs,
  flag,
  flagOn,
  integer,
  keyValue,
  list,
  listenAddress,
  namespaceName,
  nonEmpty,
  oneOf,
  option,
  text,
  type Values,
  withEnvironment,
} from './options.ts';

const port = integer(0, 65_535);

const featureList = list('NAME', oneOf(FEATURES), {
  help: `Features of the installation: ${FEATURES.join(', ')}, or none if empty. The development cluster has all of them`,
});

/** Options of `serve`. Options that Kubernetes servers also have use the same names. */
export const serveOptions = withEnvironment('PORTCULLIS', {
  config: option('FILE', text, undefined, {
    help: 'File with the policy settings: a PortcullisConfiguration, or a PodSecurityConfiguration, alone or in an AdmissionConfiguration. Reloaded when it changes',
  }),
  'initial-settings': option('JSON', jsonObject, undefined, {
    help: 'PortcullisConfiguration spec fields as JSON. The leader applies them when they change, unless another client has changed one of them',
    conflicts: ['config'],
  }),
  kubeconfig: option('FILE', text, undefined, { help: 'Kubeconfig of the cluster. Default: $KUBECONFIG' }),
  context: option('NAME', text, undefined, { help: 'Context of the kubeconfig. Default: its current context' }),
  'in-cluster': flag({ help: 'Serve the cluster in which the pod runs' }),
  'dev-cluster': flag({ help: 'Start and serve a development cluster, even if KUBECONFIG is set' }),
  namespace: option('NAME', namespaceName, undefined, {
    help: `Installation namespace, which contains the Leases and certificates. Default: the namespace of the pod, or ${INSTALLATION.namespace} outside a cluster`,
  }),
  features: {
    ...featureList,
    fallback: DEFAULT_FEATURES.join(),
    resolve: (texts: readonly string[]) =>
      texts.length === 0 ? DEFAULT_FEATURES : featureList.resolve(texts.filter((text) => text !== '')),
  },
  authorizer: flag({
    help: 'Serve only the authorization webhook for the minimum kubelet version, and run no controllers. Requires a live cluster',
    conflicts: ['dev-cluster', 'features'],
  }),
  'webhook-url': option('URL', webhookUrl, undefined, {
    help: 'Base URL at which API servers call the webhooks. Default: the Service of the installation',
  }),
  'webhook-annotations': list('KEY=VALUE', keyValue, {
    help: 'Annotations to add to the webhook configurations, for example to have their caBundle injected',
  }),
  'leader-elect': flagOn({ help: 'Run the controllers on the elected leader only' }),
  'leader-elect-lease-duration': option('DURATION', leaseDurationMs, 15_000, {
    help: 'Time that other replicas wait after the last renewal before they try to become the leader. The leader stops after two thirds of this time without a renewal',
    shown: '15s',
  }),
  'bind-address': option('IP', text, '127.0.0.1', {
    help: 'IP address on which the review server listens. 0.0.0.0 means all IPv4 addresses',
  }),
  'secure-port': option('PORT', port, 8443, { help: 'Port of the review server. 0 selects a free port' }),
  'health-probe-bind-address': option(
    'ADDRESS',
    listenAddress,
    { host: '127.0.0.1', port: 8081 },
    {
      help: 'Address and port of the HTTP server for /livez, /readyz, /healthz and /metrics',
      shown: '127.0.0.1:8081',
    },
  ),
  'tls-cert-file': option('FILE', text, undefined, { help: 'Serving certificate chain, in PEM. Reloaded on change' }),
  'tls-private-key-file': option('FILE', text, undefined, { help: 'Private key of --tls-cert-file, in PEM' }),
  'tls-extra-names': list('NAME', serverName, {
    help: 'Additional names and addresses for which the managed certificate is valid',
  }),
  'client-ca-file': option('FILE', text, undefined, {
    help: 'PEM file with the CAs of client certificates. If set, clients must present a certificate to send reviews. Reloaded when it changes',
  }),
  'client-allowed-names': list('NAME', nonEmpty, {
    help: 'Allowed common names of client certificates. Default: all certificates of --client-ca-file',
  }),
  'tls-min-version': option('VERSION', oneOf(TLS_VERSIONS), 'VersionTLS12', {
    help: `Minimum TLS version: ${TLS_VERSIONS.join(' or ')}`,
  }),
  'tls-cipher-suites': list('SUITE', oneOf(TLS_CIPHER_SUITES), {
    help: 'TLS 1.2 cipher suites, by IANA name. Default: the suites that Go prefers',
  }),
  'cert-dir': option('DIR', text, 'certs', {
    help: 'Directory for the certificates and the kubeconfig of the development cluster',
  }),
  manifests: option('DIR', text, undefined, { help: 'Initial objects of the development cluster. Default: examples' }),
  'cluster-port': option('PORT', port, 6443, {
    help: 'Port of the development cluster on 127.0.0.1. 0 selects a free port',
  }),
  'shutdown-delay-duration': option('DURATION', durationMs, 10_000, {
    help: 'Time to serve after SIGTERM while load balancers remove the replica',
    shown: '10s',
  }),
  'log-level': option('LEVEL', oneOf(LOG_LEVELS), undefined, {
    help: `One of ${LOG_LEVELS.join(', ')}. Default: warn for a development cluster on a terminal, otherwise info`,
  }),
  'logging-format': option('FORMAT', oneOf(LOG_FORMATS), undefined, {
    help: `One of ${LOG_FORMATS.join(', ')}. Default: text on a terminal, otherwise json`,
  }),
});

export type ServeValues = Values<typeof serveOptions>;

export function jsonObject(value: string): JsonObject {
  try {
    const parsed: unknown = JSON.parse(value);
    if (isObject(parsed)) return parsed;
  } catch {
    // The error is thrown below.
  }
  throw new UserError(`${quote(value)} is not a JSON object`);
}

/** Accepts a duration of at least one second, because Leases store their duration in seconds. */
function leaseDurationMs(value: string): number {
  const duration = durationMs(value);
  if (duration < 1000) throw new UserError('must be at least 1s');
  return duration;
}

/** Accepts a DNS name, with an optional wildcard, or an IP address. */
function serverName(value: string): string {
  if (isIP(value) !== 0 && !value.includes('%')) return value;
  const [problem] = dnsSubdomainErrors(value.replace(/^\*\./, ''));
  if (problem !== undefined) throw new UserError(`${quote(value)} is not a DNS name or an address: ${problem}`);
  return value;
}

/** Accepts a URL that API servers accept, without a path or query, and removes the trailing slash. */
function webhookUrl(value: string): string {
  const url = URL.parse(value);
  const isBase = url?.protocol === 'https:' && url.username === '' && `${url.origin}${url.pathname}` === url.href;
  if (isBase) return url.href.replace(/\/$/, '');
  throw new UserError(`${quote(value)} is not a URL such as https://10.0.0.1:8443`);
}
