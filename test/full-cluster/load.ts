/** Creates, scales and deletes Deployments continuously. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems } from '../support/answers.ts';
import type { ApiClient } from '../support/api-client.ts';
import { eventually } from '../support/eventually.ts';
import { COMPLIANT, HOST_NETWORK, PLAIN, workload } from './workloads.ts';

/**
 * The pods of a Deployment. `compliant` complies with restricted, `plain` with baseline, and `host` with privileged.
 */
export type Content = 'compliant' | 'plain' | 'host';
const SPECS: Readonly<Record<Content, JsonObject>> = { compliant: COMPLIANT, plain: PLAIN, host: HOST_NETWORK };

const MAX_DEPLOYMENTS = 60;
const MAX_REPLICAS = 6;
const PERIOD_MS = 150;
const MERGE = { 'content-type': 'application/merge-patch+json' };
const LIST = '/apis/apps/v1/deployments?labelSelector=load';

export interface Load {
  /** Failed requests. They do not include pod denials, because controllers create the pods. */
  readonly failures: readonly string[];
  /** Returns the number of successful requests. */
  writes(): number;
  /** Sets the contents of new Deployments. */
  use(contents: readonly Content[]): void;
  /** Replaces the pod templates of all Deployments with a content. Equal contents restart them. */
  replace(from: Content, to: Content): Promise<void>;
  /** Pauses changes until `check` passes. Resolves to the number of Deployments by content. */
  settle(check: (deployment: DeploymentState) => void, timeoutMs?: number): Promise<void>;
  stop(): Promise<void>;
}

export interface DeploymentState {
  readonly name: string;
  readonly content: Content;
  readonly replicas: number;
  readonly ready: number;
  readonly isObserved: boolean;
  /** Returns the message of the ReplicaFailure condition if it is true. */
  readonly failure: string | undefined;
}

/** Starts to write Deployments into the namespaces. */
export function startLoad(admin: ApiClient, namespaces: readonly string[]): Load {
  const failures: string[] = [];
  const present = new Map<string, Content>();
  let contents: readonly Content[] = ['compliant'];
  let created = 0;
  let writes = 0;
  let isPaused = false;
  let isStopped = false;
  const pick = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T;
  const send = async (method: string, path: string, body?: JsonObject): Promise<void> => {
    const headers = method === 'PATCH' ? MERGE : {};
    const answer = await admin.send(method, path, body, headers);
    if (answer.status < 300) writes++;
    else failures.push(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`);
  };
  const change = async (): Promise<void> => {
    const dice = Math.random();
    if (present.size < 10 || (dice < 0.3 && present.size < MAX_DEPLOYMENTS)) {
      const [namespace, content] = [pick(namespaces), pick(contents)];
      const name = `load-${created++}`;
      const object = workload('Deployment', name, namespace, SPECS[content], 1 + Math.floor(Math.random() * 3));
      const labels = { ...(objectMetadata(object)['labels'] as JsonObject), load: content };
      await send('POST', `/apis/apps/v1/namespaces/${namespace}/deployments`, {
        ...object,
        metadata: { ...objectMetadata(object), labels },
      });
      present.set(`/apis/apps/v1/namespaces/${namespace}/deployments/${name}`, content);
    } else if (dice < 0.85) {
      const replicas = Math.floor(Math.random() * (MAX_REPLICAS + 1));
      await send('PATCH', pick([...present.keys()]), { spec: { replicas } });
    } else {
      const path = pick([...present.keys()]);
      present.delete(path);
      await send('DELETE', path);
    }
  };
  const ended = (async () => {
    while (!isStopped) {
      if (!isPaused) await change().catch((error: unknown) => failures.push(String(error)));
      await pause(PERIOD_MS);
    }
  })();
  const states = async (): Promise<readonly DeploymentState[]> =>
    responseItems(await admin.send('GET', LIST)).map(state);
  return {
    failures,
    writes: () => writes,
    use(given) {
      contents = given;
    },
    async replace(from, to) {
      isPaused = true;
      // A write that has already started may add a Deployment.
      await pause(2 * PERIOD_MS);
      for (const [path, content] of present) {
        if (content !== from) continue;
        const spec = { ...SPECS[to], hostNetwork: SPECS[to]['hostNetwork'] ?? null };
        const restarted = { annotations: { restarted: new Date().toISOString() } };
        await send('PATCH', path, {
          metadata: { labels: { load: to } },
          spec: { template: { metadata: restarted, spec } },
        });
        present.set(path, to);
      }
      isPaused = false;
    },
    async settle(check, timeoutMs = 120_000) {
      isPaused = true;
      await pause(2 * PERIOD_MS);
      await eventually(async () => {
        for (const one of await states()) {
          assert.ok(one.isObserved, one.name);
          check(one);
        }
      }, timeoutMs);
      isPaused = false;
    },
    async stop() {
      isStopped = true;
      await ended;
    },
  };
}

function state(object: JsonObject): DeploymentState {
  const { name, generation, labels } = objectMetadata(object);
  const [spec, status] = [object['spec'] as JsonObject, (object['status'] ?? {}) as JsonObject];
  const conditions = Array.isArray(status['conditions']) ? status['conditions'].filter(isObject) : [];
  const failure = conditions.find(({ type, status: is }) => type === 'ReplicaFailure' && is === 'True');
  return {
    name: String(name),
    content: (labels as JsonObject)['load'] as Content,
    replicas: Number(spec['replicas']),
    ready: Number(status['readyReplicas'] ?? 0),
    isObserved: status['observedGeneration'] === generation,
    failure: failure === undefined ? undefined : String(failure['message']),
  };
}

/** Asserts that all pods exist. */
export function assertComplete({ name, content, replicas, ready, failure }: DeploymentState): void {
  assert.equal(ready, replicas, `${name} (${content}): ${failure ?? 'no failure'}`);
}
