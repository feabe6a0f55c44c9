import type { V1MutatingWebhookConfiguration, V1ValidatingWebhookConfiguration } from '@kubernetes/client-node';
import type { ManifestSettings } from '../settings.ts';
import type { ManifestOf } from '../types.ts';
import { podSecurityConfiguration } from './pod-security.ts';
import { sccConfigurations } from './scc.ts';

export type WebhookConfiguration = ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>;

/** What API servers have to know to ask. */
export function webhookConfigurations(settings: ManifestSettings): readonly WebhookConfiguration[] {
  return [podSecurityConfiguration(settings), ...(settings.sccMode === 'off' ? [] : sccConfigurations(settings))];
}
