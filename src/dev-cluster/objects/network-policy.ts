import { forbiddenField, notSupported, required, type FieldError } from '../../kube/field-error.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { portNumber } from './errors.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import type { KindRules } from './strategy.ts';

/** Network policies; nothing here keeps them. */
export const networkPolicyRules: Readonly<Record<string, KindRules>> = {
  'networking.k8s.io/NetworkPolicy': { namespaced: true, generation: 'counted', validate: policyErrors },
};

const POLICY_TYPES = ['Egress', 'Ingress'];
const PROTOCOLS = ['SCTP', 'TCP', 'UDP'];

function policyErrors(policy: ApiObject): FieldError[] {
  const spec = objectAt(policy, 'spec');
  const types = textsAt(spec, 'policyTypes');
  const sides = [
    ['spec.ingress', 'from'],
    ['spec.egress', 'to'],
  ] as const;
  return [
    ...sides.flatMap(([path, peers]) =>
      objectsAt(spec, path.slice('spec.'.length)).flatMap((rule, index) => [
        ...objectsAt(rule, 'ports').flatMap((port, at) => policyPortErrors(`${path}[${index}].ports[${at}]`, port)),
        ...objectsAt(rule, peers).flatMap((peer, at) => peerErrors(`${path}[${index}].${peers}[${at}]`, peer)),
      ]),
    ),
    ...types.flatMap((type, index) =>
      POLICY_TYPES.includes(type) ? [] : [notSupported(`spec.policyTypes[${index}]`, type, POLICY_TYPES)],
    ),
  ];
}

function policyPortErrors(path: string, port: JsonObject): FieldError[] {
  const protocol = textAt(port, 'protocol');
  const number = numberAt(port, 'port');
  return [
    ...(PROTOCOLS.includes(protocol) ? [] : [notSupported(`${path}.protocol`, protocol, PROTOCOLS)]),
    ...(number === undefined ? [] : portNumber(`${path}.port`, number)),
  ];
}

const PEERS = ['podSelector', 'namespaceSelector', 'ipBlock'];

function peerErrors(path: string, peer: JsonObject): FieldError[] {
  if (!PEERS.some((field) => hasField(peer, field))) return [required(path, 'must specify a peer')];
  const mixed = hasField(peer, 'ipBlock') && PEERS.slice(0, 2).some((field) => hasField(peer, field));
  return mixed ? [forbiddenField(path, 'may not specify both ipBlock and another peer')] : [];
}
