import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readDocuments } from '../../../src/config/manifests.ts';
import { isObject, type JsonObject } from '../../../src/kube/types.ts';

const RELEASES = fileURLToPath(new URL('../../fixtures/releases/', import.meta.url));

/** The versions whose manifests are kept, the newest last. */
export const VERSIONS = readdirSync(RELEASES).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));

/** What was installed in that version, for an API server without a service network: webhooks at that port of loopback. */
export function releaseObjects(version: string, port: number): readonly JsonObject[] {
  const file = `${RELEASES}${version}/install.yaml`;
  const { documents } = readDocuments(readFileSync(file, 'utf8'), file);
  return documents.map(({ value }) => atPort(value as JsonObject, port));
}

function atPort(object: JsonObject, port: number): JsonObject {
  const { webhooks } = object;
  if (!Array.isArray(webhooks)) return object;
  return {
    ...object,
    webhooks: webhooks.filter(isObject).map((webhook) => ({ ...webhook, clientConfig: url(webhook, port) })),
  };
}

function url({ clientConfig }: JsonObject, port: number): JsonObject {
  const { service } = clientConfig as { readonly service: { readonly path: string } };
  return { url: `https://127.0.0.1:${port}${service.path}` };
}
