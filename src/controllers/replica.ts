import { createHash } from 'node:crypto';
import {
  COMPONENT_LABEL,
  EXEMPTION_USES_ANNOTATION,
  INSTALLATION,
  PART_OF,
  PART_OF_LABEL,
  REPLICA,
  SERVING_CERTIFICATE_ANNOTATION,
  SETTINGS_GENERATION_ANNOTATION,
} from '../api/names.ts';
import {
  CONFIGURATION_KINDS,
  enforcingWebhooks,
  getWebhooks,
  isKnownConfiguration,
  isPartOfPortcullis,
  type WebhookConfiguration,
} from '../api/webhooks.ts';
import { ignoreNotFound, isNotFound } from '../cluster/client.ts';
import { withTimeout } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import type { SettingsStatus } from '../config/settings.ts';
import type { Lease, Secret } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { findTrustProblems, type KeyPair, keyPairProblem, pemFingerprint, type Service } from '../tls/index.ts';
import { formatExemptionUses } from '../views/exemptions.ts';
import { getRolloutView, replicaAnnotations, ROLLOUT_KINDS } from '../views/rollout.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  watch,
  watchValue,
} from './controller.ts';
import { acquiredSpec } from './leadership.ts';
import { rbacRule, WATCH_VERBS } from './permissions.ts';
import { createReplicaObserver, REPLICA_LEASE_MS, REPLICA_RENEW_MS } from './replica-leases.ts';
import { decodedData, isSecret, type SecretRef } from './serving-certificate.ts';

const NAME = 'replica-controller';

/**
 * Contains no rules for Leases, because every installation has permission for Leases, which leader election also needs.
 */
export const replica: ControllerDefinition = {
  name: NAME,
  description: 'publishes the state of each replica in a Lease, and loads the managed serving certificate',
  runsOn: 'replica',
  permissions: [
    {
      role: 'replica-certificate',
      namespaceRules: [rbacRule(WATCH_VERBS, ['Secret'], [INSTALLATION.certificateSecret])],
      isNeeded: ({ managedCertificate }) => managedCertificate,
    },
  ],
  isEnabled: () => true,
  create: createReconciler,
};

const OPTIONS = { fieldManager: NAME };
const LEASE = 'lease';
const CERTIFICATE = 'certificate';
/** Interval for checking the certificate, because certificates become valid and expire without an event. */
const CHECK_AGAIN: ReconcileResult = { requeueAfterMs: 60_000 };
/**
 * Time without a renewal after which the Lease of another replica is deleted. A replacement pod has a new name, so it
 * does not reuse the Lease.
 */
const STALE_MS = 600_000;
/** Time limit for deleting the Lease when the process exits. */
const LEAVE_MS = 2_000;
const LABELS = { 'app.kubernetes.io/name': PART_OF, [PART_OF_LABEL]: PART_OF, [COMPONENT_LABEL]: REPLICA };

function createReconciler(context: ControllerContext): Reconciler {
  const { settings, service, certificate } = context;
  const { name } = context.replica;
  const { namespace } = service;
  const isManaged = certificate.source === 'managed';
  const lease = createLeaseWriter(context);
  const loadCertificate = createCertificateLoader(context);
  const certificateSources = [
    watch('Secret', (secret) => (isSecret(secret, secretRef(service)) ? [CERTIFICATE] : [])),
    watch('ValidatingWebhookConfiguration', () => [CERTIFICATE]),
    watch('MutatingWebhookConfiguration', () => [CERTIFICATE]),
  ];
  return {
    initialKeys: isManaged ? [CERTIFICATE, LEASE] : [LEASE],
    sources: [
      ...ROLLOUT_KINDS.map((kind) => watch(kind, (_object, store) => (lease.isCurrent(store) ? [] : [LEASE]))),
      watchValue(settings, () => [LEASE]),
      watch('Lease', ({ metadata }, store) =>
        metadata?.name === name && metadata.namespace === namespace && !store.get('Lease', name, namespace)
          ? [LEASE]
          : [],
      ),
      ...(isManaged ? certificateSources : []),
    ],
    maxRetryMs: REPLICA_RENEW_MS,
    async reconcile(key, reconcileContext) {
      return key === LEASE ? lease.renew(reconcileContext) : loadCertificate(reconcileContext);
    },
    async onStop({ cluster, logger, clock }) {
      try {
        await withTimeout(clock, LEAVE_MS, () => ignoreNotFound(cluster.remove('Lease', name, namespace)));
      } catch (err) {
        logger.debug({ err }, 'failed to delete the Lease of this replica, but it will expire');
      }
    },
  };
}

function secretRef({ namespace }: Service): SecretRef {
  return { namespace, name: INSTALLATION.certificateSecret };
}

/**
 * Creates a function that writes the Lease, which contains the fingerprint of the served certificate and the default
 * level of the rollout that the replica enforces. The level is also written in the Disabled phase, because a level of
 * an earlier rollout would be mistaken for the current level.
 */
function createLeaseWriter(context: ControllerContext) {
  const { settings, settingsStatus, version, certificate, date, metrics } = context;
  const { name, identity, startMs } = context.replica;
  const { namespace } = context.service;
  const observeReplicas = createReplicaObserver();
  let published = '';
  const rolloutAnnotations = (store: Store): Readonly<Record<string, string>> =>
    replicaAnnotations(getRolloutView({ store, namespace, version }, settings.value.rollout));
  return {
    isCurrent: (store: Store): boolean => JSON.stringify(rolloutAnnotations(store)) === published,
    async renew({ cluster, now }: ReconcileContext): Promise<ReconcileResult> {
      const known = cluster.store.get('Lease', name, namespace);
      const rollout = rolloutAnnotations(cluster.store);
      published = JSON.stringify(rollout);
      const metadata = {
        ...(known?.metadata ?? { name, namespace }),
        labels: { ...known?.metadata?.labels, ...LABELS },
        annotations: {
          ...known?.metadata?.annotations,
          ...rollout,
          ...settingsAnnotation(settingsStatus()),
          [EXEMPTION_USES_ANNOTATION]: formatExemptionUses(formatTimestamp(startMs), exemptionUses(metrics)),
          [SERVING_CERTIFICATE_ANNOTATION]: pemFingerprint(certificate.served.current().cert),
        },
      };
      const spec = acquiredSpec(known, { identity, durationMs: REPLICA_LEASE_MS, date: date() });
      await writeLease(cluster, { ...known, metadata, spec }, known !== undefined);
      for (const other of observeReplicas(cluster.store.list('Lease', namespace), now())) {
        if (other.silentMs >= STALE_MS) await ignoreNotFound(cluster.remove('Lease', other.name, namespace));
      }
      return { requeueAfterMs: REPLICA_RENEW_MS };
    },
  };
}

/**
 * Creates a function that serves the certificate from the Secret once all API servers trust it, or immediately if they
 * do not trust the current certificate.
 */
function createCertificateLoader({ service, certificate: { served }, date }: ControllerContext) {
  const { namespace, name } = secretRef(service);
  const trustAge = createStateAge();
  let reported = '';
  const report = (problem: string, exists: boolean, { logger }: ReconcileContext): void => {
    // A missing Secret is not logged as a warning, because it does not exist yet on the first startup.
    const level = exists ? 'warn' : 'info';
    const fields = { secret: name, reason: problem };
    if (problem !== reported)
      logger[level](fields, 'failed to load the serving certificate, keeping the previous certificate');
    reported = problem;
  };
  return (context: ReconcileContext): ReconcileResult => {
    const { store } = context.cluster;
    const configurations = installedConfigurations(store);
    const unchangedMs = trustAge(trustDigest(configurations), context.now()) ?? 0;
    const secret = store.get('Secret', name, namespace);
    const offered = readPair(secret, date());
    if ('problem' in offered) {
      report(offered.problem, secret !== undefined, context);
      return CHECK_AGAIN;
    }
    reported = '';
    const current = served.isTemporary() ? undefined : served.current();
    const isTrusted = (pair: KeyPair): boolean =>
      findTrustProblems({ pair, configurations, service, now: date() }).length === 0;
    if (current && pemFingerprint(current.cert) === pemFingerprint(offered.cert)) return CHECK_AGAIN;
    if (current && isTrusted(current)) {
      if (!isTrusted(offered)) return CHECK_AGAIN;
      if (unchangedMs < PROPAGATION_MS) return { requeueAfterMs: PROPAGATION_MS - unchangedMs };
    }
    served.use(offered);
    context.enqueue(LEASE);
    return undefined;
  };
}

function settingsAnnotation({ generation }: SettingsStatus): Readonly<Record<string, string>> {
  return generation === undefined ? {} : { [SETTINGS_GENERATION_ANNOTATION]: String(generation) };
}

/** Counts how often exemptions were used, and how often each SCC admitted a new pod, since the process started. */
function* exemptionUses({ podSecurity, scc }: Metrics): Generator<readonly [name: string, count: number]> {
  for (const { labels, count } of podSecurity.exemptionUses.all()) yield [`${labels.exemption}/${labels.name}`, count];
  const byScc = new Map<string, number>();
  for (const { labels, count } of scc.validations.all()) {
    const { operation, mode, decision } = labels;
    if (operation !== 'create' || mode !== 'enforce' || decision !== 'allow') continue;
    byScc.set(labels.scc, (byScc.get(labels.scc) ?? 0) + count);
  }
  for (const [name, count] of byScc) yield [`scc/${name}`, count];
}

async function writeLease(cluster: Cluster, lease: Lease, exists: boolean): Promise<void> {
  try {
    await (exists ? cluster.update('Lease', lease, OPTIONS) : cluster.create('Lease', lease, OPTIONS));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // The Lease was deleted, or its namespace does not exist yet. Throws a plain `Error`, which is logged.
    throw new Error(`Lease ${lease.metadata?.name ?? ''} cannot be written`, { cause: error });
  }
}

// Serving certificate

/** Returns the installation's webhook configurations. */
export function installedConfigurations(store: Store): readonly WebhookConfiguration[] {
  return labeledConfigurations(store, true);
}

/**
 * Returns the configurations that have the label but no known name, such as copies or leftovers from another version.
 */
export function foreignConfigurations(store: Store): readonly WebhookConfiguration[] {
  return labeledConfigurations(store, false);
}

function labeledConfigurations(store: Store, installed: boolean): readonly WebhookConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter(
        (configuration: WebhookConfiguration) =>
          isPartOfPortcullis(configuration) && isKnownConfiguration(kind, configuration.metadata?.name) === installed,
      ),
  );
}

/** Returns a digest of the CAs that the enforcing webhooks trust. */
function trustDigest(configurations: readonly WebhookConfiguration[]): string {
  const bundles = enforcingWebhooks(configurations.flatMap(getWebhooks)).map(
    ({ name, caBundle }) => `${name} ${caBundle}`,
  );
  return createHash('sha256').update(bundles.join('\n')).digest('hex');
}

function readPair(secret: Secret | undefined, now: Date): KeyPair | { readonly problem: string } {
  if (!secret) return { problem: 'the Secret does not exist yet' };
  const data = decodedData(secret);
  const pair = { cert: data.get('tls.crt') ?? '', key: data.get('tls.key') ?? '' };
  const problem = keyPairProblem(pair, { cert: 'tls.crt', key: 'tls.key' }, now);
  return problem === undefined ? pair : { problem };
}

/** Time after which all API servers have observed a changed caBundle. */
const PROPAGATION_MS = 10_000;
