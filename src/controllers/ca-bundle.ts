import { ApiError } from '../kube/status.ts';
import type { JsonObject } from '../kube/types.ts';
import { holdSame, pemOf, removedBy } from '../tls/bundle.ts';
import { fingerprint, readCertificates } from '../tls/pem.ts';
import type { ReconcileContext } from './controller.ts';
import type { InjectedConfiguration, SecretPlace } from './serving-certificate-state.ts';

export interface BundleWrite {
  readonly fieldManager: string;
  /** Where the authorities of the bundle are from. */
  readonly place: SecretPlace;
  readonly configurations: readonly InjectedConfiguration[];
  /** In PEM. */
  readonly bundle: string;
}

/**
 * Lets all webhooks of the configurations trust the bundle, and changes nothing else in them; resolves to the SHA-256 of the
 * certificates that it took out of them. One that fails does not keep others from it; rejects with the first error when
 * all have been tried.
 */
export async function applyBundle(write: BundleWrite, context: ReconcileContext): Promise<ReadonlySet<string>> {
  const { configurations, bundle, fieldManager } = write;
  const { cluster, logger } = context;
  const caBundle = Buffer.from(bundle).toString('base64');
  const errors: unknown[] = [];
  const removed = new Set<string>();
  for (const { kind, name, webhooks } of configurations) {
    if (webhooks.every((webhook) => holdSame(pemOf(webhook.caBundle), bundle))) continue;
    try {
      const removals = webhooks.flatMap((webhook) => removedBy(pemOf(webhook.caBundle), bundle));
      if (removals.length > 0 && !(await isCurrent(write.place, context))) continue;
      // Of a configuration that is gone meanwhile, too much is missing for the API server to make one of it.
      const trusting: JsonObject = {
        metadata: { name },
        webhooks: webhooks.map((webhook) => ({ name: webhook.name, clientConfig: { caBundle } })),
      };
      await cluster.apply(kind, trusting, { fieldManager, force: true });
      for (const cert of removals) removed.add(fingerprint(cert));
      logger.info({ kind, name, authorities: readCertificates(bundle).length }, 'caBundle applied');
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return removed;
}

/** False if another leader has gone further than the store knows: then that one knows what may be removed. */
async function isCurrent({ namespace, name }: SecretPlace, { cluster }: ReconcileContext): Promise<boolean> {
  try {
    const { metadata } = await cluster.get('Secret', name, namespace);
    return metadata?.resourceVersion === cluster.store.get('Secret', name, namespace)?.metadata?.resourceVersion;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return false;
    throw error;
  }
}
