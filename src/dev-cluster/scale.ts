import { invalidValue } from '../kube/field-error.ts';
import { ApiError, invalid, notFound } from '../kube/status.ts';
import { isObject } from '../kube/types.ts';
import { attributesOf } from './attributes.ts';
import { readBody, typeOf } from './body.ts';
import type { ApiResult, Call, Core, ObjectResult } from './core.ts';
import { managerOf, trackUpdate } from './fields/index.ts';
import { matchName, matchNamespace } from './metadata.ts';
import { readWriteOptions } from './options.ts';
import { readPatch } from './patch.ts';
import { getObject } from './read.ts';
import { completeChanged, requireVersion, type Change } from './replace.ts';
import { at, labelsText, numberAt, selectorText } from './tables/cells.ts';
import { metadataOf, type ApiObject } from './types.ts';
import { present, storageKey, toStored } from './views.ts';

/** Answers with the number of replicas of a workload, as a Scale. */
export function readScale(core: Core, call: Call): ApiResult {
  return { kind: 'object', code: 200, object: scaleOf(getObject(core, call)) };
}

export async function patchScale(core: Core, call: Call): Promise<ApiResult> {
  return change(core, call, readPatch(core, call));
}

export async function updateScale(core: Core, call: Call): Promise<ApiResult> {
  const options = readWriteOptions(call.query, 'UpdateOptions');
  const sent = readBody(core, call, options.fieldValidation);
  return change(core, call, { options, createsMissing: false, next: () => structuredClone(sent) });
}

/** Admits the Scale, then writes its number into the workload. */
async function change(core: Core, call: Call, { options, next }: Change): Promise<ObjectResult> {
  const { info, context } = call;
  for (;;) {
    const raw = core.storage.get(storageKey(info), call.scope, call.name);
    if (!raw) throw new ApiError(notFound(info, call.name));
    const workload = present(info, raw);
    const oldObject = scaleOf(workload);
    const subject = {
      operation: 'UPDATE',
      oldObject,
      options: options.as('UpdateOptions'),
      dryRun: options.dryRun,
    } as const;
    const sent = next(oldObject);
    matchNamespace(sent, call.scope);
    matchName(sent, call.name);
    const scale = (await core.admission.mutate(attributesOf(call, { ...subject, object: sent }), context)) ?? sent;
    requireVersion(info, scale, oldObject);
    const scaled = withReplicas(call, workload, scale);
    track(core, call, options.fieldManager, scaled, workload);
    completeChanged(call, scaled, workload);
    await core.admission.validate(attributesOf(call, { ...subject, object: scale }), context);
    if (options.dryRun) return { kind: 'object', code: 200, object: scaleOf(scaled) };
    const stored = core.storage.replace(storageKey(info), raw, toStored(info, scaled));
    if (stored) return { kind: 'object', code: 200, object: scaleOf(stored) };
  }
}

function withReplicas(call: Call, workload: ApiObject, scale: ApiObject): ApiObject {
  const replicas = numberAt(scale, 'spec', 'replicas');
  if (replicas < 0) {
    const error = invalidValue('spec.replicas', replicas, 'must be greater than or equal to 0');
    throw new ApiError(invalid({ group: 'autoscaling', kind: 'Scale' }, call.name, [error]));
  }
  const scaled = structuredClone(workload);
  scaled['spec'] = { ...(isObject(scaled['spec']) ? scaled['spec'] : {}), replicas };
  return scaled;
}

function track(core: Core, call: Call, fieldManager: string | undefined, object: ApiObject, live: ApiObject): void {
  trackUpdate({
    resource: call.info,
    subresource: 'scale',
    type: typeOf(core, call.info),
    manager: managerOf(fieldManager, call.userAgent),
    now: core.clock(),
    object,
    live,
  });
}

function scaleOf(workload: ApiObject): ApiObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadataOf(workload);
  const selector = at(workload, 'spec', 'selector');
  const labels = isObject(selector) && !('matchLabels' in selector) && !('matchExpressions' in selector);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: numberAt(workload, 'spec', 'replicas') },
    status: {
      replicas: numberAt(workload, 'status', 'replicas'),
      selector: labels ? labelsText(selector) : selectorText(selector),
    },
  };
}
