import { type AdmissionRequest, allow, type Decision } from '../kube/admission.ts';
import { isObject } from '../kube/types.ts';
import { decodePod } from '../policy/pod/index.ts';
import { type DefaultsSettings, hasDefaults, withPodDefaults } from '../policy/psa/index.ts';
import type { WebhookContext } from './webhook.ts';

/**
 * Sets the absent security context fields of a new pod in the namespaces that the settings select. It never denies a
 * pod.
 */
export function setPodDefaults(
  { object, namespace = '' }: AdmissionRequest,
  { store }: Pick<WebhookContext, 'store'>,
  settings: DefaultsSettings,
): Decision {
  const owner = store.get('Namespace', namespace);
  if (!owner || !isObject(object) || !hasDefaults(owner, settings)) return allow();
  const { pod } = decodePod(object);
  const completed = pod && withPodDefaults(pod, settings.defaults.fields);
  return completed === undefined || completed === object ? allow() : allow({ object: completed });
}
