import { capabilities } from './capabilities.ts';
import { fsGroup, supplementalGroups } from './groups.ts';
import {
  hostIpcOfContainer,
  hostIpcOfPod,
  hostNetworkOfContainer,
  hostNetworkOfPod,
  hostPidOfContainer,
  hostPidOfPod,
  userNamespaceLevel,
} from './host-namespaces.ts';
import { allowHostPorts } from './host-ports.ts';
import { allowPrivilegeEscalation } from './privilege-escalation.ts';
import { allowPrivilegedContainer } from './privileged-container.ts';
import { readOnlyRootFilesystem } from './read-only-root-filesystem.ts';
import { runAsUser } from './run-as-user.ts';
import { seLinuxContextOfContainer, seLinuxContextOfPod } from './se-linux-context.ts';
import { seccompProfilesOfContainer, seccompProfilesOfPod } from './seccomp-profiles.ts';
import { sysctls } from './sysctls.ts';
import type { ContainerStrategy, PodStrategy } from './types.ts';
import { allowedFlexVolumes, volumes } from './volumes.ts';

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
