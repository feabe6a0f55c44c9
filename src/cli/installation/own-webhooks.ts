import type { Connection } from '../../cluster/live/connect.ts';
import { listAll } from '../../cluster/live/list.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import type { Kinds, ObjectMeta } from '../../kube/types.ts';

export const CONFIGURATION_KINDS = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'] as const;

export type ConfigurationKind = (typeof CONFIGURATION_KINDS)[number];

/** What webhooks of both kinds have in common. */
export type Webhook = NonNullable<Kinds[ConfigurationKind]['webhooks']>[number];

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
        configurationOf(kind, object as Kinds[typeof kind]),
      ),
    ),
  );
  return lists.flat();
}

/** The configuration in an object as the API server sends it. */
export function configurationOf(kind: ConfigurationKind, object: Kinds[ConfigurationKind]): Configuration {
  const { metadata = {}, webhooks } = object;
  return { kind, name: metadata.name ?? '', metadata, webhooks: webhooks ?? [] };
}

/** True for what belongs to this program. */
export function isOurs({ metadata }: Pick<Configuration, 'metadata'>): boolean {
  return metadata.labels?.[PART_OF_LABEL] === PART_OF;
}

/** `validating` or `mutating`, for messages. */
export function phaseOf({ kind }: Pick<Configuration, 'kind'>): string {
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}
