import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request } from 'node:https';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';

export interface ApiClientOptions {
  readonly port: number;
  /** Certificate authority of the server in PEM. */
  readonly authority: string;
  readonly client?: KeyPair;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The unparsed `Warning` headers. */
  readonly warnings: readonly string[];
  readonly text: string;
  /** The parsed body, or `undefined` if it is not JSON. */
  readonly body: unknown;
}

export interface ApiClient {
  /** Sends a request. Objects are sent as JSON, and strings unchanged. */
  send(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiResponse>;
  close(): void;
}

/** Creates a client that sends no default headers such as User-Agent and Accept. */
export function createApiClient({ port, authority, client }: ApiClientOptions): ApiClient {
  const agent = new Agent({ keepAlive: true, ca: authority, ...client });
  return {
    send(method, path, body, headers = {}) {
      const text = body == null ? '' : typeof body === 'string' ? body : JSON.stringify(body);
      const options = { agent, host: '127.0.0.1', port, method, path, headers: buildHeaders(text, headers) };
      const attempt = (): Promise<ApiResponse> =>
        new Promise((resolve, reject) => {
          const sent = request(options, (response) => {
            const chunks: Buffer[] = [];
            response.on('data', (chunk: Buffer) => chunks.push(chunk));
            response.on('error', reject);
            response.on('end', () => {
              const received = Buffer.concat(chunks).toString();
              resolve({
                status: response.statusCode ?? 0,
                headers: response.headers,
                warnings: readWarnings(response.rawHeaders),
                text: received,
                body: parse(received),
              });
            });
          });
          sent.on('error', (error: NodeJS.ErrnoException) => {
            // The server closed the idle connection while the request was being sent.
            if (sent.reusedSocket && error.code === 'ECONNRESET') resolve(attempt());
            else reject(error);
          });
          sent.end(text);
        });
      return attempt();
    },
    close: () => agent.destroy(),
  };
}

function buildHeaders(text: string, headers: Readonly<Record<string, string>>): Record<string, string> {
  return text === ''
    ? { ...headers }
    : {
        'content-type': 'application/json',
        ...lowerCaseNames(headers),
        'content-length': String(Buffer.byteLength(text)),
      };
}

function lowerCaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Node decodes headers as Latin-1, but warnings are UTF-8. */
function readWarnings(raw: readonly string[]): readonly string[] {
  return raw
    .filter((_value, index) => raw[index - 1]?.toLowerCase() === 'warning' && index % 2 === 1)
    .map((value) => Buffer.from(value, 'latin1').toString('utf8'));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
