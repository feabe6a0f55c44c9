import type { JsonObject } from '../../../kube/types.ts';
import { objectsAt, textAt } from '../../objects/read.ts';
import { metadataOf, type Reader } from '../../types.ts';

/** One webhook of a configuration. */
export interface Hook {
  /** Tells webhooks apart that have the same name. */
  readonly id: string;
  readonly name: string;
  /** As it stands in the configuration, defaults filled in. */
  readonly webhook: JsonObject;
}

const RESOURCES = {
  mutating: { group: 'admissionregistration.k8s.io', resource: 'mutatingwebhookconfigurations' },
  validating: { group: 'admissionregistration.k8s.io', resource: 'validatingwebhookconfigurations' },
} as const;

/** All webhooks of a kind: by the names of their configurations, then by their position. */
export function hooksOf(reader: Reader, kind: 'mutating' | 'validating'): readonly Hook[] {
  return reader.list(RESOURCES[kind]).flatMap((configuration) =>
    objectsAt(configuration, 'webhooks').map((webhook, index) => ({
      id: `${metadataOf(configuration).name ?? ''}/${index}`,
      name: textAt(webhook, 'name'),
      webhook,
    })),
  );
}

/** True if calls that fail do not matter. */
export function failsOpen({ webhook }: Hook): boolean {
  return webhook['failurePolicy'] === 'Ignore';
}
