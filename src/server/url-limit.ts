/** Limits the URLs of requests before anything parses them. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { LIMITS } from '../kube/limits.ts';
import { countExceeded } from '../telemetry/limits.ts';

/** Code of Node's error for headers beyond the limit. */
export const HEADER_OVERFLOW = 'HPE_HEADER_OVERFLOW';

const PATH = '/uri-too-long';
const REASON = `the URL is longer than ${LIMITS.urlCharacters} characters\n`;

/** Server option that replaces the URL of a request before it is routed, if the URL is too long. */
export const URL_LIMIT = {
  rewriteUrl: ({ url = '/' }: IncomingMessage): string => (url.length > LIMITS.urlCharacters ? PATH : url),
};

/** Adds the route that rejects requests with replaced URLs, and counts them and those with too large headers. */
export function limitUrls(app: FastifyInstance): void {
  app.server.on('clientError', ({ code }: NodeJS.ErrnoException) => {
    if (code === HEADER_OVERFLOW) countExceeded('headerBytes');
  });
  const reject = (_request: unknown, reply: FastifyReply): void => {
    countExceeded('urlCharacters');
    // Closes the connection, because its next bytes are the unread body.
    void reply.code(414).header('connection', 'close').type('text/plain; charset=utf-8').send(REASON);
  };
  app.all(PATH, { onRequest: reject }, reject);
}
