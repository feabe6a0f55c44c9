/** Compares responses of the server with the oracle, and throws if they differ. */
import assert from 'node:assert/strict';
import { applyPatch, type Operation } from 'rfc6902';
import type { PodSecurityException } from '../../src/kube/pod-security-exception.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import type { Response } from '../support/https.ts';
import { at, copy, isObject, type JsonObject, listAt, mapAt, textAt } from '../support/oracle/json.ts';
import { hasNullItem, isUndecodable } from '../support/oracle/object-schema.ts';
import { evaluatePodSecurity, type PodSecurityVerdict } from '../support/oracle/pod-security-admission.ts';
import {
  evaluateExec,
  firstPass,
  type SccEnvironment,
  sccMode,
  type SccVerdict,
  secondPass,
} from '../support/oracle/scc-admission.ts';
import { computeDefaults, decodesAsScc, findViolations } from '../support/oracle/scc-objects.ts';
import { serviceAccountSubject } from '../support/oracle/scc-order.ts';
import type { Stored } from './server.ts';
import { createAuthorizer, type World } from './world.ts';

export interface Judge {
  /** Returns the expected pod after the first pass, or `undefined` if it is denied or unchanged. */
  complete(request: JsonObject): JsonObject | undefined;
  /** Checks the response of a path to a request. Returns the patched object. */
  check(path: string, request: JsonObject, answer: Response): JsonObject | undefined;
}

/** The exempt namespaces in the server flags. */
const EXEMPT = ['kube-system'];

const NULL_OBJECT = ': Invalid value: null: must be an object';

export function createJudge(world: World, { namespaces, sccs, pods }: Stored): Judge {
  const authorizer = createAuthorizer(world);
  const getSurroundings = (request: JsonObject): SccEnvironment => ({
    sccs,
    namespace: namespaces.get(textAt(request, 'namespace')),
    authorizer,
  });
  /** A missing namespace has enforce mode unless its name is exempt. */
  const getMode = (request: JsonObject): string => {
    const name = textAt(request, 'namespace');
    const namespace = namespaces.get(name) ?? { metadata: { name } };
    return sccMode(namespace, { exempt: EXEMPT, mode: 'enforce' });
  };
  const inMode = (request: JsonObject, judge: () => SccVerdict): SccVerdict => {
    const mode = getMode(request);
    return mode === 'enforce' ? judge() : { allowed: true, why: `mode ${mode}` };
  };
  const first = (request: JsonObject): SccVerdict =>
    inMode(request, () => firstPass(request, getSurroundings(request)));

  /**
   * As on OpenShift, the template gets the spec of a pod with the same service account. Its annotations do not change.
   */
  const completeTemplate = (template: JsonObject, request: JsonObject): JsonObject => {
    const serviceAccountName = textAt(template, 'spec', 'serviceAccountName') || 'default';
    const spec = { ...(at(template, 'spec') as JsonObject | undefined), serviceAccountName };
    const pod = { ...template, kind: 'Pod', spec };
    const userInfo = serviceAccountSubject(pod, textAt(request, 'namespace'));
    const resource = { group: '', resource: 'pods' };
    const verdict = first({ ...request, operation: 'CREATE', resource, subResource: '', object: pod, userInfo });
    return verdict.pod ? { ...template, spec: verdict.pod['spec'] } : template;
  };

  type Check = (request: JsonObject, response: JsonObject) => JsonObject | undefined;
  const checkPolicy: Check = (request, response) => {
    const findLabels = (name: string) => {
      const namespace = namespaces.get(name);
      return namespace && mapAt(namespace, 'metadata', 'labels');
    };
    // SCC admission denies pods with null in a list of objects, and does not default such templates.
    const isDeniedLater = listAt(response, 'warnings').some((one) => String(one).endsWith(NULL_OBJECT));
    const isIncomplete = isDeniedLater && hasNullItem(request['object']);
    const complete = isIncomplete ? (template: JsonObject) => template : completeTemplate;
    const verdict = evaluatePodSecurity(request, findLabels, complete);
    const isDenied = response['allowed'] === false || mapAt(response, 'auditAnnotations').has('error');
    // No API server sends such an object, so any denial is correct, and a workload may be skipped.
    if (isDenied && isUndecodable(request)) return undefined;
    const exceptions = exceptionsFor(world.approved, request);
    if (verdict.code === 403 && exceptions.length > 0 && response['allowed'] === true) {
      checkExcepted(verdict.enforce ?? [], exceptions, response);
      return undefined;
    }
    checkPodSecurity(request, verdict, response, exceptions);
    return undefined;
  };

  const checks: Readonly<Record<string, Check>> = {
    '/validate/namespaces': checkPolicy,
    '/validate/workloads': checkPolicy,
    '/validate/pods': (request, response) => {
      const verdict = inMode(request, () => secondPass(request, getSurroundings(request)));
      if (response['allowed'] === false && isUndecodable(request)) return undefined;
      if (verdict.allowed) return checkPolicy(request, response);
      checkVerdict(verdict, response);
      // Pod Security may allow the pod.
      const isDeniedTwice = textAt(response, 'status', 'message').includes('violates PodSecurity');
      return checkPolicy(request, isDeniedTwice ? response : { ...response, allowed: true, status: undefined });
    },
    '/mutate/pods': (request, response) => {
      const verdict = first(request);
      if (response['allowed'] === false && isUndecodable(request)) return undefined;
      checkVerdict(verdict, response);
      if (!verdict.allowed) return undefined;
      const patched = applyResponsePatch(response, request['object']);
      assert.deepEqual(patched, verdict.pod ?? request['object'], `the patched pod: ${verdict.why}`);
      return isObject(patched) ? patched : undefined;
    },
    '/connect/pods': (request, response) => {
      const pod = textAt(request, 'name') === 'stored' ? pods.get(textAt(request, 'namespace')) : undefined;
      checkVerdict(
        inMode(request, () => evaluateExec(request, pod, getSurroundings(request))),
        response,
      );
      assert.equal(response['patch'], undefined, 'a validating webhook returns a patch');
      return undefined;
    },
    '/mutate/objects': (request, response) => {
      if (request['object'] == null) {
        assert.deepEqual([response['allowed'], response['patch']], [true, undefined]);
        return undefined;
      }
      const object = getWrittenScc(request);
      if (response['allowed'] === false && hasNullItem(object)) return undefined;
      if (object === undefined || !decodesAsScc(object)) {
        assert.equal(response['allowed'], object === undefined, 'an SCC with fields of the wrong type');
        return undefined;
      }
      assert.equal(response['allowed'], true);
      const patched = applyResponsePatch(response, request['object']);
      assert.ok(isObject(patched));
      assert.deepEqual(patched, computeDefaults(object));
      return patched;
    },
    '/validate/objects': (request, response) => {
      const object = getWrittenScc(request);
      if (response['allowed'] === false && hasNullItem(object)) return undefined;
      const mistakes = object === undefined ? [] : decodesAsScc(object) ? findViolations(object) : ['types'];
      assert.equal(response['allowed'], mistakes.length === 0, `mistakes: ${mistakes.join()}`);
      if (mistakes.length > 0) assert.equal(at(response, 'status', 'code'), 422);
      return undefined;
    },
  };

  return {
    complete: (request) => first(request).pod,
    check(path, request, answer) {
      const response = parseResponse(answer, request);
      const check = checks[path];
      assert.ok(check, path);
      if (isRegistered(path, request)) return check(request, response);
      assert.deepEqual(
        [response['allowed'], response['patch']],
        [true, undefined],
        'no registration selects the request',
      );
      return undefined;
    },
  };
}

/** True if API servers send the request to the path. */
function isRegistered(path: string, request: JsonObject): boolean {
  const [group, resource] = [textAt(request, 'resource', 'group'), textAt(request, 'resource', 'resource')];
  const subresource = textAt(request, 'subResource');
  const name = subresource === '' ? resource : `${resource}/${subresource}`;
  return WEBHOOK_REGISTRATIONS.some(
    (one) =>
      one.path === path &&
      one.rules.some(
        ({ rule: { apiGroups = [], operations = [], resources = [] } }) =>
          apiGroups.includes(group) && operations.includes(textAt(request, 'operation')) && resources.includes(name),
      ),
  );
}

function parseResponse({ status, body }: Response, request: JsonObject): JsonObject {
  assert.equal(status, 200, body.slice(0, 500));
  const review = JSON.parse(body) as unknown;
  assert.deepEqual(
    [at(review, 'kind'), at(review, 'apiVersion'), at(review, 'response', 'uid')],
    ['AdmissionReview', 'admission.k8s.io/v1', request['uid']],
  );
  const response = at(review, 'response');
  assert.ok(isObject(response));
  assert.equal(typeof response['allowed'], 'boolean');
  assert.equal(at(response, 'status') === undefined, response['allowed'], 'only denials have a status');
  assert.ok(listAt(response, 'warnings').every((warning) => typeof warning === 'string'));
  return response;
}

function checkVerdict({ allowed, why }: SccVerdict, response: JsonObject): void {
  const message = textAt(response, 'status', 'message').slice(0, 500);
  assert.equal(response['allowed'], allowed, `oracle: ${why}; server: ${message}`);
}

/** Returns the approved exceptions for the service account of a pod, or of the pods of a workload. */
function exceptionsFor(all: readonly PodSecurityException[], request: JsonObject): readonly PodSecurityException[] {
  const isPod = textAt(request, 'resource', 'resource') === 'pods';
  const account = textAt(request, 'object', 'spec', 'serviceAccountName') || 'default';
  return all.filter(
    ({ metadata, spec }) =>
      metadata?.namespace === request['namespace'] && (!isPod || spec?.serviceAccountName === account),
  );
}

/** For each reason of a violation, the start of the names of its checks. */
const CONTROLS: readonly (readonly [reason: string, check: string])[] = [
  ['allowPrivilegeEscalation != false', 'allowPrivilegeEscalation'],
  ['non-default capabilities', 'capabilities_'],
  ['unrestricted capabilities', 'capabilities_'],
  ['host namespaces', 'hostNamespaces'],
  // At the restricted level, the restrictedVolumes check overrides the hostPathVolumes checks, so an
  // exception for either of them covers the finding.
  ['hostPath volumes', 'hostPathVolumes'],
  ['restricted volume types', 'restrictedVolumes'],
  ['restricted volume types', 'hostPathVolumes'],
  ['hostPort', 'hostPorts'],
  ['probe or lifecycle host', 'hostProbesAndHostLifecycle'],
  ['privileged', 'privileged'],
  ['procMount', 'procMount'],
  ['seLinuxOptions', 'seLinuxOptions'],
  ['seccompProfile', 'seccompProfile_'],
  ['forbidden sysctls', 'sysctls'],
  ['hostProcess', 'windowsHostProcess'],
  ['runAsNonRoot != true', 'runAsNonRoot'],
  ['runAsUser=0', 'runAsUser'],
  ['forbidden AppArmor profile', 'appArmorProfile'],
];

/** Checks that named exceptions of the pod have an entry for each reason of the denial without exceptions. */
function checkExcepted(
  reasons: readonly string[],
  exceptions: readonly PodSecurityException[],
  response: JsonObject,
): void {
  const names = textAt(response, 'auditAnnotations', 'exception').split(', ');
  const used = names.map((name) => exceptions.find(({ metadata }) => metadata?.name === name));
  assert.ok(!used.includes(undefined), `exceptions ${names.join()} of ${JSON.stringify(exceptions)}`);
  const entries = used.flatMap((exception) => exception?.spec?.allow ?? []);
  for (const reason of reasons) {
    const controls = CONTROLS.filter(([start]) => reason.startsWith(start)).map(([, check]) => check);
    const isCovered = entries.some(({ check }) => controls.some((control) => check.startsWith(control)));
    assert.ok(isCovered, `${reason} is not covered by ${JSON.stringify(entries)}`);
  }
}

function checkPodSecurity(
  request: JsonObject,
  verdict: PodSecurityVerdict,
  response: JsonObject,
  exceptions: readonly PodSecurityException[],
): void {
  const message = textAt(response, 'status', 'message');
  const difference = `oracle: ${JSON.stringify(verdict)}; server: ${JSON.stringify(response).slice(0, 800)}`;
  assert.equal(response['allowed'], verdict.allowed, difference);
  assert.equal(at(response, 'status', 'code'), verdict.code, difference);
  assert.equal(response['patch'], undefined, 'a validating webhook returns a patch');
  if (textAt(request, 'resource', 'resource') === 'namespaces') return;
  // Exceptions can cover some of the violations.
  const named = (verdict.enforce ?? []).filter((reason) => message.includes(reason));
  if (exceptions.length === 0) assert.deepEqual(named, verdict.enforce ?? [], message);
  else if (!verdict.allowed) assert.notEqual(named.length, 0, message);
  const isAudited = mapAt(response, 'auditAnnotations').has('audit-violations');
  assert.equal(isAudited, (verdict.audit ?? []).length > 0, `audit: ${difference}`);
  const isWarned = listAt(response, 'warnings').some((warning) => String(warning).startsWith('would violate PodSec'));
  const isTemplate = textAt(request, 'resource', 'resource') !== 'pods';
  if (isTemplate && exceptions.length > 0 && !isWarned) return;
  assert.equal(isWarned, (verdict.warn ?? []).length > 0, `warn: ${difference}`);
}

function applyResponsePatch(response: JsonObject, object: unknown): unknown {
  const { patch } = response;
  if (patch === undefined) return object;
  assert.ok(typeof patch === 'string');
  assert.equal(response['patchType'], 'JSONPatch');
  const operations = JSON.parse(Buffer.from(patch, 'base64').toString()) as Operation[];
  assert.notEqual(operations.length, 0);
  const patched = copy(object);
  for (const error of applyPatch(patched, operations)) assert.ifError(error);
  return patched;
}

function getWrittenScc(request: JsonObject): unknown {
  const isScc =
    textAt(request, 'resource', 'group') === 'security.openshift.io' &&
    textAt(request, 'resource', 'resource') === 'securitycontextconstraints';
  if (!isScc || textAt(request, 'subResource') !== '') return undefined;
  return request['operation'] === 'CREATE' || request['operation'] === 'UPDATE' ? (request['object'] ?? {}) : undefined;
}
