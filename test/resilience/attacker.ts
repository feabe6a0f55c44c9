/** A worker thread that attacks a server, so the attack does not delay the reviews of the test. */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { lowerPriority } from './priority.ts';

export interface Attack {
  readonly port: number;
  readonly protocol: 'tcp' | 'tls';
  readonly connections: number;
  /** The addresses of the clients. Default: 127.0.0.1. */
  readonly addresses?: readonly string[];
  /** The text that each connection sends, or a list from which each connection takes the next text. */
  readonly sent?: string | readonly string[];
  /** A text in `sent` that is replaced with a number of the same length. The number differs for each connection. */
  readonly nonce?: string;
  /** A text that each connection sends every 200 ms after `sent`. */
  readonly trickle?: string;
  /** If set, sends the next text on a new connection after each response until the attack ends. */
  readonly isRepeated?: boolean;
}

lowerPriority();
const {
  port,
  protocol,
  connections,
  addresses = ['127.0.0.1'],
  sent = [],
  nonce,
  trickle,
  isRepeated = false,
} = workerData as Attack;
const texts = typeof sent === 'string' ? [sent] : sent;
const sockets = new Set<Socket>();
const responses: string[] = [];
let isDone = false;
let opens = 0;
let sends = 0;

/** Opens a connection. The server may close it at any time. */
function open(): Promise<Socket> {
  const host = '127.0.0.1';
  return new Promise((resolve) => {
    const tcp = connectTcp({ port, host, localAddress: addresses[opens++ % addresses.length] });
    tcp.on('error', () => socket.destroy());
    const socket: Socket = protocol === 'tcp' ? tcp : connectTls({ socket: tcp, host, rejectUnauthorized: false });
    sockets.add(socket);
    socket.once(protocol === 'tcp' ? 'connect' : 'secureConnect', () => resolve(socket));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      sockets.delete(socket);
      resolve(socket);
    });
    if (!isRepeated) socket.resume();
  });
}

function nextText(): string {
  const text = texts[sends % Math.max(1, texts.length)] ?? '';
  sends++;
  return nonce === undefined ? text : text.replaceAll(nonce, String(sends).padStart(nonce.length, '0'));
}

async function sendRepeatedly(): Promise<void> {
  while (!isDone) {
    const socket = await open();
    const response = readResponse(socket);
    socket.write(nextText());
    responses.push(await response);
    socket.destroy();
  }
}

/** Resolves to the status of a response and, for a review, to its decision. */
function readResponse(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let received = '';
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      const [, status, body] = /^HTTP\/1.1 (\d+) [^]*?\r\n\r\n([^]*)/.exec(received) ?? [];
      if (status === undefined || body === undefined) return;
      const [, length] = /\r\ncontent-length: (\d+)\r\n/i.exec(received) ?? [];
      const [, allowed] = /"allowed":(\w+)/.exec(body) ?? [];
      if (status !== '200' || allowed !== undefined || body.length >= Number(length))
        resolve(`${status} ${allowed ?? ''}`);
    });
    socket.once('close', () => resolve('closed'));
  });
}

parentPort?.once('message', () => {
  isDone = true;
  for (const socket of sockets) socket.destroy();
  parentPort?.postMessage(responses);
});
if (isRepeated) for (let index = 0; index < connections; index++) void sendRepeatedly();
for (let opened = 0; opened < connections && !isRepeated; opened += 50) {
  const batch = await Promise.all(Array.from({ length: Math.min(50, connections - opened) }, open));
  if (texts.length > 0) for (const socket of batch) if (!socket.destroyed) socket.write(nextText());
}
if (trickle !== undefined)
  setInterval(() => {
    for (const socket of sockets) if (!socket.destroyed && socket.writableLength < 1024) socket.write(trickle);
  }, 200).unref();
parentPort?.postMessage('sent');
