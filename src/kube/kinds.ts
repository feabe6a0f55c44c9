import type {
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1Job,
  V1MutatingAdmissionPolicy,
  V1MutatingAdmissionPolicyBinding,
  V1PodTemplate,
  V1ReplicaSet,
  V1ReplicationController,
  V1StatefulSet,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
} from '@kubernetes/client-node';
import type { PodSecurityException } from './pod-security-exception.ts';
import type { PSAEnforcementConfig } from './psa-enforcement-config.ts';
import type { RangeAllocation, SecurityContextConstraints } from './scc.ts';
import type {
  CatalogSource,
  ClusterRole,
  ClusterRoleBinding,
  ClusterServiceVersion,
  ConfigMap,
  EndpointSlice,
  FeatureGate,
  KubeObject,
  Lease,
  MachineConfigPool,
  MutatingWebhookConfiguration,
  Namespace,
  Node,
  NodesConfig,
  Pod,
  PortcullisConfiguration,
  Report,
  Role,
  RoleBinding,
  Secret,
  ServiceAccount,
  ValidatingWebhookConfiguration,
  Wire,
} from './types.ts';

/** The kinds that Portcullis reads or writes. */
export interface Kinds extends WorkloadKinds {
  Namespace: Namespace;
  Node: Node;
  Pod: Pod;
  ServiceAccount: ServiceAccount;
  Role: Role;
  ClusterRole: ClusterRole;
  RoleBinding: RoleBinding;
  ClusterRoleBinding: ClusterRoleBinding;
  SecurityContextConstraints: SecurityContextConstraints;
  RangeAllocation: RangeAllocation;
  RuntimeClass: KubeObject;
  Lease: Lease;
  EndpointSlice: EndpointSlice;
  Secret: Secret;
  ConfigMap: ConfigMap;
  MutatingWebhookConfiguration: MutatingWebhookConfiguration;
  ValidatingWebhookConfiguration: ValidatingWebhookConfiguration;
  ValidatingAdmissionPolicy: Wire<V1ValidatingAdmissionPolicy>;
  ValidatingAdmissionPolicyBinding: Wire<V1ValidatingAdmissionPolicyBinding>;
  MutatingAdmissionPolicy: Wire<V1MutatingAdmissionPolicy>;
  MutatingAdmissionPolicyBinding: Wire<V1MutatingAdmissionPolicyBinding>;
  PSAEnforcementConfig: PSAEnforcementConfig;
  PortcullisConfiguration: PortcullisConfiguration;
  PodSecurityException: PodSecurityException;
  FeatureGate: FeatureGate;
  ClusterServiceVersion: ClusterServiceVersion;
  CatalogSource: CatalogSource;
  NodesConfig: NodesConfig;
  MachineConfigPool: MachineConfigPool;
  Report: Report;
  ClusterReport: Report;
  PolicyReport: Report;
  ClusterPolicyReport: Report;
}

export type Kind = keyof Kinds;

/** The kinds that have a pod template. */
interface WorkloadKinds {
  PodTemplate: Wire<V1PodTemplate>;
  ReplicationController: Wire<V1ReplicationController>;
  ReplicaSet: Wire<V1ReplicaSet>;
  Deployment: Wire<V1Deployment>;
  StatefulSet: Wire<V1StatefulSet>;
  DaemonSet: Wire<V1DaemonSet>;
  Job: Wire<V1Job>;
  CronJob: Wire<V1CronJob>;
}
