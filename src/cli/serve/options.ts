import { isIP } from 'node:net';
import { UserError } from '../../config/files.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { quote } from '../../kube/text.ts';
import {
  validateRangeSettings,
  type RangeSettings,
  DEFAULT_RANGES,
  parseMcsRange,
  formatMcsRange,
  parseUidRange,
  formatUidRange,
} from '../../policy/uid-range/ranges.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { LOG_FORMATS, LOG_LEVELS, type LogLevel } from '../../telemetry/logger.ts';
import { TLS_CIPHER_SUITES, TLS_VERSIONS } from '../../tls/protocol.ts';
import { AUTHORIZATIONS } from '../../server/access-reviews.ts';
import {
  decimal,
  durationMs,
  flag,
  flagOn,
  found,
  integer,
  list,
  listenAddress,
  mapped,
  objectName,
  oneOf,
  option,
  text,
  type Values,
  withEnvironment,
} from '../options.ts';
import { namespaceName, sccServeOptions } from '../scc-options.ts';

/** One word of `--controllers`: a known name, perhaps after a minus, or `*`. */
function controllerRule(value: string): string {
  if (value === '*' || CONTROLLER_NAMES.includes(value.replace(/^-/, ''))) return value;
  throw new UserError(`${quote(value)} is not in the list of known controllers: ${CONTROLLER_NAMES.join(', ')}`);
}

type RangeValues = Pick<ServeValues, 'mcs-labels-per-block' | 'mcs-range' | 'uid-range'>;

/** The ranges for namespaces. Throws a UserError if the options do not fit together. */
export function rangeSettings(values: RangeValues): RangeSettings {
  const ranges: RangeSettings = {
    uidRange: values['uid-range'],
    mcsRange: values['mcs-range'],
    labelsPerBlock: values['mcs-labels-per-block'],
  };
  const problem = validateRangeSettings(ranges);
  if (problem !== undefined) throw new UserError(`--uid-range, --mcs-range, --mcs-labels-per-block: ${problem}`);
  return ranges;
}

const port = integer(0, 65_535);

const STANDARD_SCC_UPKEEPS = ['install', 'ignore'] as const;

/** The options of `serve`, named as Kubernetes' own servers name them. */
export const serveOptions = withEnvironment('PORTCULLIS', {
  config: option('FILE', text, undefined, {
    help: 'Configuration: a PodSecurityConfiguration, alone or in an AdmissionConfiguration, or a PortcullisConfiguration. Followed while the server runs',
  }),
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster to serve; with neither this nor --in-cluster, the development cluster',
  }),
  context: option('NAME', text, undefined, { help: 'Context of --kubeconfig; absent, its current one' }),
  'in-cluster': flag({ help: 'Serve the cluster in whose pod this runs' }),
  'kube-api-qps': option('N', decimal(0, 10_000), 0, {
    help: 'Requests to the API server, a second; 0 leaves limits to the API server',
    alias: 'client-qps-limit',
  }),
  'kube-api-burst': option('N', integer(1, 10_000), 100, {
    help: 'Requests to the API server at once, where --kube-api-qps limits them',
    alias: 'client-qps-burst',
  }),
  namespace: option('NAME', namespaceName, undefined, {
    help: `Namespace of the installation, where its Leases and certificates are; absent, that of the pod, else ${INSTALLATION.namespace}`,
  }),
  'service-name': option('NAME', objectName, INSTALLATION.name, {
    help: 'Service by which the API server reaches the replicas',
  }),
  'leader-elect': flagOn({
    help: 'Let one replica at a time run the controllers; with false, this one does without asking',
  }),
  'leader-elect-lease-duration': option('DURATION', durationMs, 15_000, {
    help: 'How long other replicas wait, after the leader was last heard of, before they take over',
    shown: '15s',
  }),
  'leader-elect-renew-deadline': option('DURATION', durationMs, 10_000, {
    help: 'How long the leader goes on without being confirmed',
    shown: '10s',
  }),
  'leader-elect-retry-period': option('DURATION', durationMs, 2_000, {
    help: 'How often leadership is asked for',
    shown: '2s',
  }),
  'leader-elect-resource-name': option('NAME', objectName, INSTALLATION.name, {
    help: 'Lease that the leader holds',
  }),
  'bind-address': option('IP', text, '127.0.0.1', { help: 'Address that serves reviews; 0.0.0.0 for all' }),
  'secure-port': option('PORT', port, 8443, { help: 'Port that serves reviews, over TLS; 0 for a free one' }),
  'health-probe-bind-address': option(
    'ADDRESS',
    listenAddress,
    { host: '127.0.0.1', port: 8081 },
    {
      help: 'Address and port of /livez, /readyz, /healthz and /metrics, without TLS',
      shown: '127.0.0.1:8081',
    },
  ),
  'tls-cert-file': option('FILE', text, undefined, {
    help: 'Serving certificate in PEM, its chain behind it; followed while the server runs',
  }),
  'tls-private-key-file': option('FILE', text, undefined, { help: 'The key of --tls-cert-file' }),
  'tls-extra-names': list('NAME', serverName, {
    help: 'DNS names and addresses for the certificate that a live cluster gets, beside those of the service',
  }),
  'client-ca-file': option('FILE', text, undefined, {
    help: 'Authorities, in PEM, one of which has to have signed the client certificate of whoever sends reviews; absent, nobody is asked for one. Followed while the server runs',
  }),
  'client-allowed-names': list('NAME', objectName, {
    help: 'Common names of client certificates that may send reviews; absent, all that --client-ca-file has signed',
  }),
  'tls-min-version': option('VERSION', oneOf(TLS_VERSIONS), 'VersionTLS12', {
    help: `Lowest TLS version to speak: ${TLS_VERSIONS.join(' or ')}`,
  }),
  'tls-cipher-suites': list('SUITE', oneOf(TLS_CIPHER_SUITES), {
    help: 'Cipher suites of TLS 1.2, by their IANA names; absent, those that Go prefers',
  }),
  'cert-dir': option('DIR', text, 'certs', {
    help: 'Where the certificates made for the development cluster are kept, and its kubeconfig',
  }),
  manifests: option('DIR', text, undefined, {
    help: 'Manifests that the development cluster starts with; absent, the example cluster',
  }),
  'cluster-port': option('PORT', port, 6443, {
    help: 'Port of the development cluster, on 127.0.0.1; 0 for a free one',
  }),
  ...sccServeOptions,
  authorization: option('BY', oneOf(AUTHORIZATIONS), 'rbac', {
    help: 'Who tells which SCCs a user may use: the roles and bindings of the cluster, or its API server, asked by SubjectAccessReviews: rbac or sar',
  }),
  controllers: {
    ...mapped(
      list('NAME', controllerRule, {
        help: `Controllers to run: * for all, NAME for one, -NAME for none of that name. There are ${CONTROLLER_NAMES.join(', ')}`,
      }),
      (rules) => (rules.length === 0 ? ['*'] : rules),
    ),
    fallback: '*',
  },
  'uid-range': option('RANGE', found(parseUidRange), DEFAULT_RANGES.uidRange, {
    help: 'User ids that namespaces get blocks of: <start>-<end>/<block size>',
    shown: formatUidRange(DEFAULT_RANGES.uidRange),
  }),
  'mcs-range': option('RANGE', found(parseMcsRange), DEFAULT_RANGES.mcsRange, {
    help: 'SELinux labels that namespaces get: <prefix>/<categories in a label>[,<categories to choose from>]',
    shown: formatMcsRange(DEFAULT_RANGES.mcsRange),
  }),
  'mcs-labels-per-block': option('N', integer(1, 1_000_000), DEFAULT_RANGES.labelsPerBlock, {
    help: 'Labels set aside for each block of user ids, of which the namespace gets the first',
  }),
  'standard-sccs': option('UPKEEP', oneOf(STANDARD_SCC_UPKEEPS), 'install', {
    help: 'The SCCs that ship with the platform, and the roles for their use: install and keep them, or ignore leaves them to others',
  }),
  'shutdown-delay-duration': option('DURATION', durationMs, 10_000, {
    help: 'How long the server goes on serving after SIGTERM, so that nobody is sent to it any more when it stops',
    shown: '10s',
  }),
  'log-level': option('LEVEL', oneOf(LOG_LEVELS), 'info', { help: `One of ${LOG_LEVELS.join(', ')}` }),
  v: option('N', integer(0, 10), undefined, {
    help: 'Verbosity as klog counts it, instead of --log-level: up to 3 info, up to 5 debug, else trace',
    short: 'v',
    conflicts: ['log-level'],
  }),
  'logging-format': option('FORMAT', oneOf(LOG_FORMATS), 'json', { help: `One of ${LOG_FORMATS.join(', ')}` }),
});

export type ServeValues = Values<typeof serveOptions>;

/** A DNS name, also with an asterisk for its first part, or an address. */
function serverName(value: string): string {
  if (isIP(value) !== 0) return value;
  const [problem] = dnsSubdomainErrors(value.replace(/^\*\./, ''));
  if (problem !== undefined) throw new UserError(`${quote(value)} is neither a DNS name nor an address: ${problem}`);
  return value;
}

/** The level to log at, however it was asked for. */
export function logLevelOf({ v, 'log-level': level }: ServeValues): LogLevel {
  if (v === undefined) return level;
  return v <= 3 ? 'info' : v <= 5 ? 'debug' : 'trace';
}
