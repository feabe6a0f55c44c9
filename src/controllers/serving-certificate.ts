import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL, ROTATE_ANNOTATION } from '../api/names.ts';
import {
  caSecretReference,
  CONFIGURATION_KINDS,
  type ConfigurationKind,
  enforcingWebhooks,
  getWebhooks,
  isKnownConfiguration,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../api/webhooks.ts';
import { ignoreNotFound, isNotFound } from '../cluster/client.ts';
import type { Store } from '../cluster/store.ts';
import type { JsonObject, Secret } from '../kube/types.ts';
import {
  bundleIncludes,
  decodeBundle,
  fingerprint,
  formatKeyring,
  isSameBundle,
  type Keyring,
  KEYRING_FILES,
  type KeyringPlan,
  type KeyringStep,
  pemFingerprint,
  planBundle,
  planKeyring,
  readCertificates,
  readKeyring,
  removedCertificates,
  type Rotation,
  ROTATION_REQUESTED,
  ROTATIONS,
  SETTLE_MS,
  takeKeyringStep,
} from '../tls/index.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  type ReconcileContext,
  type Reconciler,
  watch,
} from './controller.ts';
import { configurationRules, rbacRule, WATCH_VERBS } from './permissions.ts';
import { createReplicaObserver, isReplicaLease } from './replica-leases.ts';

const NAME = 'serving-certificate-controller';

export const servingCertificate: ControllerDefinition = {
  name: NAME,
  description: 'creates and rotates the serving certificate and its CA, and makes API servers trust them',
  runsOn: 'leader',
  permissions: [
    {
      role: 'serving-certificate',
      clusterRules: configurationRules(['patch']),
      namespaceRules: [
        // RBAC cannot restrict a POST by name and type, but the policy for the service account does.
        rbacRule(['create'], ['Secret']),
        rbacRule([...WATCH_VERBS, 'get', 'update', 'delete'], ['Secret'], [INSTALLATION.certificateSecret]),
      ],
    },
  ],
  isEnabled: ({ managedCertificate }) => managedCertificate,
  create: createReconciler,
};

/** Namespace and name of the certificate Secret. */
export interface SecretRef {
  readonly namespace: string;
  readonly name: string;
}

export function isSecret({ metadata }: Secret, { namespace, name }: SecretRef): boolean {
  return metadata?.namespace === namespace && metadata.name === name;
}

/** Returns the decoded data of a Secret, by key. */
export function decodedData(secret: Secret | undefined): ReadonlyMap<string, string> {
  const data = Object.entries(secret?.data ?? {});
  return new Map(data.map(([key, value]) => [key, decodeBundle(value)]));
}

const KEY = 'serving-certificate';
/** Maximum interval between reconciles, because the machine's clock may change. */
const MAX_REQUEUE_MS = 3_600_000;
const MAX_RETRY_MS = 30_000;

/**
 * Rotates certificates in an order that ensures that API servers always trust the served certificate. First, all
 * webhooks trust a new CA. Then the CA signs certificates, all replicas serve them, and finally the old CA is removed.
 * The next step depends only on the cluster state, so another leader can continue at any point.
 */
function createReconciler({ service, certificate, date }: ControllerContext): Reconciler {
  const ref: SecretRef = { namespace: service.namespace, name: INSTALLATION.certificateSecret };
  const { names } = certificate;
  const logDamage = createDamageLog();
  const trustedAge = createStateAge();
  const servedAge = createStateAge();
  const observeReplicas = createReplicaObserver();

  return {
    initialKeys: [KEY],
    sources: [
      watch('Secret', (secret) => (isSecret(secret, ref) ? [KEY] : [])),
      watch('ValidatingWebhookConfiguration', (configuration) => (requestsFrom(configuration, ref) ? [KEY] : [])),
      watch('MutatingWebhookConfiguration', (configuration) => (requestsFrom(configuration, ref) ? [KEY] : [])),
      watch('Lease', (lease) => (lease.metadata?.namespace === ref.namespace && isReplicaLease(lease) ? [KEY] : [])),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(_key, context) {
      const { store } = context.cluster;
      const [now, nowMs] = [date(), context.now()];
      const { secret, configurations, trustedBundles, keyring, problems } = gather(store, ref, now);
      logDamage(secret ? problems : [], context);

      const current = authorities(keyring);
      const isTrusted = decisiveBundles(configurations).every((bundle) => bundleIncludes(bundle, current));
      const trustedMs = trustedAge(isTrusted ? current.map(pemFingerprint).join() : undefined, nowMs);
      const asked = requestedRotation(secret);
      const plan = planKeyring({ keyring, problems, names, requested: asked, trustedMs, settleMs: SETTLE_MS, now });
      const next = plan.step === undefined ? keyring : takeKeyringStep(plan.step, { keyring, names, now });
      const isAnswered = asked === undefined || plan.reason === ROTATION_REQUESTED || next.next !== undefined;
      const written = await writeKeyring({ ref, secret, keyring: next, isAnswered }, context);
      if (written) reportStep(plan, written, context);

      const live = observeReplicas(store.list('Lease', ref.namespace), nowMs).filter(({ isLive }) => isLive);
      const serving = pemFingerprint(next.serving?.cert ?? '');
      const isServed = live.length > 0 && live.every((replica) => replica.serving === serving);
      const servedMs = servedAge(isServed ? serving : undefined, nowMs);
      const isOursServed = servedMs !== undefined && servedMs >= SETTLE_MS;
      const bundle = planBundle({
        required: authorities(next),
        current: trustedBundles,
        isRequiredServed: isOursServed,
        now,
      });
      const removed = await applyBundle({ ref, configurations, bundle }, context);
      if (removed.size > 0) reportRetired(removed.size, written ?? secret, context);

      // A replica that does not serve the certificate may have stopped, so the wait ends at the latest when its Lease
      // expires.
      const untilExpiredMs = Math.min(SETTLE_MS, ...live.map(({ leftMs }) => leftMs));
      const untilServedMs = servedMs === undefined ? untilExpiredMs : SETTLE_MS - servedMs;
      return {
        requeueAfterMs: Math.max(1, Math.min(plan.requeueAfterMs, isOursServed ? MAX_REQUEUE_MS : untilServedMs)),
      };
    },
  };
}

/** Reads the Secret and the configurations that request its CAs. */
function gather(store: Store, ref: SecretRef, now: Date) {
  const secret = store.get('Secret', ref.name, ref.namespace);
  const configurations = requestingConfigurations(store, ref);
  const read = secret
    ? readKeyring(decodedData(secret), now)
    : { keyring: {}, problems: [`Secret ${ref.name} does not exist`] };
  return {
    ...read,
    secret,
    configurations,
    trustedBundles: distinctBundles(configurations.flatMap(({ webhooks }) => webhooks)),
  };
}

function authorities({ authority, next }: Keyring): readonly string[] {
  return [authority, next].flatMap((pair) => (pair ? [pair.cert] : []));
}

/** Returns the rotation that the annotation requests. Ignores unknown values. */
function requestedRotation(secret: Secret | undefined): Rotation | undefined {
  const value = secret?.metadata?.annotations?.[ROTATE_ANNOTATION];
  return ROTATIONS.find((rotation) => rotation === value);
}

/** Creates a function that logs the Secret's problems whenever they change. */
function createDamageLog() {
  let logged = '';
  return (problems: readonly string[], { logger }: ReconcileContext): void => {
    const text = problems.join('; ');
    if (text !== '' && text !== logged) logger.warn({ problems }, 'the certificate Secret is damaged, repairing it');
    logged = text;
  };
}

// Webhook configurations

/** A configuration that requests injection of the Secret's CAs. */
interface RequestingConfiguration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly webhooks: readonly RegisteredWebhook[];
}

function requestsFrom(configuration: WebhookConfiguration, { namespace, name }: SecretRef): boolean {
  return caSecretReference(configuration) === `${namespace}/${name}`;
}

/** Returns the installation's configurations that request the CAs. Excludes copies, which must not be modified. */
function requestingConfigurations(store: Store, ref: SecretRef): readonly RequestingConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter(
        (configuration: WebhookConfiguration) =>
          requestsFrom(configuration, ref) && isKnownConfiguration(kind, configuration.metadata?.name),
      )
      .map((configuration: WebhookConfiguration): RequestingConfiguration => ({
        kind,
        name: configuration.metadata?.name ?? '',
        webhooks: getWebhooks(configuration),
      })),
  );
}

/** Returns the distinct CA bundles of the webhooks that would block requests if their certificate were not trusted. */
function decisiveBundles(configurations: readonly RequestingConfiguration[]): readonly string[] {
  return distinctBundles(enforcingWebhooks(configurations.flatMap(({ webhooks }) => webhooks)));
}

function distinctBundles(webhooks: readonly RegisteredWebhook[]): readonly string[] {
  return [...new Set(webhooks.map(({ caBundle }) => caBundle))].map(decodeBundle);
}

interface BundleWrite {
  readonly ref: SecretRef;
  readonly configurations: readonly RequestingConfiguration[];
  /** CA bundle in PEM. */
  readonly bundle: string;
}

/**
 * Sets the `caBundle` of all webhooks. Resolves to the SHA-256 fingerprints of the removed certificates. Tries all
 * configurations before rejecting with the first error.
 */
async function applyBundle(
  { ref, configurations, bundle }: BundleWrite,
  context: ReconcileContext,
): Promise<ReadonlySet<string>> {
  const { cluster, logger } = context;
  const caBundle = Buffer.from(bundle).toString('base64');
  const errors: unknown[] = [];
  const removed = new Set<string>();
  for (const { kind, name, webhooks } of configurations) {
    if (webhooks.every((webhook) => isSameBundle(decodeBundle(webhook.caBundle), bundle))) continue;
    try {
      const removals = webhooks.flatMap((webhook) => removedCertificates(decodeBundle(webhook.caBundle), bundle));
      if (removals.length > 0 && !(await isSecretCurrent(ref, context))) continue;
      // The object is incomplete, so the API server cannot create a configuration from it, and a deleted configuration
      // remains deleted.
      const applied: JsonObject = {
        metadata: { name },
        webhooks: webhooks.map((webhook) => ({ name: webhook.name, clientConfig: { caBundle } })),
      };
      await cluster.apply(kind, applied, { fieldManager: NAME, force: true });
      for (const cert of removals) removed.add(fingerprint(cert));
      logger.info({ kind, name, authorities: readCertificates(bundle).length }, 'caBundle applied');
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return removed;
}

/**
 * Returns false if the Secret has changed since the store read it, because another leader may have continued the
 * rotation.
 */
async function isSecretCurrent({ namespace, name }: SecretRef, { cluster }: ReconcileContext): Promise<boolean> {
  const secret = await ignoreNotFound(cluster.get('Secret', name, namespace));
  const known = cluster.store.get('Secret', name, namespace)?.metadata?.resourceVersion;
  return secret !== undefined && secret.metadata?.resourceVersion === known;
}

// Secret

interface KeyringWrite {
  readonly ref: SecretRef;
  /** The Secret as it was read. */
  readonly secret: Secret | undefined;
  readonly keyring: Keyring;
  /** True if the requested rotation is complete, so the annotation that requests it is removed. */
  readonly isAnswered: boolean;
}

const SECRET_LABELS = {
  'app.kubernetes.io/name': PART_OF,
  [PART_OF_LABEL]: PART_OF,
  [COMPONENT_LABEL]: 'certificates',
};
const OPTIONS = { fieldManager: NAME };

/**
 * Writes the keyring to its Secret. Resolves to the Secret, or to `undefined` if nothing has changed. Rejects with an
 * `ApiError` 409 if the Secret has changed since it was read.
 */
async function writeKeyring(write: KeyringWrite, { cluster }: ReconcileContext): Promise<Secret | undefined> {
  const { ref, secret } = write;
  const data = secretData(secret, write.keyring);
  const metadata = secretMetadata(write);
  const isSame = secret !== undefined && isSameData(data, secret.data ?? {});
  if (isSame && metadata === secret.metadata) return undefined;
  if (secret !== undefined && secret.immutable !== true) {
    return cluster.update('Secret', { ...secret, metadata, data }, OPTIONS);
  }
  if (secret) await cluster.remove('Secret', ref.name, ref.namespace);
  try {
    const created: Secret = { metadata: { ...ref, labels: SECRET_LABELS }, type: 'Opaque', data };
    return await cluster.create('Secret', created, OPTIONS);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // Throws a plain `Error`, which is logged.
    throw new Error(`namespace ${ref.namespace} does not exist`, { cause: error });
  }
}

function secretMetadata({ secret, isAnswered, ref }: KeyringWrite): NonNullable<Secret['metadata']> {
  const metadata: NonNullable<Secret['metadata']> = secret?.metadata ?? ref;
  const { [ROTATE_ANNOTATION]: requested, ...annotations } = metadata.annotations ?? {};
  return requested === undefined || !isAnswered ? metadata : { ...metadata, annotations };
}

/** Returns the Secret's data with the keyring. All other keys remain unchanged. */
function secretData(secret: Secret | undefined, keyring: Keyring): Readonly<Record<string, string>> {
  const others = Object.entries(secret?.data ?? {}).filter(([key]) => !KEYRING_FILES.includes(key));
  const files = [...formatKeyring(keyring)].map(([key, text]) => [key, Buffer.from(text).toString('base64')] as const);
  return Object.fromEntries([...others, ...files]);
}

function isSameData(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(b);
  return Object.keys(a).length === keys.length && keys.every((key) => Object.hasOwn(a, key) && a[key] === b[key]);
}

// Events

/** Events by step. */
const STEPS: Readonly<Record<KeyringStep, { readonly reason: string; readonly message: string }>> = {
  Replace: { reason: 'AuthorityCreated', message: 'created a CA and a serving certificate' },
  Renew: { reason: 'ServingCertificateRenewed', message: 'signed a serving certificate' },
  Prepare: {
    reason: 'AuthorityPrepared',
    message: 'created the next CA, which will sign certificates once all webhooks trust it',
  },
  Promote: { reason: 'AuthorityChanged', message: 'signed a serving certificate with the next CA' },
};

function reportStep({ step, reason: cause }: KeyringPlan, secret: Secret, context: ReconcileContext): void {
  const { logger } = context;
  const name = secret.metadata?.name;
  if (step === undefined) {
    logger.info({ secret: name }, 'corrected the certificate Secret');
    return;
  }
  const { reason, message } = STEPS[step];
  const [serving] = readCertificates(decodedData(secret).get('tls.crt') ?? '');
  logger.info({ secret: name, reason: cause, notAfter: serving?.validToDate.toISOString() }, message);
  recordRotation(secret, reason, `${message}: ${cause}`, context);
}

function reportRetired(count: number, secret: Secret | undefined, context: ReconcileContext): void {
  if (!secret) return;
  const what = count === 1 ? 'a CA that has' : `${count} CAs that have`;
  const message = `removed from caBundle: ${what} expired or signed no certificate that a replica serves`;
  recordRotation(secret, 'AuthorityRetired', message, context);
}

function recordRotation(secret: Secret, reason: string, message: string, { recordEvent }: ReconcileContext): void {
  recordEvent('Secret', secret, { type: 'Normal', reason, action: 'Rotate', message });
}
