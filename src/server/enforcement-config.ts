import { allow, type AdmissionRequest } from '../kube/admission.ts';
import type { PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { isObject } from '../kube/types.ts';
import { forcedWarning } from '../policy/rollout/enforcement.ts';
import type { Webhook } from './webhook.ts';

/** Makes the webhook that warns whoever asks for enforcement although workloads are known that this would refuse. */
export function createEnforcementConfigWebhook(): Webhook {
  return {
    path: '/psa/enforcement',
    decide(request) {
      const warning = warningFor(request);
      return warning === undefined ? allow() : allow({ warnings: [warning] });
    },
  };
}

function warningFor({ kind, operation, subResource, object, oldObject }: AdmissionRequest): string | undefined {
  if (kind.kind !== 'PSAEnforcementConfig' || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const config = readConfig(object);
  return config && forcedWarning(config, readConfig(oldObject));
}

/** What is read of one; anybody may send anything. */
function readConfig(value: unknown): PSAEnforcementConfig | undefined {
  if (!isObject(value)) return undefined;
  const { spec, status } = value;
  const violating: unknown = isObject(status) ? status['violatingNamespaces'] : undefined;
  const entries: readonly unknown[] = Array.isArray(violating) ? violating : [];
  return {
    spec:
      isObject(spec) && typeof spec['enforcementMode'] === 'string' ? { enforcementMode: spec['enforcementMode'] } : {},
    status: {
      violatingNamespaces: entries.flatMap((entry) =>
        isObject(entry) && typeof entry['name'] === 'string'
          ? [{ name: entry['name'], state: entry['state'] === 'Previous' ? 'Previous' : 'Current' }]
          : [],
      ),
    },
  };
}
