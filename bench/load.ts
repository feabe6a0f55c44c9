import { connect, type TLSSocket } from 'node:tls';

/** Results of one load. Times are in milliseconds. */
export interface LoadResult {
  readonly requests: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

/** Open connections to a server. */
export interface Client {
  load(requests: number): Promise<LoadResult>;
  close(): void;
}

/**
 * Opens keep-alive TLS connections that send the bodies in turn without pipelining, as an API server does. The client
 * writes raw bytes, because an HTTP library would use more CPU than the server under test.
 */
export async function openClient(target: Target, bodies: readonly string[], connections: number): Promise<Client> {
  const messages = bodies.map((body) => formatRequest(target, body));
  const sockets = await Promise.all(Array.from({ length: connections }, () => dial(target)));
  return {
    async load(requests) {
      const startMs = performance.now();
      const latencies = await run(sockets, messages, requests);
      const seconds = (performance.now() - startMs) / 1000;
      latencies.sort();
      return {
        requests,
        perSecond: requests / seconds,
        p50Ms: latencies[Math.floor(latencies.length * 0.5)] ?? 0,
        p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
      };
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Sends one body and returns the response, including its headers. */
export async function send(target: Target, body: string): Promise<string> {
  const socket = await dial(target);
  const response = new Promise<string>((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    socket.once('close', () => reject(new Error('the server closed the connection')));
  });
  socket.write(formatRequest(target, body));
  try {
    return await response;
  } finally {
    socket.destroy();
  }
}

function formatRequest({ host, port, path }: Target, body: string): Buffer {
  const bytes = Buffer.from(body);
  const head = `POST ${path}?timeout=5s HTTP/1.1\r\nHost: ${host}:${port}\r\nContent-Type: application/json\r\nAccept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

function dial({ host, port }: Target): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    // The benchmark runs on loopback and accepts every certificate.
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
      const sendNext = (): void => {
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
        sendNext();
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
      sendNext();
    });
  await Promise.all(sockets.map(drive));
  return latencies;
}
