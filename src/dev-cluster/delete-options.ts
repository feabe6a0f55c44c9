import { invalidValue, notSupported, type FieldError } from '../kube/field-error.ts';
import { ApiError, badRequest } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { dryRunErrors, invalidOptions, readInteger } from './options.ts';
import type { ApiObject } from './types.ts';

/** How to delete. */
export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly gracePeriodSeconds?: number;
  readonly preconditions: { readonly uid?: string; readonly resourceVersion?: string };
  /** True where children are to lose their owner instead of their lives. */
  readonly orphan: boolean;
  /** As webhooks see it. */
  readonly object: ApiObject;
}

const POLICIES = ['Foreground', 'Background', 'Orphan'];

/** Reads the options of a deletion: from the body, or from the query where there is none. Throws ApiError 400 or 422. */
export function readDeleteOptions(query: URLSearchParams, body: string): DeleteOptions {
  const given = body.trim() === '' ? fromQuery(query) : fromBody(body);
  const dryRun = Array.isArray(given['dryRun']) ? given['dryRun'].map(String) : [];
  const policy = given['propagationPolicy'];
  const errors = [...policyErrors(policy, given['orphanDependents']), ...dryRunErrors(dryRun)];
  if (errors.length > 0) throw invalidOptions('DeleteOptions', errors);
  const grace = given['gracePeriodSeconds'];
  return {
    dryRun: dryRun.length > 0,
    ...(typeof grace === 'number' ? { gracePeriodSeconds: grace } : {}),
    preconditions: preconditionsOf(given['preconditions']),
    orphan: policy === 'Orphan' || given['orphanDependents'] === true,
    object: { ...given, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
  };
}

function fromQuery(query: URLSearchParams): JsonObject {
  const grace = readInteger(query, 'gracePeriodSeconds');
  const policy = query.get('propagationPolicy');
  const dryRun = query.getAll('dryRun');
  return {
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
    ...(policy === null || policy === '' ? {} : { propagationPolicy: policy }),
    ...(query.has('orphanDependents') ? { orphanDependents: query.get('orphanDependents') === 'true' } : {}),
    ...(dryRun.length === 0 ? {} : { dryRun }),
  };
}

function fromBody(body: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (error) {
    throw new ApiError(badRequest(`couldn't get version/kind; json parse error: ${String(error)}`), { cause: error });
  }
  if (!isObject(value)) throw new ApiError(badRequest('decoded object cannot be converted to DeleteOptions'));
  if (value['kind'] !== undefined && value['kind'] !== 'DeleteOptions') {
    throw new ApiError(badRequest('decoded object cannot be converted to DeleteOptions'));
  }
  return value;
}

function policyErrors(policy: unknown, orphanDependents: unknown): FieldError[] {
  if (policy == null) return [];
  const both = invalidValue('propagationPolicy', policy, 'orphanDependents and deletionPropagation cannot be both set');
  const known = typeof policy === 'string' && POLICIES.includes(policy);
  return [
    ...(orphanDependents == null ? [] : [both]),
    ...(known ? [] : [notSupported('propagationPolicy', policy, [...POLICIES, 'nil'])]),
  ];
}

function preconditionsOf(value: unknown): DeleteOptions['preconditions'] {
  if (!isObject(value)) return {};
  const { uid, resourceVersion } = value;
  return {
    ...(typeof uid === 'string' ? { uid } : {}),
    ...(typeof resourceVersion === 'string' ? { resourceVersion } : {}),
  };
}
