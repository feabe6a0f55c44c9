import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** The open connections, and the ways to part from them without losing a request. */
export interface Connections {
  /** Connections opened until now close after their next answer, so that the client dials again (new certificate). */
  renew(): void;
  /** From now on every connection closes after its next answer; new ones are still served (shutdown). */
  drain(): void;
  readonly draining: () => boolean;
}

/** Follows the connections of a server that does not listen yet. */
export function trackConnections(app: FastifyInstance): Connections {
  const generations = new WeakMap<Socket, number>();
  let generation = 0;
  let draining = false;
  app.server.on('secureConnection', (socket: Socket) => generations.set(socket, generation));
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (draining || (generation > 0 && generations.get(request.raw.socket) !== generation)) {
      reply.header('connection', 'close');
    }
    done();
  });
  return {
    renew: () => {
      generation++;
    },
    drain: () => {
      draining = true;
    },
    draining: () => draining,
  };
}
