import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { forcedWarning } from '../../policy/rollout/enforcement.ts';
import { rule, type Webhook, WRITES } from '../webhook.ts';

export const PSA_ENFORCEMENT: WebhookRegistration = {
  name: 'enforcement.psa.portcullis.dev',
  path: '/psa/enforcement',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' },
  feature: 'rollout',
  rules: [rule(WRITES, 'config.openshift.io', ['psaenforcementconfigs'], { version: 'v1alpha1', scope: 'Cluster' })],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: false,
};

/** Creates the webhook that warns about a request for enforcement that would deny known workloads. */
export function createPsaEnforcementWebhook(): Webhook {
  return {
    path: PSA_ENFORCEMENT.path,
    enforces: () => false,
    decide(request) {
      const warning = findWarning(request);
      return warning === undefined ? allow() : allow({ warnings: [warning] });
    },
  };
}

function findWarning({ kind, operation, subResource, object, oldObject }: AdmissionRequest): string | undefined {
  if (kind.kind !== 'PSAEnforcementConfig' || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const config = readConfig(object);
  return config && forcedWarning(config, readConfig(oldObject));
}

/** Reads the fields that the warning needs from an unvalidated object. */
function readConfig(value: unknown): PSAEnforcementConfig | undefined {
  if (!isObject(value)) return undefined;
  const mode = objectMember(value, 'spec')['enforcementMode'];
  const violating = objectMember(value, 'status')['violatingNamespaces'];
  const entries: readonly unknown[] = Array.isArray(violating) ? violating : [];
  return {
    spec: typeof mode === 'string' ? { enforcementMode: mode } : {},
    status: {
      violatingNamespaces: entries.flatMap((entry) =>
        isObject(entry) && typeof entry['name'] === 'string'
          ? [{ name: entry['name'], state: entry['state'] === 'Previous' ? 'Previous' : 'Current' }]
          : [],
      ),
    },
  };
}
