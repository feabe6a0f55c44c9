import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** The open connections, and the ways to part from them without losing a request. */
export interface Connections {
  /** Connections opened until now close after their next answer, so that the client dials again (new certificate). */
  renew(): void;
  /** From now on every connection closes after its next answer; new ones are still served (shutdown). */
  drain(): void;
  draining(): boolean;
  /** Ends the connections on which nothing has been asked yet: nobody waits for an answer there. */
  endUnused(): void;
  /** True if the next answer on that connection has to be its last. */
  shouldClose(socket: Socket): boolean;
}

/** Follows the connections of a server that does not listen yet. */
export function trackConnections(app: FastifyInstance): Connections {
  const generations = new WeakMap<Socket, number>();
  let generation = 0;
  let draining = false;
  /** Those without TLS yet, by their peers. */
  const opening = new Map<string, Socket>();
  const open = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    opening.set(peer, socket);
    socket.once('close', () => {
      if (opening.get(peer) === socket) opening.delete(peer);
    });
  });
  app.server.on('secureConnection', (socket: Socket) => {
    opening.delete(peerOf(socket));
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    generations.set(socket, generation);
  });
  return {
    renew: () => {
      generation++;
    },
    drain: () => {
      draining = true;
    },
    draining: () => draining,
    endUnused() {
      for (const socket of opening.values()) socket.destroy();
      for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
    },
    shouldClose: (socket) => draining || (generation > 0 && generations.get(socket) !== generation),
  };
}

/** The socket below TLS and the one above it are two, with one peer. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
