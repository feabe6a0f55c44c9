import { once } from 'node:events';
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
    if (!written && !response.closed) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    if (response.closed) break;
  }
  response.end();
}
