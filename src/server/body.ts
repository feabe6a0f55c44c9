import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';

/** The largest review: an object of 3 MiB, the API server's limit, old and new, with room for the envelope. */
export const BODY_LIMIT_BYTES = 7 * 1024 * 1024;

type Done = (error: Error | null, body?: Buffer) => void;

/** Reads the body of a request. What comes in one piece, as reviews of pods do, is passed on as it is: Fastify copies it. */
export function readBody(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  if (Number(request.headers['content-length']) > BODY_LIMIT_BYTES) {
    done(tooLarge());
    return;
  }
  const pieces: Buffer[] = [];
  let length = 0;
  const stop = (): void => {
    payload.off('data', onData);
    payload.off('end', onEnd);
    payload.off('error', onError);
  };
  const onData = (piece: Buffer): void => {
    pieces.push(piece);
    length += piece.length;
    if (length <= BODY_LIMIT_BYTES) return;
    stop();
    done(tooLarge());
  };
  const onEnd = (): void => {
    stop();
    done(null, pieces.length === 1 ? pieces[0] : Buffer.concat(pieces, length));
  };
  const onError = (error: Error): void => {
    stop();
    done(withStatus(error, 400));
  };
  payload.on('data', onData);
  payload.on('end', onEnd);
  payload.on('error', onError);
}

/** The error of a request that cannot be read as it came. */
export function badRequest(message: string): Error {
  return withStatus(new Error(message), 400);
}

function tooLarge(): Error {
  return withStatus(new Error(`request entity is too large; limit is ${BODY_LIMIT_BYTES} bytes`), 413);
}

function withStatus(error: Error, statusCode: number): Error {
  return Object.assign(error, { statusCode });
}
