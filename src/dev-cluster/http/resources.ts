import type { FastifyReply, FastifyRequest } from 'fastify';
import { mediaType } from '../body.ts';
import type { DevCluster } from '../cluster.ts';
import type { WatchResult } from '../core.ts';
import type { Exchange } from './exchange.ts';
import { negotiate, type Form } from './negotiation.ts';
import { createProtobufDecoder, PROTOBUF } from './protobuf.ts';
import { renderList, renderObject, type TableOptions } from './render.ts';
import { addWarnings, sendJson, sendText } from './replies.ts';
import type { ResourceRequest } from './request-info.ts';
import { streamEvents } from './watch-stream.ts';

/** Answers a request for a resource. */
export type AnswerResource = (exchange: Exchange, wanted: ResourceRequest) => Promise<FastifyReply>;

/** Makes the function that takes requests for resources to the API and its results back. */
export function createResources(cluster: DevCluster, onError: (error: unknown) => void): AnswerResource {
  const readProtobuf = createProtobufDecoder();
  const readContent = ({ body, headers }: FastifyRequest): { contentType: string; body: string } => {
    const contentType = headers['content-type'] ?? '';
    if (!Buffer.isBuffer(body)) return { contentType, body: '' };
    if (mediaType(contentType) !== PROTOBUF) return { contentType, body: body.toString('utf8') };
    return { contentType: 'application/json', body: JSON.stringify(readProtobuf(body)) };
  };

  const sendEvents = async (reply: FastifyReply, watch: WatchResult, form: Form, table: TableOptions) => {
    reply.hijack();
    try {
      await streamEvents(reply.raw, watch, form, { ...table, clock: () => cluster.clock() });
    } catch (error) {
      // The answer has begun: all that is left is to cut it short.
      onError(error);
      reply.raw.destroy();
    }
    return reply;
  };

  return async ({ request, reply, user, query, warnings, signal }, wanted) => {
    const form = negotiate(request.headers.accept, formsOf(wanted.verb));
    const table: TableOptions = { includeObject: includeObject(query), now: cluster.clock() };
    const asked = { ...wanted, query, user, userAgent: request.headers['user-agent'] ?? '', ...readContent(request) };
    const context = { warn: warnings.add, audit: () => undefined, signal };
    const result = await cluster.api.handle({ ...asked, context }).finally(() => addWarnings(reply, warnings));
    if (!result) return sendText(reply, 404, '404 page not found\n');
    if (result.kind === 'nothing') return reply.code(204).send();
    if (result.kind === 'watch') return sendEvents(reply, result, form, table);
    if (result.kind === 'list') return sendJson(reply, 200, renderList(result, form, table));
    return sendJson(reply, result.code, renderObject(result, form, table));
  };
}

function formsOf(verb: string): readonly Form[] {
  return verb === 'list' || verb === 'deletecollection'
    ? ['table', 'metadata-list', 'plain']
    : ['table', 'metadata', 'plain'];
}

function includeObject(query: URLSearchParams): TableOptions['includeObject'] {
  const wanted = query.get('includeObject');
  return wanted === 'Object' || wanted === 'None' ? wanted : 'Metadata';
}
