import type { DevCluster } from '../../src/dev-cluster/index.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { startAdmissionServer } from './admission-server.ts';

const CONFIGURATIONS = { group: 'admissionregistration.k8s.io', resource: 'validatingwebhookconfigurations' };

/** A registered validating webhook over TLS that uses a given decision function. */
export interface VerdictWebhook {
  /** Removes the registration and stops the server. */
  stop(): Promise<void>;
}

/**
 * Registers a webhook for all writes to the given resources. If the decision function throws, the webhook call fails.
 */
export async function startVerdictWebhook(
  cluster: DevCluster,
  resources: readonly string[],
  verdict: (request: AdmissionRequest) => Decision | Promise<Decision>,
): Promise<VerdictWebhook> {
  const server = await startAdmissionServer([{ path: '/verdict', decide: verdict }]);
  const clientConfig = {
    url: `https://localhost:${server.port}/verdict`,
    caBundle: Buffer.from(server.ca).toString('base64'),
  };
  const webhook = {
    name: 'verdict.example.com',
    clientConfig,
    rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources }],
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
  };
  await cluster.writer.create(CONFIGURATIONS, {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'verdict' },
    webhooks: [webhook],
  });
  return {
    async stop() {
      if (!cluster.storage.get(CONFIGURATIONS, '', 'verdict')) return;
      await cluster.writer.remove(CONFIGURATIONS, '', 'verdict');
      await server.stop();
    },
  };
}
