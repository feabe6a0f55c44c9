import type { FastifyReply, FastifyRequest } from 'fastify';
import type { UserInfo } from '../../kube/types.ts';
import type { Warnings } from '../admission/index.ts';

/** A request on its way through the server, with what is known about it, and the reply to come. */
export interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** As whom it is made: the impersonated user, if any. */
  readonly user: UserInfo;
  readonly query: URLSearchParams;
  readonly warnings: Warnings;
  /** Aborted when the client goes or the server stops. */
  readonly signal: AbortSignal;
}
