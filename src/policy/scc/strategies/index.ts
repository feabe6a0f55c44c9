/** The registry of strategies: what decisions do with each field of an SCC. */
import type { FieldError } from '../../../kube/field-error.ts';
import type { Capabilities, ContainerFields, SeccompProfile, SeLinuxFields } from '../../pod/pod.ts';
import type { SccPod } from '../pod.ts';
import type { GroupFields, RunAsUserFields, SccFields, SeLinuxContextFields } from '../scc.ts';
import { fsGroup, supplementalGroups } from './groups.ts';
import {
  allowHostPorts,
  hostIpcOfContainer,
  hostIpcOfPod,
  hostNetworkOfContainer,
  hostNetworkOfPod,
  hostPidOfContainer,
  hostPidOfPod,
  sysctls,
  userNamespaceLevel,
} from './host.ts';
import {
  allowPrivilegedContainer,
  allowPrivilegeEscalation,
  capabilities,
  readOnlyRootFilesystem,
} from './privileges.ts';
import { runAsUser } from './run-as-user.ts';
import { seLinuxContextOfContainer, seLinuxContextOfPod } from './se-linux-context.ts';
import { seccompProfilesOfContainer, seccompProfilesOfPod } from './seccomp-profiles.ts';
import { allowedFlexVolumes, volumes } from './volumes.ts';

/** The strategies that may need ranges of the namespace, with these ranges filled in. */
export interface BoundStrategies {
  readonly runAsUser: RunAsUserFields;
  readonly seLinuxContext: SeLinuxContextFields;
  readonly fsGroup: GroupFields;
  readonly supplementalGroups: GroupFields;
}

/** The values of the pod under an SCC: its own values and the generated ones. */
export interface PodValues {
  fsGroup: number | undefined;
  supplementalGroups: readonly number[] | undefined;
  seLinuxOptions: SeLinuxFields | undefined;
  /** Empty if there is no annotation. */
  seccompAnnotation: string;
  seccompProfile: SeccompProfile | undefined;
}

/** The values of a container under an SCC, without the inherited ones. */
export interface ContainerValues {
  runAsUser: number | undefined;
  runAsNonRoot: boolean | undefined;
  seLinuxOptions: SeLinuxFields | undefined;
  seccompProfile: SeccompProfile | undefined;
  capabilities: Capabilities | undefined;
  readOnlyRootFilesystem: boolean | undefined;
  allowPrivilegeEscalation: boolean | undefined;
}

export interface PodContext {
  readonly scc: SccFields;
  readonly bound: BoundStrategies;
  readonly pod: SccPod;
  readonly podValues: PodValues;
  /** Strategies that report an error for each element of a list stop at this number of errors. */
  readonly maxErrors: number;
}

/** `podValues` are complete. */
export interface ContainerContext extends PodContext {
  readonly container: ContainerFields;
  readonly values: ContainerValues;
}

/** `generate` sets values that the pod does not set, `validate` reports the values that the SCC does not allow. */
export interface PodStrategy {
  readonly generate?: (context: PodContext) => void;
  readonly validate?: (context: PodContext, errors: FieldError[]) => void;
}

export interface ContainerStrategy {
  readonly generate?: (context: ContainerContext) => void;
  readonly validate?: (context: ContainerContext, errors: FieldError[]) => void;
}

/** The strategies for the pod, in the order of the errors. */
export const POD_STRATEGIES: readonly PodStrategy[] = [
  fsGroup,
  supplementalGroups,
  seccompProfilesOfPod,
  seLinuxContextOfPod,
  hostNetworkOfPod,
  hostPidOfPod,
  hostIpcOfPod,
  userNamespaceLevel,
  sysctls,
  volumes,
  allowedFlexVolumes,
];

/** The strategies for each container, in the order of the errors. Privilege escalation depends on the capabilities. */
export const CONTAINER_STRATEGIES: readonly ContainerStrategy[] = [
  runAsUser,
  seLinuxContextOfContainer,
  seccompProfilesOfContainer,
  allowPrivilegedContainer,
  capabilities,
  hostNetworkOfContainer,
  allowHostPorts,
  hostPidOfContainer,
  hostIpcOfContainer,
  readOnlyRootFilesystem,
  allowPrivilegeEscalation,
];
