import { setTimeout as sleep } from 'node:timers/promises';
import type { AdmissionServer } from '../../server/server.ts';

/** How long answers under way may take once the server takes no more; the API server waits no longer than 30 s. */
const GRACE_MS = 25_000;

/** Whoever has opened a connection to ask something has done so by then. */
const UNUSED_MS = 1000;

/**
 * Ends an admission server without losing a review: for the delay it serves on, unready, and lets every connection end
 * with its next answer; then it takes no more connections and waits for what is under way. Nobody waits on connections that
 * clients have opened in advance.
 */
export async function drain({ app, connections }: AdmissionServer, delayMs: number): Promise<void> {
  connections.drain();
  await sleep(delayMs);
  const impatient = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
  const tidy = setTimeout(() => connections.endUnused(), UNUSED_MS);
  await app.close();
  clearTimeout(tidy);
  clearTimeout(impatient);
}
