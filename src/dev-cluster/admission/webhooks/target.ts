import type { RequestOptions } from 'node:https';
import { quote } from '../../../kube/text.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { hasField, numberAt, objectAt, textAt } from '../../objects/read.ts';

/** A Service that a webhook stands behind. */
export interface ServiceReference {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

/** Where a Service can be reached; `undefined` if there is none of that name. */
export type ResolveService = (
  service: ServiceReference,
) => { readonly host: string; readonly port: number } | undefined;

/** Where a call goes. */
export interface Target {
  /** As messages show it, the timeout included. */
  readonly url: string;
  readonly connection: RequestOptions;
  /** Calls of one target share connections. */
  readonly key: string;
}

/** Finds out where a `clientConfig` leads. */
export function targetOf(
  clientConfig: JsonObject,
  timeoutMs: number,
  resolveService: ResolveService,
): Target | { readonly url: string; readonly error: string } {
  const timeout = `timeout=${Math.ceil(timeoutMs / 1000)}s`;
  const bundle = textAt(clientConfig, 'caBundle');
  const trust = bundle === '' ? {} : { ca: Buffer.from(bundle, 'base64').toString('utf8') };
  if (!hasField(clientConfig, 'service')) {
    const base = textAt(clientConfig, 'url');
    const url = `${base}${base.includes('?') ? '&' : '?'}${timeout}`;
    return { url, connection: trust, key: `${originOf(base)} ${bundle}` };
  }
  const service = serviceOf(objectAt(clientConfig, 'service'));
  const hostname = `${service.name}.${service.namespace}.svc`;
  const url = `https://${hostname}:${service.port}${service.path}?${timeout}`;
  const address = resolveService(service);
  if (!address) return { url, error: `service ${quote(service.name)} not found` };
  const { host, port } = address;
  const connection = { ...trust, hostname: host, port, servername: hostname };
  return { url, connection, key: `${hostname} ${host}:${port} ${bundle}` };
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}

function serviceOf(service: JsonObject): ServiceReference & { readonly path: string } {
  return {
    namespace: textAt(service, 'namespace'),
    name: textAt(service, 'name'),
    port: numberAt(service, 'port') ?? 443,
    path: textAt(service, 'path').replace(/^\/*/, '/'),
  };
}
