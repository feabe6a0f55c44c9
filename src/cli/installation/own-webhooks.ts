import type { Connection } from '../../cluster/connection.ts';
import { listAll } from '../../cluster/lists.ts';
import type { ObjectMeta } from '../../kube/types.ts';
import { CONFIGURATION_KINDS, type ConfigurationKind, type WebhookConfiguration } from '../../kube/webhooks.ts';

export { isOurs } from '../../kube/webhooks.ts';

/** What webhooks of both kinds have in common. */
export type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

/** A webhook configuration of either kind. */
export interface Configuration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly metadata: ObjectMeta;
  readonly webhooks: readonly Webhook[];
}

/** All webhook configurations of a cluster, by kind and name. Rejects as `request` does. */
export async function readConfigurations(
  connection: Connection,
  signal?: AbortSignal,
): Promise<readonly Configuration[]> {
  const lists = await Promise.all(
    CONFIGURATION_KINDS.map(async (kind) =>
      (await listAll(connection, { kind, signal })).map((object) =>
        configurationOf(kind, object as WebhookConfiguration),
      ),
    ),
  );
  return lists.flat();
}

/** The configuration in an object as the API server sends it. */
export function configurationOf(kind: ConfigurationKind, object: WebhookConfiguration): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}

/** `validating` or `mutating`, for messages. */
export function phaseOf({ kind }: Pick<Configuration, 'kind'>): string {
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}
