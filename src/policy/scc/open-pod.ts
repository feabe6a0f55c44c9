import { deepEqual } from '../../kube/equal.ts';
import { ownContainerValues, ownPodValues } from './apply.ts';
import type { ContainerFields } from './decode/container.ts';
import type { PodFields } from './decode/pod.ts';
import type { NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
import { attemptScc } from './search.ts';
import type { ContainerValues, PodValues } from './strategies/types.ts';

/**
 * A pod as it was before an SCC completed it, as far as can be told: values that the SCC would give it anyway are left
 * open. Its creator may have asked for just these; then the pod is taken for laxer than it was.
 */
export function openPod(pod: PodFields, scc: PreparedScc, namespace: NamespaceRanges): PodFields {
  const bare = { ...pod, ...NO_POD_VALUES, containers: pod.containers.map(withoutValues) };
  const { podValues, containerValues } = attemptScc(scc, { namespace, pod: bare });
  const containers = pod.containers.map((container, index) => {
    const generated = containerValues[index];
    return generated ? { ...container, ...openValues(ownContainerValues(container), generated) } : container;
  });
  return {
    ...pod,
    ...openValues(ownPodValues(pod), podValues),
    seccompAnnotation: openAnnotation(pod, podValues),
    containers,
  };
}

const NO_POD_VALUES: PodValues = {
  fsGroup: undefined,
  supplementalGroups: undefined,
  seLinuxOptions: undefined,
  seccompAnnotation: '',
  seccompProfile: undefined,
};

const NO_CONTAINER_VALUES: ContainerValues = {
  runAsUser: undefined,
  runAsNonRoot: undefined,
  seLinuxOptions: undefined,
  seccompProfile: undefined,
  capabilities: undefined,
  readOnlyRootFilesystem: undefined,
  allowPrivilegeEscalation: undefined,
};

function withoutValues(container: ContainerFields): ContainerFields {
  return { ...container, ...NO_CONTAINER_VALUES };
}

/** Of values those that were not generated. */
function openValues<Values extends object>(own: Values, generated: Values): Values {
  const open = { ...own };
  for (const key in open) {
    if (deepEqual(own[key], generated[key])) Reflect.set(open, key, undefined);
  }
  return open;
}

function openAnnotation({ seccompAnnotation }: PodFields, generated: PodValues): string {
  return seccompAnnotation === generated.seccompAnnotation ? '' : seccompAnnotation;
}
