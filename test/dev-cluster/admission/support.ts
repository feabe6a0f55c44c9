/** Support for admission tests, with resources, request attributes, and a context that records warnings. */
import assert from 'node:assert/strict';
import type { Attributes, RequestContext } from '../../../src/dev-cluster/attributes.ts';
import type { ServedResource } from '../../../src/dev-cluster/resource-info.ts';
import { createRegistry } from '../../../src/dev-cluster/resources.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError, type Status } from '../../../src/kube/status.ts';

const resources = createRegistry().list();

export function resource(name: string): ServedResource {
  const found = resources.find((info) => info.resource === name);
  assert.ok(found, name);
  return found;
}

export interface WarningRecorder {
  readonly context: RequestContext;
  readonly warnings: string[];
}

export function createRequestContext(signal: AbortSignal = new AbortController().signal): WarningRecorder {
  const warnings: string[] = [];
  const context: RequestContext = {
    warn: (text) => void warnings.push(text),
    signal,
  };
  return { context, warnings };
}

/** Returns the attributes of a create request in the namespace `a`, with the given changes. */
export function attributes(given: Partial<Omit<Attributes, 'resource'>> & { resource: string }): Attributes {
  const { name } = given.object?.metadata ?? {};
  return {
    operation: 'CREATE',
    subresource: '',
    namespace: 'a',
    name: typeof name === 'string' ? name : '',
    options: {},
    dryRun: false,
    user: {},
    ...given,
    resource: resource(given.resource),
  };
}

export function object(kind: string, name: string, more: object = {}, namespace?: string): ApiObject {
  return { apiVersion: 'v1', kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) }, ...more };
}

/** Returns the Status of the ApiError with which the function rejects, or `undefined` if it resolves. */
export async function rejectionStatus(run: () => Promise<unknown>): Promise<Status | undefined> {
  try {
    await run();
    return undefined;
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    return error.status;
  }
}
