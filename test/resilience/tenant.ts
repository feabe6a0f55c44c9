/** A worker thread that creates the objects of an attack as a tenant, so the attack does not delay the measurements. */
import { setTimeout as pause } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import type { Kind } from '../../src/kube/kinds.ts';
import { objectPath, resourcePath } from '../../src/kube/resources.ts';
import { objectMetadata } from '../support/answers.ts';
import { type ApiClientOptions, type ApiResponse, createApiClient } from '../support/api-client.ts';
import { lowerPriority } from './priority.ts';
import { buildAttack, LARGEST_BYTES, TENANT_ATTACKS } from './tenant-attacks.ts';

export interface TenantWork extends ApiClientOptions {
  /** Name of the attack in the table. */
  readonly attack: string;
  /** Maximum number of objects. Default: as in the table. */
  readonly count?: number;
  /** Size of the first object. Default: the largest that an API server stores. */
  readonly bytes?: number;
  /** Maximum duration of the first creation. */
  readonly createMs: number;
}

/** The objects and writes that the API server accepted. */
export interface TenantReport {
  readonly created: number;
  /** Size of the largest accepted object in JSON. */
  readonly largestBytes: number;
  /** Number of accepted patches, deletions and creations afterwards. */
  readonly changes: number;
  /** The number of rejections by status and the beginning of the message. */
  readonly rejections: Readonly<Record<string, number>>;
}

lowerPriority();
const work = workerData as TenantWork;
const found = TENANT_ATTACKS.find(({ name }) => name === work.attack);
if (!found) throw new Error(`no attack ${work.attack}`);
const attack = found;
const { bytes: largest = LARGEST_BYTES } = work;
const client = createApiClient(work);
/** Sends a request. A busy API server may close the connection. */
const send: typeof client.send = (...request) =>
  client
    .send(...request)
    .catch((error: unknown) => ({ status: 0, headers: {}, warnings: [], text: String(error), body: undefined }));
const CONNECTIONS = 4;
const MERGE = { 'content-type': 'application/merge-patch+json' };

const rejections: Record<string, number> = {};
const objects: { readonly kind: Kind; readonly name: string; readonly index: number }[] = [];
/** The accepted size of an object, keyed by kind. */
const sizes = new Map<Kind, number>();
let [largestBytes, changes, isDone] = [0, 0, false];

function isAccepted({ status, text }: ApiResponse): boolean {
  if (status > 0 && status < 300) return true;
  // Lists of field errors are as long as the object.
  const reason = `${status} ${(/"message":"((?:[^"\\]|\\.){0,120})/.exec(text)?.[1] ?? text.slice(0, 120)).replaceAll(/\d+/g, 'N')}`;
  rejections[reason] = (rejections[reason] ?? 0) + 1;
  return false;
}

/** Creates an object. If it is too large, tries smaller ones. */
async function create(index: number): Promise<void> {
  for (;;) {
    const kind = attack.kinds[index % attack.kinds.length] ?? 'Pod';
    const bytes = sizes.get(kind) ?? largest;
    const object = buildAttack(attack, bytes, index);
    const text = JSON.stringify(object);
    const response = await send('POST', resourcePath(kind, attack.namespace), text);
    if (isAccepted(response)) {
      objects.push({ kind, name: String(objectMetadata(object)['name']), index });
      largestBytes = Math.max(largestBytes, text.length);
      return;
    }
    const isTooLarge =
      [413, 504].includes(response.status) ||
      /too large|larger than|must have at most|more than \d+|limit/.test(response.text);
    if (isDone || !isTooLarge || bytes < 10_000) return;
    if (sizes.get(kind) === undefined || sizes.get(kind) === bytes) sizes.set(kind, bytes * 0.85);
  }
}

async function inParallel(act: (slot: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, slot) => act(slot)));
}

async function createAll(): Promise<void> {
  const endMs = performance.now() + work.createMs;
  let next = 0;
  await inParallel(async () => {
    while (!isDone && next < (work.count ?? attack.count) && performance.now() < endMs) await create(next++);
  });
}

async function change(round: number): Promise<void> {
  const object = objects[round % objects.length];
  if (!object) return pause(100);
  const path = objectPath(object.kind, object.name, attack.namespace);
  if (attack.then === 'churn') {
    const deleted = await send('DELETE', `${path}?gracePeriodSeconds=0`);
    const again = buildAttack(attack, sizes.get(object.kind) ?? largest, object.index);
    const created = await send('POST', resourcePath(object.kind, attack.namespace), again);
    if (isAccepted(deleted)) changes++;
    if (isAccepted(created)) changes++;
  } else if (attack.then === 'ephemeral containers') {
    const container = {
      name: `d${round}`,
      image: 'd',
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    };
    const type = { 'content-type': 'application/strategic-merge-patch+json' };
    const patch = { spec: { ephemeralContainers: [container] } };
    if (isAccepted(await send('PATCH', `${path}/ephemeralcontainers`, patch, type))) changes++;
  } else if (isAccepted(await send('PATCH', path, { metadata: { labels: { round: String(round) } } }, MERGE))) {
    changes++;
  }
}

parentPort?.once('message', () => (isDone = true));
await createAll();
parentPort?.postMessage('created');
let round = 0;
await inParallel(async () => {
  while (!isDone) await change(round++);
});
const report: TenantReport = { created: objects.length, largestBytes, changes, rejections };
parentPort?.postMessage(report);
client.close();
