/** Compares responses of the server with decisions of the same webhooks in this process, and throws if they differ. */
import assert from 'node:assert/strict';
import { applyPatch, type Operation } from 'rfc6902';
import { createStore } from '../../src/cluster/store.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import { truncate } from '../../src/kube/text.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { assignScc } from '../../src/policy/scc/index.ts';
import { getSccSet, sccAccess } from '../../src/views/access.ts';
import { getRanges } from '../../src/views/scc-mode.ts';
import type { Response } from '../support/https.ts';
import { createTestWebhooks } from '../support/scc-webhooks.ts';
import { POD_SECURITY, SCC, type Stored } from './server.ts';

export interface Judge {
  /** Returns the pod after the first pass, or `undefined` if the pod is denied. */
  complete(request: JsonObject): JsonObject | undefined;
  /** Checks the response of a path to a request. Returns the patched object. */
  check(path: string, request: JsonObject, answer: Response): Promise<JsonObject | undefined>;
}

export function createJudge(stored: Stored): Judge {
  const store = createStore();
  for (const [kind, objects] of stored) for (const object of objects) store.put(kind, object);
  store.emulationVersion = POD_SECURITY.emulationVersion;
  const { exceptions } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
  const webhooks = createTestWebhooks(store, {
    settings: SCC,
    exceptions: { ...exceptions, ...POD_SECURITY.exceptions },
    areClientsKnown: false,
  });
  store.markSynced();
  const decide = async (path: string, request: JsonObject): Promise<Decision> => {
    const webhook = webhooks.find((candidate) => candidate.path === path);
    assert.ok(webhook, path);
    const now = (): number => performance.now();
    const review = { ...structuredClone(request), userInfo: request['userInfo'] ?? {} };
    return await webhook.decide(review as unknown as AdmissionRequest, { store, now, deadlineMs: now() + 500 });
  };
  return {
    complete({ namespace: name, userInfo, object }) {
      const namespace = store.get('Namespace', String(name));
      const decision = assignScc({
        ...{ operation: 'CREATE', object, userInfo: userInfo ?? {} },
        namespace: namespace ?? { metadata: { name: String(name) } },
        namespaceRanges: getRanges(namespace ?? {}),
        sccs: getSccSet(store),
        access: sccAccess(store),
        compatibility: 'portcullis',
        preferUserNamespaces: false,
      });
      return decision.allowed ? (decision.object as JsonObject | undefined) : undefined;
    },
    async check(path, request, answer) {
      const response = parseResponse(answer, request);
      const decision = await decide(path, request);
      const { patch, patchType, uid: _uid, ...decided } = response;
      const expected = formatDecision(decision);
      // The time determines how many pods are evaluated with a changed SCC.
      if (/was evaluated for only/.test(answer.body + JSON.stringify(expected))) return undefined;
      assert.deepEqual(decided, expected);
      assert.equal(patchType, patch === undefined ? undefined : 'JSONPatch');
      const patched = patch === undefined ? request['object'] : applyResponsePatch(patch as string, request['object']);
      if (decision.allowed) assert.deepEqual(patched, decision.object ?? request['object'], 'the patched object');
      return patch !== undefined && isObject(patched) ? patched : undefined;
    },
  };
}

function parseResponse({ status, body }: Response, { uid }: JsonObject): JsonObject {
  assert.equal(status, 200, body.slice(0, 500));
  const { response, ...review } = JSON.parse(body) as { readonly response: JsonObject };
  assert.deepEqual([review, response['uid']], [{ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1' }, uid]);
  return response;
}

/** Returns the fields of the response without its patch. */
function formatDecision(decision: Decision): JsonObject {
  const { allowed, auditAnnotations, warnings = [] } = decision;
  return JSON.parse(
    JSON.stringify({
      allowed,
      status: allowed
        ? undefined
        : { ...decision.status, message: truncate(decision.status.message, LIMITS.messageCharacters) },
      auditAnnotations,
      warnings: warnings.length === 0 ? undefined : warnings,
    }),
  ) as JsonObject;
}

function applyResponsePatch(patch: string, object: unknown): unknown {
  const operations = JSON.parse(Buffer.from(patch, 'base64').toString()) as Operation[];
  assert.notEqual(operations.length, 0);
  const patched = structuredClone(object);
  for (const error of applyPatch(patched, operations)) assert.ifError(error);
  return patched;
}
