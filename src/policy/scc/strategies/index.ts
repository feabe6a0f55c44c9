import {
  capabilities,
  allowPrivilegeEscalation,
  allowPrivilegedContainer,
  readOnlyRootFilesystem,
} from './privileges.ts';
import { fsGroup, supplementalGroups } from './groups.ts';
import {
  hostIpcOfContainer,
  hostIpcOfPod,
  hostNetworkOfContainer,
  hostNetworkOfPod,
  hostPidOfContainer,
  hostPidOfPod,
  userNamespaceLevel,
  allowHostPorts,
  sysctls,
} from './host.ts';
import { runAsUser } from './run-as-user.ts';
import { seLinuxContextOfContainer, seLinuxContextOfPod } from './se-linux-context.ts';
import { seccompProfilesOfContainer, seccompProfilesOfPod } from './seccomp-profiles.ts';
import { allowedFlexVolumes, volumes } from './volumes.ts';
import type { FieldError } from '../../../kube/field-error.ts';
import type { Capabilities, ContainerFields } from '../decode/container.ts';
import type { PodFields } from '../decode/pod.ts';
import type { GroupFields, RunAsUserFields, SccFields, SeLinuxContextFields } from '../scc.ts';
import type { SeccompProfile, SeLinuxFields } from '../decode/security-context.ts';

/** What is done with the pod itself, in the order of the messages. */
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

/** What is done with each container, in the order of the messages; escalation looks at the generated capabilities. */
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

/** A message with more is of no use, and a pod may be made to cause millions. */
export const MAX_ERRORS = 1000;

/** The four strategies that may take their values from the namespace, these values filled in. */
export interface Bound {
  readonly runAsUser: RunAsUserFields;
  readonly seLinuxContext: SeLinuxContextFields;
  readonly fsGroup: GroupFields;
  readonly supplementalGroups: GroupFields;
}

/** The values of the pod itself under an SCC: its own, and what the SCC generates where it has none. */
export interface PodValues {
  fsGroup: number | undefined;
  supplementalGroups: readonly number[] | undefined;
  seLinuxOptions: SeLinuxFields | undefined;
  /** Empty: none. */
  seccompAnnotation: string;
  seccompProfile: SeccompProfile | undefined;
}

/** The same for one container; what it takes over from the pod is not repeated here. */
export interface ContainerValues {
  runAsUser: number | undefined;
  runAsNonRoot: boolean | undefined;
  seLinuxOptions: SeLinuxFields | undefined;
  seccompProfile: SeccompProfile | undefined;
  capabilities: Capabilities | undefined;
  readOnlyRootFilesystem: boolean | undefined;
  allowPrivilegeEscalation: boolean | undefined;
}

/** A pod under an SCC. */
export interface PodContext {
  readonly scc: SccFields;
  readonly bound: Bound;
  readonly pod: PodFields;
  readonly podValues: PodValues;
  /** Whoever can note many stops here. */
  readonly maxErrors: number;
}

/** A container of it; `podValues` are complete by then. */
export interface ContainerContext extends PodContext {
  readonly container: ContainerFields;
  readonly values: ContainerValues;
}

/**
 * What is done with the pod itself for one field of an SCC: `generate` sets what the pod leaves open, `validate` notes
 * what the SCC does not allow. A rule keeps nothing of an SCC: hundreds of them are tried, and memory is slower than code.
 */
export interface PodStrategy {
  readonly generate?: (context: PodContext) => void;
  readonly validate?: (context: PodContext, errors: FieldError[]) => void;
}

/** What is done with each container for one field of an SCC. */
export interface ContainerStrategy {
  readonly generate?: (context: ContainerContext) => void;
  readonly validate?: (context: ContainerContext, errors: FieldError[]) => void;
}
