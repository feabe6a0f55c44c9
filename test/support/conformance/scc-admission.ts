/** The conformance areas of SCC admission, which cover requests, reviews and the scope of admission. */
import assert from 'node:assert/strict';
import type { Operation } from '../../../src/kube/admission.ts';
import { POD_SCC_ANNOTATIONS, SECCOMP_POD_ANNOTATION, type SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { isObject, type JsonObject, type Namespace } from '../../../src/kube/types.ts';
import { matchesRule } from '../../../src/kube/webhook-rules.ts';
import {
  answerReview,
  assignScc,
  completePod,
  createMayUse,
  createSccSet,
  DEFAULT_EXEMPT_NAMESPACES,
  findCandidates,
  findSubjectType,
  formatErrors,
  isIgnoredUpdate,
  podSubjects,
  prepareScc,
  readNamespaceRanges,
  readRequest,
  type SccDecision,
  type SccInput,
  sccMode,
  validateScc,
  writePod,
} from '../../../src/policy/scc/index.ts';
import { CONNECT_PODS } from '../../../src/server/webhooks/pods-connect.ts';
import { accessBy, decodePodFields, type Grant, laxScc } from '../scc.ts';
import { type Area, area } from './cases.ts';

interface User {
  readonly name: string;
  readonly groups: readonly string[];
}

interface CaseGrant {
  readonly user?: string;
  readonly group?: string;
  readonly namespace?: string;
  readonly scc?: string;
}

interface ApplicableInput {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly user: User;
  readonly namespace: string;
  readonly grants: readonly CaseGrant[];
}

interface SubjectTypeInput {
  readonly scc: SecurityContextConstraints;
  readonly user: User;
  readonly namespace: string;
  readonly serviceAccountName: string;
  readonly grants: readonly CaseGrant[];
}

interface CandidatesInput {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly requiredScc: string;
  readonly recordedScc: string;
  readonly mutationAllowed: boolean;
}

interface RequestInput {
  readonly operation?: Operation;
  readonly subresource?: string;
  readonly pod: JsonObject;
  readonly oldPod?: JsonObject | null;
  readonly namespace?: Namespace;
  readonly sccs?: readonly SecurityContextConstraints[];
  readonly sccsFrom?: string;
  readonly user?: User;
  readonly grants?: readonly CaseGrant[];
}

interface AdmitExpect extends JsonObject {
  readonly allowed: boolean;
  readonly message?: string;
  readonly messageContains?: string;
  readonly messageNotContains?: string;
  readonly validateAllowed?: boolean;
}

interface AssignExpect {
  readonly valid: boolean;
  readonly errors?: readonly string[];
  readonly pod?: unknown;
}

type Annotations = Readonly<Record<string, string>>;

/** Compares pod requests and the steps of their admission. `standard` is OpenShift's list of SCCs. */
export function admissionAreas(standard: readonly SecurityContextConstraints[]): Readonly<Record<string, Area>> {
  const buildRequest = (input: RequestInput): SccInput => ({
    operation: input.operation ?? 'CREATE',
    subResource: input.subresource,
    object: input.pod,
    oldObject: input.oldPod ?? undefined,
    namespace: input.namespace ?? {},
    userInfo: { username: input.user?.name ?? '', groups: input.user?.groups ?? [] },
    sccs: input.sccsFrom === undefined ? withRequired(input.sccs ?? []) : standard,
    access: accessBy((input.grants ?? []).map(buildGrant)),
    compatibility: 'openshift',
  });
  return {
    'access.findApplicable': area((input: ApplicableInput, expect: { readonly names: readonly string[] }) => {
      const mayUse = createMayUse(accessBy(input.grants.map(buildGrant)), input.namespace);
      const subject = { username: input.user.name, groups: input.user.groups };
      const usable = input.sccs.map(prepareScc).filter((scc) => mayUse(subject, scc));
      assert.deepEqual({ names: usable.map(({ name }) => name) }, expect);
    }),
    'access.subjectType': area((input: SubjectTypeInput, { type }: { readonly type: string }) => {
      const subjects = podSubjects({
        userInfo: { username: input.user.name, groups: input.user.groups },
        serviceAccountName: input.serviceAccountName,
        namespaceName: input.namespace,
        compatibility: 'openshift',
      });
      const mayUse = createMayUse(accessBy(input.grants.map(buildGrant)), input.namespace);
      assert.equal(findSubjectType(prepareScc(input.scc), { subjects, mayUse }) ?? 'none', type);
    }),
    'provider.assign': area(
      ({ scc, pod }: { readonly scc: unknown; readonly pod: JsonObject }, expect: AssignExpect) => {
        const prepared = prepareScc(scc);
        const namespace = readNamespaceRanges({});
        const attempt = completePod(prepared, { namespace, pod: decodePodFields(pod) });
        assert.deepEqual(formatErrors(prepared.name, attempt.errors), expect.errors ?? []);
        if (expect.valid) assert.deepEqual(withoutEmptyAnnotations(writePod(attempt, {})), expect.pod);
      },
    ),
    'admission.ignore': area((input: RequestInput, expect: { readonly ignored: boolean }) =>
      assert.equal(readRequest(buildRequest(input)).verdict === 'ignore', expect.ignored),
    ),
    'admission.ignoreMetadata': area(
      (
        input: { readonly newMetadata: unknown; readonly oldMetadata: unknown },
        expect: { readonly ignored: boolean },
      ) =>
        assert.equal(isIgnoredUpdate({ metadata: input.newMetadata }, { metadata: input.oldMetadata }), expect.ignored),
    ),
    'admission.candidates': area((input: CandidatesInput, expect: JsonObject) => {
      const candidates = findCandidates(createSccSet(input.sccs), {
        requiredScc: input.requiredScc,
        // The mutating pass ignores the SCC that the pod records.
        recordedScc: input.mutationAllowed ? '' : input.recordedScc,
        preferUserNamespaces: false,
      });
      const found = 'error' in candidates ? candidates : { names: candidates.sccs.map(({ name }) => name) };
      assert.deepEqual(found, expect);
    }),
    'admission.admit': area((input: RequestInput, expect: AdmitExpect) => {
      const request = buildRequest(input);
      const decision = assignScc(request);
      checkMessage(denialMessage(decision, input.pod), expect);
      const pod = (decision.allowed ? decision.object : input.pod) as JsonObject;
      if (decision.allowed) checkPod(pod, expect);
      if (expect.validateAllowed === undefined) return;
      assert.equal(validateScc({ ...request, object: pod }).allowed, expect.validateAllowed, 'the second pass');
    }),
    'admission.validate': area((input: RequestInput, expect: AdmitExpect) => {
      const decision = validateScc(buildRequest(input));
      assert.equal(denialMessage(decision, input.pod), expect.message);
      assert.equal(decision.allowed, expect.allowed);
    }),
    'admission.audit': area((input: RequestInput, { annotations }: { readonly annotations: Annotations }) =>
      assert.deepEqual(assignScc(buildRequest(input)).auditAnnotations, withoutPrefixes(annotations)),
    ),
  };
}

/** Returns the audit annotations with the keys of a webhook, which have no prefix. */
export function withoutPrefixes(annotations: Annotations = {}): Annotations {
  return Object.fromEntries(
    Object.entries(annotations).map(([key, value]) => [key.slice(key.indexOf('/') + 1), value]),
  );
}

/** Returns a denial message with the prefix of the API server. */
export function denialMessage(decision: SccDecision, pod: JsonObject): string | undefined {
  if (decision.allowed) return undefined;
  const { name, generateName } = pod['metadata'] as Annotations;
  return `pods "${name ?? generateName ?? 'Unknown'}" is forbidden: ${decision.status.message}`;
}

function checkMessage(message: string | undefined, expect: AdmitExpect): void {
  assert.equal(message === undefined, expect.allowed, message);
  if (message === undefined) return;
  if (expect.message !== undefined) assert.equal(message, expect.message);
  assert.ok(message.includes(expect.messageContains ?? ''), message);
  if (expect.messageNotContains !== undefined) assert.ok(!message.includes(expect.messageNotContains), message);
}

/** Compares the parts of the pod that the case lists. */
function checkPod(pod: JsonObject, expect: AdmitExpect): void {
  const spec = pod['spec'] as Readonly<Record<string, readonly { readonly securityContext?: JsonObject }[]>>;
  const { annotations = {} } = pod['metadata'] as { readonly annotations?: JsonObject };
  const contextsIn = (...lists: string[]): (JsonObject | undefined)[] =>
    lists.flatMap((list) => spec[list] ?? []).map(({ securityContext }) => securityContext);
  const all = contextsIn('initContainers', 'containers', 'ephemeralContainers');
  const parts = {
    pod,
    scc: annotations[POD_SCC_ANNOTATIONS.scc],
    subjectType: annotations[POD_SCC_ANNOTATIONS.subjectType],
    podSeccompAnnotation: annotations[SECCOMP_POD_ANNOTATION] ?? null,
    podSecurityContext: spec['securityContext'],
    containerSecurityContexts: all,
    containerCapabilities: all.map((context) => context?.['capabilities']),
    ephemeralContainerSecurityContexts: contextsIn('ephemeralContainers'),
  };
  for (const [part, value] of Object.entries(parts)) {
    if (expect[part] !== undefined) assert.deepEqual(value, expect[part], part);
  }
}

const REQUIRED = [
  ...['anyuid', 'hostaccess', 'hostmount-anyuid', 'hostnetwork', 'hostnetwork-v2', 'nonroot', 'nonroot-v2'],
  ...['privileged', 'restricted', 'restricted-v2'],
];

/** Adds the SCCs that OpenShift requires to evaluate pods. No user may use these SCCs. */
function withRequired(sccs: readonly SecurityContextConstraints[]): readonly SecurityContextConstraints[] {
  const names = new Set(sccs.map(({ metadata }) => metadata?.name));
  return [...sccs, ...REQUIRED.filter((name) => !names.has(name)).map((name) => laxScc({ name }))];
}

function buildGrant({ scc, ...grant }: CaseGrant): Grant {
  return { ...grant, sccs: [scc ?? '*'] };
}

function withoutEmptyAnnotations(pod: JsonObject): JsonObject {
  const { annotations, ...metadata } = pod['metadata'] as { readonly annotations: object };
  return Object.keys(annotations).length === 0 ? { ...pod, metadata } : pod;
}

interface ReviewCase {
  readonly kind: string;
  readonly namespace: Namespace;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly spec: JsonObject;
  readonly requester?: { readonly name: string; readonly groups: readonly string[] };
  readonly serviceAccounts?: readonly string[];
}

interface ReviewExpect {
  readonly allowedBy?: string | null;
  readonly templateFilled?: boolean;
  readonly reason?: string;
  readonly allowedServiceAccounts?: readonly { readonly name: string; readonly allowedBy: string }[];
  readonly error?: string;
}

/** Compares the review APIs. The only grants in the cases are the users and groups of SCCs. */
export const REVIEW_AREAS: Readonly<Record<string, Area>> = {
  subjectReview: area((input: ReviewCase, expect: ReviewExpect) => {
    const answer = answerReview({
      review: { kind: input.kind, spec: input.spec },
      namespace: input.namespace,
      sccs: input.sccs,
      userInfo: { username: input.requester?.name ?? '', groups: input.requester?.groups ?? [] },
      hasServiceAccount: (name) => input.serviceAccounts?.includes(name) ?? false,
      access: accessBy([]),
      compatibility: 'openshift',
    });
    if ('error' in answer) {
      assert.equal(answer.error.message, expect.error);
      return;
    }
    assert.equal(expect.error, undefined);
    const { allowedBy, template, reason, allowedServiceAccounts } = answer.status;
    if (expect.allowedBy !== undefined) assert.equal(nameIn(allowedBy), expect.allowedBy);
    if (expect.templateFilled !== undefined) assert.equal(template !== undefined, expect.templateFilled);
    if (expect.reason !== undefined) assert.equal(reason, expect.reason);
    if (expect.allowedServiceAccounts === undefined) return;
    assert.ok(Array.isArray(allowedServiceAccounts));
    assert.deepEqual(
      allowedServiceAccounts
        .filter(isObject)
        .map((one) => ({ name: one['name'], allowedBy: nameIn(one['allowedBy']) })),
      expect.allowedServiceAccounts,
    );
  }),
};

function nameIn(reference: unknown): unknown {
  return isObject(reference) ? reference['name'] : null;
}

interface NamespaceInput {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
}

interface ExecInput {
  readonly operation: Operation;
  readonly resource: string;
  readonly subresource: string;
}

export const SCOPE_AREAS: Readonly<Record<string, Area>> = {
  'admission.namespaceSkip': area<NamespaceInput, { readonly skipped: boolean }>(
    ({ namespace: name, labels }, { skipped }) => {
      // These namespaces are exempt only on OpenShift.
      const openshift = ['default', 'openshift', 'openshift-infra', 'openshift-node'];
      const exemptNamespaces = [...DEFAULT_EXEMPT_NAMESPACES, ...openshift];
      const { mode } = sccMode({ metadata: { name, labels } }, { mode: 'enforce', exemptNamespaces });
      assert.equal(mode, skipped ? 'off' : 'enforce');
    },
  ),
  'admission.execScope': area<ExecInput, { readonly evaluated: boolean }>(
    ({ operation, resource, subresource: subResource }, { evaluated }) => {
      const target = { operation, namespace: 'any', subresource: subResource };
      const sent = CONNECT_PODS.rules.some(({ rule }) =>
        matchesRule(rule, target, { group: '', version: 'v1', resource }),
      );
      assert.equal(sent, evaluated);
    },
  ),
};
