import { forbidden, notFound, type Status } from '../../kube/status.ts';
import { objectAt } from '../objects/read.ts';
import type { Attributes, Reader } from '../types.ts';
import { isOn, refuse, type Plugin } from './plugin.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };
const IMMORTAL = new Set(['default', 'kube-system', 'kube-public']);

/**
 * Refuses to write into namespaces that are missing, to create in those that go away, and to delete those that must stay.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/namespace/lifecycle/admission.go
 */
export function createNamespaceLifecycle(reader: Reader): Plugin {
  return {
    admit(attributes) {
      const { operation, name, namespace, resource } = attributes;
      if (operation === 'CONNECT') return undefined;
      if (isOn(attributes, '', 'namespaces')) {
        return operation === 'DELETE' && IMMORTAL.has(name)
          ? forbidden(resource, name, 'this namespace may not be deleted')
          : undefined;
      }
      if (namespace === '' || operation === 'DELETE') return undefined;
      if (isOn(attributes, 'authorization.k8s.io', 'localsubjectaccessreviews')) return undefined;
      const found = reader.get(NAMESPACES, '', namespace);
      if (!found) return notFound(NAMESPACES, namespace);
      const isTerminating = objectAt(found, 'status')['phase'] === 'Terminating';
      return operation === 'CREATE' && isTerminating ? terminating(attributes) : undefined;
    },
  };
}

function terminating(attributes: Attributes): Status {
  const { namespace } = attributes;
  const status = refuse(
    attributes,
    `unable to create new content in namespace ${namespace} because it is being terminated`,
  );
  const cause = {
    reason: 'NamespaceTerminating',
    message: `namespace ${namespace} is being terminated`,
    field: 'metadata.namespace',
  };
  return { ...status, details: { ...status.details, causes: [cause] } };
}
