/**
 * Compares the webhook configurations in a cluster with the configurations that this version requires for the settings.
 */
import type { Enforcement } from '../controllers/required-webhooks.ts';
import { deepEqual } from '../kube/equality.ts';
import { otherConditions } from './break-glass-state.ts';
import { type Configuration, parseWebhookConfiguration, type LiveWebhook } from './live-webhooks.ts';
import type { ManifestSettings } from './settings.ts';
import { staticWebhookConfigurations } from './webhooks.ts';

/** Returns the required configurations. `state` has the same meaning as for `staticWebhookConfigurations`. */
export function expectedConfigurations(
  settings: ManifestSettings,
  state: Partial<Enforcement>,
): readonly Configuration[] {
  return staticWebhookConfigurations(settings, state).map((manifest) =>
    parseWebhookConfiguration(manifest.kind as Configuration['kind'], manifest),
  );
}

/** Fields whose differences break the webhook. Other differences may be intentional. */
const ESSENTIAL_FIELDS: ReadonlySet<string> = new Set(['path', 'rules', 'admissionReviewVersions', 'sideEffects']);

/** Returns the differences in a webhook. Ignores the host, the caBundle and the break-glass condition. */
export function findDifferences(live: LiveWebhook, expected: LiveWebhook) {
  const actual = comparableFields(live);
  return Object.entries(comparableFields(expected))
    .filter(([field, value]) => !deepEqual(actual[field], value))
    .map(([field, value]) => ({
      field,
      actual: actual[field],
      expected: value,
      isEssential: ESSENTIAL_FIELDS.has(field),
    }));
}

function comparableFields(webhook: LiveWebhook): Readonly<Record<string, unknown>> {
  const { clientConfig, ...fields } = webhook;
  const { url, service } = clientConfig;
  const path = url == null ? service?.path : URL.parse(url)?.pathname;
  return { path, ...fields, matchConditions: otherConditions(webhook) };
}
