import type { Container, EphemeralContainer, PodLike } from '../../kube/types.ts';

/** `null` entries are legal JSON and stand for containers that set nothing. */
type Containers<C> = readonly (C | null)[] | null | undefined;

/**
 * True if an update can make a pod worse: a container came or went, or an image changed. Containers and init containers
 * are compared by position, ephemeral ones by name; what else a checks reads cannot be changed in a pod that exists.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function isSignificantUpdate(pod: PodLike, old: PodLike): boolean {
  return (
    differByPosition(pod.spec?.containers, old.spec?.containers) ||
    differByPosition(pod.spec?.initContainers, old.spec?.initContainers) ||
    differByName(pod.spec?.ephemeralContainers, old.spec?.ephemeralContainers)
  );
}

function differByPosition(containers: Containers<Container>, old: Containers<Container>): boolean {
  if ((containers?.length ?? 0) !== (old?.length ?? 0)) return true;
  return containers?.some((container, index) => imageOf(container) !== imageOf(old?.[index])) ?? false;
}

/** One that is gone is no reason; of several with one name, the first counts. */
function differByName(containers: Containers<EphemeralContainer>, old: Containers<EphemeralContainer>): boolean {
  if (!containers || containers.length === 0) return false;
  const images = new Map<string, string>();
  for (const container of old ?? []) {
    const name = nameOf(container);
    if (!images.has(name)) images.set(name, imageOf(container));
  }
  return containers.some((container) => images.get(nameOf(container)) !== imageOf(container));
}

function imageOf(container: Container | EphemeralContainer | null | undefined): string {
  return container?.image ?? '';
}

function nameOf(container: Container | EphemeralContainer | null): string {
  return container?.name ?? '';
}
