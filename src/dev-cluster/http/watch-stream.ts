import type { ServerResponse } from 'node:http';
import type { WatchResult } from '../core.ts';
import type { Form } from './negotiation.ts';
import { renderEvent, type TableOptions } from './render.ts';

/** Writes watch events, one JSON document a line, no faster than the client reads, until they end or the client goes. */
export async function streamEvents(
  response: ServerResponse,
  { info, events }: WatchResult,
  form: Form,
  options: TableOptions & { clock(): Date },
): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
  response.flushHeaders();
  let first = true;
  for await (const event of events) {
    const shown = renderEvent(info, event, form, { ...options, now: options.clock(), first });
    first = false;
    const written = response.write(`${JSON.stringify(shown)}\n`);
    if (!written && !response.closed) await drained(response);
    if (response.closed) break;
  }
  response.end();
}

/** Resolves when the client has read on, or has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
  });
}
