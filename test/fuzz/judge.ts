/** Whether an answer of the server is right, as the oracle sees it. Everything that is wrong throws. */
import assert from 'node:assert/strict';
import type { Response } from '../support/https.ts';
import { applyPatch } from '../support/oracle/json-patch.ts';
import { at, isObject, listAt, mapAt, textAt, type JsonObject } from '../support/oracle/json.ts';
import { hasNullItem, isOdd } from '../support/oracle/object-schema.ts';
import { judgePodSecurity, type PodSecurityVerdict } from '../support/oracle/pod-security-admission.ts';
import {
  firstPass,
  judgeExec,
  modeIn,
  PORTCULLIS,
  secondPass,
  type SccSurroundings,
  type SccVerdict,
} from '../support/oracle/scc-admission.ts';
import { decodesAsScc, defaultsOf, mistakesIn } from '../support/oracle/scc-objects.ts';
import { canonical } from '../support/oracle/semantic-equality.ts';
import type { Stored } from './server.ts';
import { authorizerOf, type World } from './world.ts';

export interface Judge {
  /** What the first pass should make of a new pod; undefined if it should be refused or left alone. */
  complete(request: JsonObject): JsonObject | undefined;
  /** Checks the answer of a path to a request, and returns the object as the answer leaves it. */
  check(path: string, request: JsonObject, answer: Response): JsonObject | undefined;
}

/** The namespaces that are exempt by name, as the server is told. */
const EXEMPT = ['kube-system'];

export function createJudge(world: World, { namespaces, sccs, pods }: Stored): Judge {
  const authorizer = authorizerOf(world);
  const surroundingsOf = (request: JsonObject): SccSurroundings => ({
    sccs,
    namespace: namespaces.get(textAt(request, 'namespace')),
    authorizer,
    settings: PORTCULLIS,
  });
  /** A namespace that is not there is held to the strictest, unless its name exempts it. */
  const modeOf = (request: JsonObject): string => {
    const name = textAt(request, 'namespace');
    const namespace = namespaces.get(name) ?? { metadata: { name } };
    return modeIn(namespace, { exempt: EXEMPT, mode: 'enforce' });
  };
  const inMode = (request: JsonObject, judge: () => SccVerdict): SccVerdict => {
    const mode = modeOf(request);
    return mode === 'enforce' ? judge() : { allowed: true, why: `mode ${mode}` };
  };
  const first = (request: JsonObject): SccVerdict => inMode(request, () => firstPass(request, surroundingsOf(request)));

  const checks: Readonly<Record<string, (request: JsonObject, response: JsonObject) => JsonObject | undefined>> = {
    '/psa/validate': (request, response) => {
      const verdict = judgePodSecurity(request, {
        configuration: {},
        types: 'judged',
        namespaceLabels: (name) => {
          const namespace = namespaces.get(name);
          return namespace && mapAt(namespace, 'metadata', 'labels');
        },
      });
      const isRefused = response['allowed'] === false || mapAt(response, 'auditAnnotations').has('error');
      // No API server sends it: it may be refused for any reason, or a workload be left alone.
      if (isRefused && isOdd(request)) return undefined;
      checkPodSecurity(request, verdict, response);
      return undefined;
    },
    '/scc/mutate': (request, response) => {
      const verdict = first(request);
      if (response['allowed'] === false && isOdd(request)) return undefined;
      checkVerdict(verdict, response);
      if (!verdict.allowed) return undefined;
      const patched = patchedBy(response, request['object']);
      assert.deepEqual(patched, verdict.pod ?? request['object'], `the pod that comes out: ${verdict.why}`);
      return isObject(patched) ? patched : undefined;
    },
    '/scc/validate': (request, response) => {
      if (response['allowed'] === false && isOdd(request)) return undefined;
      checkVerdict(
        inMode(request, () => secondPass(request, surroundingsOf(request))),
        response,
      );
      assert.equal(response['patch'], undefined, 'a validating webhook changes nothing');
      return undefined;
    },
    '/scc/exec': (request, response) => {
      const pod = textAt(request, 'name') === 'stored' ? pods.get(textAt(request, 'namespace')) : undefined;
      checkVerdict(
        inMode(request, () => judgeExec(request, pod, surroundingsOf(request))),
        response,
      );
      assert.equal(response['patch'], undefined, 'a validating webhook changes nothing');
      return undefined;
    },
    '/scc/objects/default': (request, response) => {
      const object = writtenScc(request);
      if (response['allowed'] === false && hasNullItem(object)) return undefined;
      if (object === undefined || !decodesAsScc(object)) {
        assert.equal(response['allowed'], object === undefined, 'an SCC of the wrong types');
        return undefined;
      }
      assert.equal(response['allowed'], true);
      const patched = patchedBy(response, request['object']);
      assert.ok(isObject(patched));
      const defaults = defaultsOf(object);
      for (const field of new Set([...Object.keys(object), ...Object.keys(defaults)])) {
        const wanted: unknown = Object.hasOwn(defaults, field) ? defaults[field] : object[field];
        // What the API knows and nobody gave is written as null or false.
        assert.equal(canonical(at(patched, field) ?? false), canonical(wanted ?? false), field);
      }
      return patched;
    },
    '/scc/objects/validate': (request, response) => {
      const object = writtenScc(request);
      if (response['allowed'] === false && hasNullItem(object)) return undefined;
      const mistakes = object === undefined ? [] : decodesAsScc(object) ? mistakesIn(object) : ['types'];
      assert.equal(response['allowed'], mistakes.length === 0, `mistakes: ${mistakes.join()}`);
      if (mistakes.length > 0) assert.equal(at(response, 'status', 'code'), 422);
      return undefined;
    },
  };

  return {
    complete: (request) => first(request).pod,
    check(path, request, answer) {
      const response = responseOf(answer, request);
      const check = checks[path];
      assert.ok(check, path);
      return check(request, response);
    },
  };
}

/** The response inside an AdmissionReview, which must be one. */
function responseOf({ status, body }: Response, request: JsonObject): JsonObject {
  assert.equal(status, 200, body.slice(0, 500));
  const review = JSON.parse(body) as unknown;
  assert.deepEqual(
    [at(review, 'kind'), at(review, 'apiVersion'), at(review, 'response', 'uid')],
    ['AdmissionReview', 'admission.k8s.io/v1', request['uid']],
  );
  const response = at(review, 'response');
  assert.ok(isObject(response));
  assert.equal(typeof response['allowed'], 'boolean');
  assert.equal(at(response, 'status') === undefined, response['allowed'], 'a refusal says why, nothing else does');
  assert.ok(listAt(response, 'warnings').every((warning) => typeof warning === 'string'));
  return response;
}

function checkVerdict({ allowed, why }: SccVerdict, response: JsonObject): void {
  const message = textAt(response, 'status', 'message').slice(0, 500);
  assert.equal(response['allowed'], allowed, `the oracle says: ${why}; the server says: ${message}`);
}

function checkPodSecurity(request: JsonObject, verdict: PodSecurityVerdict, response: JsonObject): void {
  const message = textAt(response, 'status', 'message');
  const told = `the oracle says: ${JSON.stringify(verdict)}; the server says: ${JSON.stringify(response).slice(0, 800)}`;
  assert.equal(response['allowed'], verdict.allowed, told);
  assert.equal(at(response, 'status', 'code'), verdict.code, told);
  assert.equal(response['patch'], undefined, 'a validating webhook changes nothing');
  if (textAt(request, 'resource', 'resource') === 'namespaces') return;
  for (const reason of verdict.enforce ?? []) assert.ok(message.includes(reason), `${reason} in ${message}`);
  const isAudited = mapAt(response, 'auditAnnotations').has('audit-violations');
  assert.equal(isAudited, (verdict.audit ?? []).length > 0, `audit: ${told}`);
  const isWarned = listAt(response, 'warnings').some((warning) => String(warning).startsWith('would violate PodSec'));
  assert.equal(isWarned, (verdict.warn ?? []).length > 0, `warn: ${told}`);
}

/** The object as the patch of an answer leaves it. */
function patchedBy(response: JsonObject, object: unknown): unknown {
  const { patch } = response;
  if (patch === undefined) return object;
  assert.ok(typeof patch === 'string');
  assert.equal(response['patchType'], 'JSONPatch');
  const operations = JSON.parse(Buffer.from(patch, 'base64').toString()) as unknown;
  assert.ok(Array.isArray(operations) && operations.length > 0);
  return applyPatch(object, operations);
}

function writtenScc(request: JsonObject): unknown {
  const isScc =
    textAt(request, 'resource', 'group') === 'security.openshift.io' &&
    textAt(request, 'resource', 'resource') === 'securitycontextconstraints';
  if (!isScc || textAt(request, 'subResource') !== '') return undefined;
  return request['operation'] === 'CREATE' || request['operation'] === 'UPDATE' ? (request['object'] ?? {}) : undefined;
}
