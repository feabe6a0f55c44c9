import type { AnyObject, Resource } from '../installation/resource.ts';
import { isOurs } from './stages.ts';

/** Where people keep what they would miss. */
export const BELONGINGS: readonly Resource[] = [
  { group: '', version: 'v1', resource: 'pods' },
  { group: '', version: 'v1', resource: 'persistentvolumeclaims' },
  { group: '', version: 'v1', resource: 'services' },
  { group: '', version: 'v1', resource: 'configmaps' },
  { group: '', version: 'v1', resource: 'secrets' },
  { group: 'apps', version: 'v1', resource: 'deployments' },
  { group: 'apps', version: 'v1', resource: 'statefulsets' },
  { group: 'apps', version: 'v1', resource: 'daemonsets' },
  { group: 'batch', version: 'v1', resource: 'jobs' },
  { group: 'batch', version: 'v1', resource: 'cronjobs' },
];

/** In every namespace of some clusters. */
const EVERYWHERE = new Set(['kube-root-ca.crt', 'openshift-service-ca.crt', 'istio-ca-root-cert']);

/** What others have made for an installation, and nobody needs without it. */
const MADE_FOR_US = new Set([
  'kubernetes.io/service-account-token',
  'kubernetes.io/dockercfg',
  'kubernetes.io/dockerconfigjson',
]);

/** True for an object whose loss somebody would regret if its namespace went. */
export function isSomebodyElses(resource: Resource, object: AnyObject): boolean {
  const { name, annotations = {}, ownerReferences = [] } = object.metadata;
  if (isOurs(resource, object) || EVERYWHERE.has(name) || ownerReferences.length > 0) return false;
  const type = 'type' in object ? object.type : undefined;
  return (
    !(typeof type === 'string' && MADE_FOR_US.has(type)) &&
    !Object.hasOwn(annotations, 'cert-manager.io/certificate-name')
  );
}
