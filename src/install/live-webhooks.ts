import { CONFIGURATION_KINDS, type ConfigurationKind, type WebhookConfiguration } from '../api/webhooks.ts';
import type { ClusterClient } from '../cluster/client.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { ObjectMeta } from '../kube/types.ts';

/** Fields that validating and mutating webhooks have in common. */
export type LiveWebhook = NonNullable<WebhookConfiguration['webhooks']>[number];

/** A webhook configuration of either kind. */
export interface Configuration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly metadata: ObjectMeta;
  readonly webhooks: readonly LiveWebhook[];
}

/** Lists all webhook configurations of a cluster. Rejects with the errors of `Connection.request`. */
export async function readConfigurations(client: ClusterClient): Promise<readonly Configuration[]> {
  const lists = CONFIGURATION_KINDS.map(async (kind) =>
    (await client.list(RESOURCES[kind])).map((object) => parseWebhookConfiguration(kind, object)),
  );
  return (await Promise.all(lists)).flat();
}

export function parseWebhookConfiguration(kind: ConfigurationKind, object: WebhookConfiguration): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}
