import { fill, partAt, partIn, partsAt, type Part } from './default-pod.ts';

/** Fills in the fields of an object of one kind. */
type Defaulter = (object: Part) => void;

const RBAC_GROUP = 'rbac.authorization.k8s.io';

/** What the API server fills in of kinds that have nothing to do with pods, by API group and kind. */
export const otherDefaults: Readonly<Record<string, Defaulter>> = {
  '/Namespace': (object) => {
    const metadata = partIn(object, 'metadata');
    const name = metadata['name'];
    // A generated name is not known yet.
    if (typeof name === 'string' && name !== '') partIn(metadata, 'labels')['kubernetes.io/metadata.name'] = name;
    fill(partIn(object, 'status'), 'phase', 'Active');
  },
  '/Secret': (object) => fill(object, 'type', 'Opaque'),
  '/Service': defaultService,
  '/PersistentVolumeClaim': (object) => {
    fill(partIn(object, 'spec'), 'volumeMode', 'Filesystem');
    fill(partIn(object, 'status'), 'phase', 'Pending');
  },
  '/PersistentVolume': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'persistentVolumeReclaimPolicy', 'Retain');
    fill(spec, 'volumeMode', 'Filesystem');
    fill(partIn(object, 'status'), 'phase', 'Pending');
  },
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': (object) =>
    defaultWebhooks(object, { reinvocationPolicy: 'Never' }),
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': (object) => defaultWebhooks(object, {}),
  'apiextensions.k8s.io/CustomResourceDefinition': defaultDefinition,
  'networking.k8s.io/NetworkPolicy': defaultNetworkPolicy,
  'rbac.authorization.k8s.io/ClusterRoleBinding': defaultBinding,
  'rbac.authorization.k8s.io/RoleBinding': defaultBinding,
  'scheduling.k8s.io/PriorityClass': (object) => fill(object, 'preemptionPolicy', 'PreemptLowerPriority'),
};

function defaultService(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'sessionAffinity', 'None');
  fill(spec, 'type', 'ClusterIP');
  for (const port of partsAt(spec, 'ports')) {
    fill(port, 'protocol', 'TCP');
    if (port['targetPort'] === 0) delete port['targetPort'];
    fill(port, 'targetPort', port['port']);
  }
  if (spec['type'] === 'NodePort' || spec['type'] === 'LoadBalancer') fill(spec, 'externalTrafficPolicy', 'Cluster');
  if (spec['type'] === 'LoadBalancer') fill(spec, 'allocateLoadBalancerNodePorts', true);
  if (spec['type'] !== 'ExternalName') fill(spec, 'internalTrafficPolicy', 'Cluster');
}

function defaultWebhooks(object: Part, more: Part): void {
  for (const webhook of partsAt(object, 'webhooks')) {
    fill(webhook, 'failurePolicy', 'Fail');
    fill(webhook, 'matchPolicy', 'Equivalent');
    fill(webhook, 'namespaceSelector', {});
    fill(webhook, 'objectSelector', {});
    fill(webhook, 'timeoutSeconds', 10);
    for (const [field, value] of Object.entries(more)) fill(webhook, field, value);
    for (const rule of partsAt(webhook, 'rules')) fill(rule, 'scope', '*');
    const service = partAt(partAt(webhook, 'clientConfig') ?? {}, 'service');
    if (service) fill(service, 'port', 443);
  }
}

function defaultDefinition(object: Part): void {
  const spec = partIn(object, 'spec');
  const names = partIn(spec, 'names');
  const kind = typeof names['kind'] === 'string' ? names['kind'] : '';
  fill(names, 'singular', kind.toLowerCase());
  if (kind !== '') fill(names, 'listKind', `${kind}List`);
  fill(spec, 'conversion', { strategy: 'None' });
}

function defaultBinding(object: Part): void {
  fill(partIn(object, 'roleRef'), 'apiGroup', RBAC_GROUP);
  for (const subject of partsAt(object, 'subjects')) {
    if (subject['kind'] === 'User' || subject['kind'] === 'Group') fill(subject, 'apiGroup', RBAC_GROUP);
  }
}

function defaultNetworkPolicy(object: Part): void {
  const spec = partIn(object, 'spec');
  const egress = partsAt(spec, 'egress');
  for (const rule of [...partsAt(spec, 'ingress'), ...egress]) {
    for (const port of partsAt(rule, 'ports')) fill(port, 'protocol', 'TCP');
  }
  fill(spec, 'policyTypes', egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress']);
}
