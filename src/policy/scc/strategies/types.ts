import type { FieldError } from '../../../kube/field-error.ts';
import type { Capabilities, ContainerFields } from '../decode/container.ts';
import type { PodFields } from '../decode/pod.ts';
import type { GroupFields, RunAsUserFields, SccFields, SeLinuxContextFields } from '../decode/scc.ts';
import type { SeccompProfile, SeLinuxFields } from '../decode/security-context.ts';

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
  readonly pod: PodFields;
  readonly bound: Bound;
  readonly podValues: PodValues;
}

/** A container of it; `podValues` are complete by then. */
export interface ContainerContext extends PodContext {
  readonly container: ContainerFields;
  readonly values: ContainerValues;
}

/** What one field of an SCC does with the pod itself. */
export interface PodRule {
  generate?(context: PodContext): void;
  validate?(context: PodContext, errors: FieldError[]): void;
}

/** What one field of an SCC does with each container. */
export interface ContainerRule {
  generate?(context: ContainerContext): void;
  validate?(context: ContainerContext, errors: FieldError[]): void;
}

/** The rule of an SCC; `undefined` where its field neither generates nor refuses anything. */
export type PodStrategy = (scc: SccFields) => PodRule | undefined;
export type ContainerStrategy = (scc: SccFields) => ContainerRule | undefined;
