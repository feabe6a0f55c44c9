import { metadataOf, type ApiObject, type ResourceKey } from '../types.ts';
import { isOf, type Chore, type Tools } from './chore.ts';
import { createMissing } from './write.ts';

const NAMESPACES: ResourceKey = { group: '', resource: 'namespaces' };
const SERVICE_ACCOUNTS: ResourceKey = { group: '', resource: 'serviceaccounts' };
const CONFIG_MAPS: ResourceKey = { group: '', resource: 'configmaps' };
const ROOT_CERTIFICATE = 'kube-root-ca.crt';

/** Every namespace has a service account for pods that name none, and the certificate by which they know the API. */
export function createNamespaceContents(tools: Tools, rootCertificate: string | undefined): Chore {
  return {
    name: 'namespace-contents',
    keyOf(change) {
      const { name, namespace } = metadataOf(change.object);
      if (isOf(change, NAMESPACES)) return change.type === 'DELETED' ? undefined : name;
      if (change.type !== 'DELETED') return undefined;
      const isContent =
        (isOf(change, SERVICE_ACCOUNTS) && name === 'default') ||
        (isOf(change, CONFIG_MAPS) && name === ROOT_CERTIFICATE);
      return isContent ? namespace : undefined;
    },
    async run(namespace) {
      const found = tools.reader.get(NAMESPACES, '', namespace);
      if (!found || metadataOf(found).deletionTimestamp !== undefined) return;
      await createMissing(tools, SERVICE_ACCOUNTS, serviceAccount(namespace));
      if (rootCertificate !== undefined) {
        await createMissing(tools, CONFIG_MAPS, configMap(namespace, rootCertificate));
      }
    },
  };
}

function serviceAccount(namespace: string): ApiObject {
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace } };
}

function configMap(namespace: string, certificate: string): ApiObject {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: ROOT_CERTIFICATE,
      namespace,
      annotations: {
        'kubernetes.io/description':
          'Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.',
      },
    },
    data: { 'ca.crt': certificate },
  };
}
