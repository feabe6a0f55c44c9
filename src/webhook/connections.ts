import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** The open connections, and the ways to part from them without losing a request. */
export interface Connections {
  /** Connections opened until now close after their next answer, so that the client dials again (new certificate). */
  renew(): void;
  /** From now on every connection closes after its next answer; new ones are still served (shutdown). */
  drain(): void;
  draining(): boolean;
  /** True if the next answer on that connection has to be its last. */
  shouldClose(socket: Socket): boolean;
}

/** Follows the connections of a server that does not listen yet. */
export function trackConnections(app: FastifyInstance): Connections {
  const generations = new WeakMap<Socket, number>();
  let generation = 0;
  let draining = false;
  app.server.on('secureConnection', (socket: Socket) => generations.set(socket, generation));
  return {
    renew: () => {
      generation++;
    },
    drain: () => {
      draining = true;
    },
    draining: () => draining,
    shouldClose: (socket) => draining || (generation > 0 && generations.get(socket) !== generation),
  };
}
