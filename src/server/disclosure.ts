/**
 * Decides which responses may describe objects that are not part of the review, such as the names of existing pods. By
 * default, every pod of the cluster can send reviews.
 */
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest } from '../kube/admission.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectMember } from '../kube/types.ts';

/**
 * Returns true if the client may learn about other objects. Callers pass the kind of the reviewed object, or no kind if
 * the review does not contain the object. Responses to all other clients may contain only counts.
 */
export type Discloses = (request: AdmissionRequest, store: Store, kind?: Kind) => boolean;

/**
 * Creates the function that decides whether to disclose. With `areClientsKnown`, all clients are API servers.
 * Otherwise, a client is trusted if the review contains the UID of the stored object, as API servers' reviews of
 * updates do. Only clients that may read the object know this random value.
 */
export function createDisclosure(areClientsKnown: boolean): Discloses {
  return ({ object, oldObject }, store, kind) => {
    if (areClientsKnown) return true;
    const { name } = objectMember(object, 'metadata');
    const { uid } = objectMember(oldObject, 'metadata');
    if (kind === undefined || typeof name !== 'string' || typeof uid !== 'string' || uid === '') return false;
    return store.get(kind, name)?.metadata?.uid === uid;
  };
}
