/**
 * Limits the connections of the servers, and closes connections of the admission server without losing reviews. With
 * Node's `maxConnections`, unknown clients could hold all connections and lock out API servers, so connections are
 * displaced instead. Tested by these attacks in `test/resilience`: "silent TCP connections", "slow headers", "slow
 * bodies", "pipelined requests".
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { LIMITS } from '../kube/limits.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** A connection is `new` before its first valid review, then `busy` during a request and `idle` between requests. */
const STATES = ['new', 'idle', 'busy'] as const;
type State = (typeof STATES)[number];

interface Connection {
  readonly peer: string;
  readonly address: string | undefined;
  readonly generation: number;
  /** The TCP socket, or the TLS socket after the handshake. */
  socket: Socket;
  state: State;
  /** True after the first valid review. */
  isProven: boolean;
  /** True between the arrival of a request header and the response. */
  hasRequest: boolean;
}

export interface ConnectionDeps {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Connection limit, if it is lower than the limit of the process. */
  readonly maxConnections?: number;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

/** File descriptors reserved for everything except connections to the review port. */
const OTHER_DESCRIPTORS = 150;
/**
 * Time for which the server is reported as saturated after it closes a connection to admit another one. It is also the
 * minimum interval between log lines.
 */
const SATURATION_MS = 60_000;

export type Connections = ReturnType<typeof trackConnections>;

/** Tracks the connections of a server that is not listening yet. */
export function trackConnections(server: Server, { logger, metrics, maxConnections, now }: ConnectionDeps) {
  const limit = Math.min(maxConnections ?? LIMITS.reviewConnections, findDescriptorLimit());
  /** The connections in a state are ordered by the time of the last change. */
  const states: Readonly<Record<State, Set<Connection>>> = { new: new Set(), idle: new Set(), busy: new Set() };
  const byPeer = new Map<string, Connection>();
  const bySocket = new WeakMap<Socket, Connection>();
  let generation = 0;
  let isDraining = false;
  let displacedMs = -Infinity;
  metrics.webhook.connections(() => STATES.map((state) => [state, states[state].size]));

  const change = (connection: Connection, state: State): void => {
    if (!states[connection.state].delete(connection)) return;
    connection.state = state;
    states[state].add(connection);
  };
  const remove = (connection: Connection): void => {
    states[connection.state].delete(connection);
    if (byPeer.get(connection.peer) === connection) byPeer.delete(connection.peer);
  };
  const isSaturated = (): boolean => now() - displacedMs <= SATURATION_MS;
  const displace = (connection: Connection): void => {
    const { address: remoteAddress, state, socket } = connection;
    countExceeded('reviewConnections');
    const fields = { logger: 'connections', remoteAddress, state, open: byPeer.size, limit };
    if (!isSaturated()) logger.warn(fields, 'connection limit reached');
    displacedMs = now();
    metrics.webhook.displacedConnections.cell({ state }).count++;
    remove(connection);
    socket.destroy();
  };
  server.on('connection', (socket: Socket) => {
    const peer = findPeer(socket);
    const connection: Connection = {
      peer,
      address: socket.remoteAddress,
      generation,
      socket,
      state: 'new',
      isProven: false,
      hasRequest: false,
    };
    byPeer.set(peer, connection);
    states.new.add(connection);
    socket.once('close', () => remove(connection));
    const excess = findExcess(states, limit, connection.address);
    if (excess) displace(excess);
  });
  server.on('secureConnection', (socket: Socket) => {
    const connection = byPeer.get(findPeer(socket));
    if (!connection) return;
    connection.socket = socket;
    bySocket.set(socket, connection);
  });
  // Closes the connection, because a connection whose handshake failed cannot carry a response and would remain open.
  server.on('tlsClientError', (_error: Error, socket: Socket) => socket.destroy());
  const reject = ({ remoteAddress }: Socket): void => {
    const reason = 'the request arrived before the response to the previous request';
    logger.warn({ logger: 'connections', reason, remoteAddress }, 'malformed review');
  };
  rejectPipelining(server, reject, (request) => {
    // Discards chunked bodies, which are rejected. Otherwise, Node would create a buffer for each of the thousands of
    // chunks in one read.
    if (request.headers['transfer-encoding'] !== undefined) (request as Dumpable)._dump?.();
    const connection = bySocket.get(request.socket);
    if (!connection) return;
    connection.hasRequest = true;
    if (connection.isProven) change(connection, 'busy');
  });
  return {
    /** Marks the connection as busy with a complete request. */
    start(socket: Socket): void {
      const connection = bySocket.get(socket);
      if (connection) change(connection, 'busy');
    },
    /**
     * Records a response. Returns true if the connection closes after the response, which is the case for all
     * connections that have not sent a valid review.
     */
    finish(socket: Socket, isReviewed: boolean): boolean {
      const connection = bySocket.get(socket);
      if (!connection) return true;
      connection.isProven ||= isReviewed;
      connection.hasRequest = false;
      change(connection, connection.isProven ? 'idle' : 'new');
      return isDraining || !connection.isProven || connection.generation !== generation;
    },
    /** Closes all current connections after their next response, so clients reconnect. */
    renew(): void {
      generation++;
    },
    /** Closes every current and future connection after its next response. */
    drain(): void {
      isDraining = true;
    },
    isDraining: () => isDraining,
    /** Closes connections on which no bytes have arrived. */
    closeUnused(): void {
      for (const { socket } of states.new)
        if (!(socket instanceof TLSSocket) || socket.bytesRead === 0) socket.destroy();
    },
    /**
     * Describes the usage of the limit if connections were closed in the last minute to admit new connections.
     * Otherwise, returns `undefined`.
     */
    saturation: (): string | undefined =>
      isSaturated()
        ? `at the limit: ${byPeer.size} of ${limit} connections are open, ${states.new.size} of them without a valid review`
        : undefined,
  };
}

/**
 * Closes connections on which a request arrives before the response to the previous request. API servers, kubelets and
 * Prometheus wait for the response. Without this check, one read could contain thousands of requests, which would all
 * be processed in the same turn of the event loop.
 */
function rejectPipelining(
  server: Server | HttpServer,
  reject: (socket: Socket) => void = () => undefined,
  accept: (request: IncomingMessage) => void = () => undefined,
): void {
  const previous = new WeakMap<Socket, { readonly response: ServerResponse; readonly bytesRead: number }>();
  const handlers = server.listeners('request');
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    const socket: Socket & WithParser = request.socket;
    const { bytesRead } = socket;
    const last = previous.get(socket);
    if (last?.response.writableEnded === false || last?.bytesRead === bytesRead) {
      if (!socket.destroyed) reject(socket);
      request.destroy();
      // Stops the parser, because Node would otherwise create and abort each of the remaining requests, which takes 100
      // ms for 64 KiB.
      if (socket.parser) socket.parser.onIncoming = () => UPGRADE;
      return;
    }
    previous.set(socket, { response, bytesRead });
    accept(request);
    for (const handle of handlers) handle.call(server, request, response);
  });
}

/** The parser of a connection, for which Node has no type. Node sets the function again before it reuses the parser. */
interface WithParser {
  readonly parser?: { onIncoming: () => number } | null;
}

/** Node's method that ignores the body of a request, for which Node has no type. */
interface Dumpable {
  _dump?: () => void;
}

/** Result that stops the parser, because it means that the remaining bytes belong to another protocol. */
const UPGRADE = 2;

const NONE: ReadonlySet<never> = new Set<never>();

/**
 * Limits the connections of a server whose clients need only a few, and rejects pipelined requests. Above the limit,
 * closes the oldest connections. A single address can use up to half of the limit. Tested by the attacks "probes",
 * "pipelined requests to probes" and "bodies to probes" in `test/resilience`.
 */
export function limitConnections(server: HttpServer): void {
  rejectPipelining(server);
  const open = new Set<Pick<Connection, 'address' | 'socket'>>();
  server.on('connection', (socket: Socket) => {
    const connection = { address: socket.remoteAddress, socket };
    open.add(connection);
    socket.once('close', () => open.delete(connection));
    const excess = findExcess({ new: open, idle: NONE, busy: NONE }, LIMITS.probeConnections, connection.address);
    if (!excess) return;
    countExceeded('probeConnections');
    open.delete(excess);
    excess.socket.destroy();
  });
}

/**
 * Returns the connection to close in favor of the newest connection, if any. Connections without a valid review may use
 * half of the limit. Above this share, the oldest such connection without a request is closed. If most of them have a
 * request, the oldest one from the address with the most connections is closed instead. Below this share, the oldest
 * idle connection is closed or, if none is idle, the oldest busy connection, in both cases from the address with the
 * most connections. A client therefore cannot displace connections from an address that has fewer.
 */
function findExcess<T extends Pick<Connection, 'address'> & Partial<Pick<Connection, 'hasRequest'>>>(
  states: Readonly<Record<State, ReadonlySet<T>>>,
  limit: number,
  address: string | undefined,
): T | undefined {
  const share = Math.max(Math.floor(limit / 2), 1);
  const isFull = states.new.size + states.idle.size + states.busy.size > limit;
  if (states.new.size > share) {
    const local = [...states.new].filter((connection) => connection.address === address);
    const candidates = local.length > share ? local : isFull ? [...states.new] : [];
    const requesting = candidates.filter(({ hasRequest = false }) => hasRequest);
    if (requesting.length > candidates.length / 2) return oldestFromBusiestAddress(requesting);
    return candidates.find(({ hasRequest = false }) => !hasRequest);
  }
  if (!isFull) return undefined;
  return oldestFromBusiestAddress(states.idle.size > 0 ? states.idle : states.busy);
}

/** Returns the first connection from the address with the most connections. */
function oldestFromBusiestAddress<T extends Pick<Connection, 'address'>>(connections: Iterable<T>): T | undefined {
  const byAddress = Map.groupBy(connections, ({ address }) => address);
  const [first] = [...byAddress.values()].reduce((most, next) => (next.length > most.length ? next : most), []);
  return first;
}

/** Returns the connection limit that results from the file descriptor limit of the process. */
function findDescriptorLimit(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    const descriptors = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity);
    return Math.max(descriptors - OTHER_DESCRIPTORS, 1);
  } catch {
    // There is no limit if the file cannot be read, because it exists only on Linux.
    return Infinity;
  }
}

/** Identifies a connection by its peer, because its TCP socket and its TLS socket are different objects. */
function findPeer({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
