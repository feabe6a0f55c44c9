import { setPriority } from 'node:os';

/** The niceness of attackers and API servers, which do not share a machine with the replicas in a real cluster. */
export const NICENESS = 10;

/** Lowers the priority of the calling thread, so it does not delay the replicas and the clients that measure them. */
export function lowerPriority(): void {
  setPriority(0, NICENESS);
}
