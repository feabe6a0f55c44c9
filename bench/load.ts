import { connect, type TLSSocket } from 'node:tls';

/** One measured load. Times in milliseconds. */
export interface LoadResult {
  readonly requests: number;
  /** Sent before, and not measured. */
  readonly warmup: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

export interface LoadOptions {
  readonly connections: number;
  /** How many requests are measured, after a tenth as many to warm up. */
  readonly requests: number;
}

/**
 * Sends the bodies in turn over keep-alive TLS connections, each waiting for its answer, as an API server does. A raw
 * client: anything more comfortable costs more than the server under test and would be what is measured.
 */
export async function load(target: Target, bodies: readonly string[], options: LoadOptions): Promise<LoadResult> {
  const messages = bodies.map((body) => message(target, body));
  const sockets = await Promise.all(Array.from({ length: options.connections }, () => dial(target)));
  try {
    const warmup = Math.ceil(options.requests / 10);
    await run(sockets, messages, warmup);
    const startMs = performance.now();
    const latencies = await run(sockets, messages, options.requests);
    const seconds = (performance.now() - startMs) / 1000;
    latencies.sort();
    return {
      requests: options.requests,
      warmup,
      perSecond: options.requests / seconds,
      p50Ms: latencies[Math.floor(latencies.length * 0.5)] ?? 0,
      p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
    };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Sends one body and returns the answer, its head included. */
export async function ask(target: Target, body: string): Promise<string> {
  const socket = await dial(target);
  const answer = new Promise<string>((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    socket.once('close', () => reject(new Error('the server closed the connection')));
  });
  socket.write(message(target, body));
  try {
    return await answer;
  } finally {
    socket.destroy();
  }
}

function message({ host, port, path }: Target, body: string): Buffer {
  const bytes = Buffer.from(body);
  const head = `POST ${path}?timeout=5s HTTP/1.1\r\nHost: ${host}:${port}\r\nContent-Type: application/json\r\nAccept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

function dial({ host, port }: Target): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    // A benchmark on loopback: whose certificate it is does not matter.
    const socket = connect({ host, port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }, () =>
      resolve(socket),
    );
    socket.setNoDelay(true);
    socket.once('error', reject);
  });
}

async function run(
  sockets: readonly TLSSocket[],
  messages: readonly Buffer[],
  requests: number,
): Promise<Float64Array> {
  const latencies = new Float64Array(requests);
  let next = 0;
  const drive = (socket: TLSSocket): Promise<void> =>
    new Promise((resolve, reject) => {
      let startMs = 0;
      let index = 0;
      let received = '';
      const send = (): void => {
        index = next++;
        if (index >= requests) {
          finish();
          return;
        }
        startMs = performance.now();
        socket.write(messages[index % messages.length] ?? Buffer.alloc(0));
      };
      const onData = (chunk: Buffer): void => {
        received += chunk.toString('latin1');
        const end = received.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = /content-length: (\d+)/i.exec(received.slice(0, end))?.[1];
        if (!received.startsWith('HTTP/1.1 200 ') || length === undefined) {
          fail(new Error(received.slice(0, 200)));
          return;
        }
        if (received.length < end + 4 + Number(length)) return;
        received = '';
        latencies[index] = performance.now() - startMs;
        send();
      };
      const onClose = (): void => fail(new Error('the server closed a connection'));
      const stop = (): void => {
        socket.off('data', onData);
        socket.off('close', onClose);
      };
      const finish = (): void => {
        stop();
        resolve();
      };
      const fail = (error: Error): void => {
        stop();
        reject(error);
      };
      socket.on('data', onData);
      socket.on('close', onClose);
      send();
    });
  await Promise.all(sockets.map(drive));
  return latencies;
}
