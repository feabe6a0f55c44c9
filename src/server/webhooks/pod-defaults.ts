import { allow } from '../../kube/admission.ts';
import { isObject } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { decodePod } from '../../policy/pod/pod.ts';
import { type DefaultsSettings, hasDefaults, NOT_MIRROR, withPodDefaults } from '../../policy/psa/defaults.ts';
import { isPodRequest } from '../scc-review.ts';
import { rule, type Webhook } from '../webhook.ts';

/** Registered only if the API server does not support the MutatingAdmissionPolicy that sets the same defaults. */
export const POD_DEFAULTS: WebhookRegistration = {
  name: 'pods.defaults.portcullis.dev',
  path: '/defaults/pods',
  configuration: { kind: 'MutatingWebhookConfiguration', name: 'defaults.portcullis.dev' },
  feature: 'defaults',
  rules: [rule(['CREATE'], '', ['pods'])],
  matchConditions: [NOT_MIRROR],
  timeoutSeconds: 5,
  // If the webhook is not called, Pod Security still evaluates the pod.
  failure: 'open',
  isNamespaced: true,
};

/** Creates the webhook that sets absent security context fields in new pods. It never denies a pod. */
export function createPodDefaultsWebhook(currentSettings: () => DefaultsSettings): Webhook {
  return {
    path: POD_DEFAULTS.path,
    enforces: () => false,
    decide(request, { store }) {
      const { operation, subResource, object, namespace = '' } = request;
      if (!isPodRequest(request) || operation !== 'CREATE' || subResource || !isObject(object)) return allow();
      const settings = currentSettings();
      const owner = store.get('Namespace', namespace);
      if (!owner || !hasDefaults(owner, settings)) return allow();
      const { pod } = decodePod(object);
      const completed = pod && withPodDefaults(pod, settings.defaults.fields);
      return completed === undefined || completed === object ? allow() : allow({ object: completed });
    },
  };
}
