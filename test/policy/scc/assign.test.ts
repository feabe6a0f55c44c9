/**
 * Tests decisions of both passes, decisions in report mode, and decisions with an authorizer that checks one access
 * request at a time.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parseAllDocuments } from 'yaml';
import { createStatus } from '../../../src/kube/status.ts';
import type { JsonObject, UserInfo } from '../../../src/kube/types.ts';
import {
  type AccessQuestion,
  accessQuestionKey,
  type SccAccess,
  createKnownAccess,
} from '../../../src/policy/scc/access.ts';
import { assignScc, reportScc, validateScc } from '../../../src/policy/scc/assign.ts';
import type { SccDecision } from '../../../src/policy/scc/index.ts';
import type { Grant } from '../../support/scc.ts';
import {
  ADMIN,
  ALICE,
  createRequest,
  decisionAnnotations,
  denialMessage,
  podWith,
  readCases,
  REPLICA_SETS,
  request,
  type RequestFixture,
} from './requests.ts';

suite('SCC admission sets the fields of a pod:', () => {
  const builder: Grant = { user: 'system:serviceaccount:demo:builder', sccs: ['nested-container'] };
  const fixtures: readonly (readonly [name: string, userInfo: UserInfo, grants: readonly Grant[]])[] = [
    ['restricted-v2', REPLICA_SETS, []],
    ['restricted-v3', REPLICA_SETS, []],
    ['anyuid', ADMIN, []],
    ['nested-container', REPLICA_SETS, [builder]],
  ];
  for (const [name, userInfo, grants] of fixtures) {
    test(name, () => {
      const text = readFileSync(new URL(`../../fixtures/scc/${name}.yaml`, import.meta.url), 'utf8');
      const [before, after] = parseAllDocuments(text).map((document) => document.toJS() as JsonObject);
      const decision = assignScc(request({ object: before, userInfo, grants }));
      assert.deepEqual(decision.allowed ? decision.object : denialMessage(decision), after);
      assert.deepEqual(validateScc(request({ object: after, userInfo, grants })), {
        allowed: true,
        warnings: [],
        auditAnnotations: { chosen: name },
        facts: decision.facts,
      });
    });
  }
});

interface DecisionCase extends RequestFixture {
  readonly name: string;
  /** The pass of SCC admission. Default: `assign`. */
  readonly pass?: keyof typeof PASSES;
  readonly scc?: string;
  readonly subjectType?: string;
  readonly ignored?: boolean;
  readonly denied?: boolean;
  readonly message?: string;
  readonly errors?: readonly (string | readonly string[])[];
  readonly audit?: JsonObject;
  /** The complete expected warnings. */
  readonly warnings?: readonly string[];
}

const PASSES = { assign: [assignScc], validate: [validateScc], both: [assignScc, validateScc] };
const SUBJECT_TYPE = 'security.openshift.io/validated-scc-subject-type';
const UNABLE = 'unable to validate against any security context constraint: ';

suite('each pass of SCC admission decides as in decisions.yaml:', () => {
  for (const { name, pass = 'assign', ...given } of readCases<{ cases: readonly DecisionCase[] }>('decisions.yaml')
    .cases) {
    const { scc, subjectType, ignored, denied, errors, audit, ...rest } = given;
    const { message = errors && `${UNABLE}[${errors.flat().join(', ')}]`, ...fixture } = rest;
    test(name, () => {
      const input = createRequest(fixture);
      for (const decide of PASSES[pass]) {
        const decision = decide(input);
        if (scc !== undefined) assert.equal(decisionAnnotations(decision)?.['openshift.io/scc'], scc);
        if (subjectType !== undefined) assert.equal(decisionAnnotations(decision)?.[SUBJECT_TYPE], subjectType);
        if (denied === true) assert.equal(decision.allowed, false);
        if (message !== undefined) {
          assert.equal(denialMessage(decision), message);
          assert.ok(!decision.allowed && decision.status.code === 403 && decision.status.reason === 'Forbidden');
        }
        if (audit !== undefined) assert.deepEqual(decision.auditAnnotations, audit);
      }
      if (ignored !== true) return;
      const passed = { allowed: true, warnings: [], auditAnnotations: {} };
      assert.deepEqual(assignScc(input), { ...passed, object: input.object });
      assert.deepEqual(validateScc(input), passed);
    });
  }
});

suite('each pass of SCC admission warns as in warnings.yaml:', () => {
  const { denied, admitted } = readCases<Record<'denied' | 'admitted', readonly DecisionCase[]>>('warnings.yaml');
  const cases = [
    ...denied.map((one) => ({ ...one, allowed: false })),
    ...admitted.map((one) => ({ ...one, allowed: true })),
  ];
  for (const { name, pass = 'assign', allowed, warnings, ...fixture } of cases) {
    test(name, () => {
      const input = createRequest(fixture);
      for (const decide of PASSES[pass]) {
        const decision = decide(input);
        assert.equal(decision.allowed, allowed);
        assert.deepEqual(decision.warnings, warnings);
        assert.deepEqual(decide({ ...input, compatibility: 'openshift' }).warnings, []);
      }
    });
  }
});

test('SCC admission defaults a debug container in an update of the ephemeralcontainers subresource', () => {
  const debug = { name: 'debug', image: 'tools:1' };
  const pod = { admitted: true, spec: { ephemeralContainers: [debug] } };
  const input = createRequest({
    operation: 'UPDATE',
    subResource: 'ephemeralcontainers',
    pod,
    oldPod: { admitted: true },
  });
  const decision = assignScc(input);
  assert.ok(decision.allowed, denialMessage(decision));
  const securityContext = {
    runAsUser: 1_000_660_000,
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
  };
  const { spec } = decision.object as { readonly spec: JsonObject };
  assert.deepEqual(spec['ephemeralContainers'], [{ ...debug, securityContext }]);
  assert.deepEqual(decision.auditAnnotations, { chosen: 'restricted-v2' });
});

test('the authorizer receives the service account with its groups, and the user with all attributes', () => {
  const asked: unknown[] = [];
  const extra = { 'example.com/team': ['a'] };
  assignScc(
    request({
      userInfo: { ...ALICE, uid: '7', extra },
      sccs: request({}).sccs.slice(0, 1),
      access: {
        canUse: (subject, sccName, namespaceName) => {
          asked.push([subject, sccName, namespaceName]);
          return false;
        },
      },
    }),
  );
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:demo', 'system:authenticated'];
  assert.deepEqual(asked, [
    [{ username: 'system:serviceaccount:demo:default', groups }, 'anyuid', 'demo'],
    [{ username: 'alice', groups: ['system:authenticated'], uid: '7', extra }, 'anyuid', 'demo'],
  ]);
});

const PREFIX = 'would be denied if security context constraints were enforced: ';

type Details = Partial<Pick<SccDecision, 'warnings' | 'auditAnnotations'>>;

suite('in report mode, a denial becomes a warning that contains', () => {
  const many = Array.from({ length: 40 }, (_, index) => `e${index}`).join(',');
  const long = `${UNABLE}[${many},${many}]`;
  const one = `${UNABLE}provider v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]`;
  const summary = { warnings: ['summary'] };
  const restrictive = { 'too-restrictive-b': 'errors of b', 'too-restrictive-a': 'errors of a', denied: 'x' };
  const cut = (message: string): string => `${(PREFIX + message).slice(0, 255)}…`;
  const cases: readonly (readonly [name: string, message: string, details: Details, warnings: readonly string[]])[] = [
    ['a short message', 'no SCC', {}, [`${PREFIX}no SCC`]],
    ['all errors if there are few', `${UNABLE}[a, b]`, {}, [`${PREFIX}${UNABLE}[a, b]`]],
    ['errors in abbreviated form', `${UNABLE}[a, b]`, summary, [PREFIX + UNABLE.slice(0, -2), 'summary']],
    ['a single error with a list', one, summary, [PREFIX + one, 'summary']],
    [
      'a single error that is too long in abbreviated form',
      one.replace('v2', 'x'.repeat(100)),
      summary,
      [PREFIX + UNABLE.slice(0, -2), 'summary'],
    ],
    [
      'only the errors of the first usable SCC if there are too many',
      long,
      { auditAnnotations: restrictive },
      [`${PREFIX}errors of b`],
    ],
    [
      'the beginning of the errors if there are too many and no SCC is usable',
      long,
      { auditAnnotations: { denied: 'x' } },
      [cut(long)],
    ],
    ['the beginning of a long message if there are no errors', 'x'.repeat(300), {}, [cut('x'.repeat(300))]],
  ];
  for (const [name, message, details, warnings] of cases) {
    test(name, () => {
      const status = createStatus(403, 'Forbidden', message);
      const report = reportScc(
        { allowed: false, status, warnings: [], auditAnnotations: {}, ...details },
        'portcullis',
      );
      assert.ok(warnings.every((warning) => warning.length <= 256));
      assert.deepEqual(report, {
        allowed: true,
        warnings,
        facts: { mode: 'report', verdict: 'deny', reason: message },
        auditAnnotations: { ...details.auditAnnotations, mode: 'report' },
      });
    });
  }
});

test('in report mode, an admitted pod does not change', () => {
  const facts = { scc: 'anyuid', subjectType: 'user' };
  const object = { kind: 'Pod' };
  assert.deepEqual(
    reportScc({ allowed: true, object, warnings: ['mind'], auditAnnotations: { denied: '' }, facts }, 'portcullis'),
    {
      allowed: true,
      warnings: ['mind'],
      auditAnnotations: { denied: '', mode: 'report' },
      facts: { ...facts, mode: 'report' },
    },
  );
});

/** Answers access questions until the decision needs no further answer. */
function settle(decide: (canUse: SccAccess) => SccDecision, answer: (question: AccessQuestion) => boolean) {
  const answers = new Map<string, boolean>();
  for (let count = 0; ; count++) {
    const { access, openQuestions } = createKnownAccess(answers);
    const decision = decide(access);
    const questions = openQuestions(decision);
    if (questions.length === 0) return { decision, count };
    for (const question of questions) {
      assert.ok(!answers.has(accessQuestionKey(question)), 'a question is repeated');
      answers.set(accessQuestionKey(question), answer(question));
    }
  }
}

suite('createKnownAccess', () => {
  test('uses all fields of a question as the key of its answer', () => {
    const question: AccessQuestion = {
      subject: { username: 'a', groups: ['b'] },
      sccName: 'anyuid',
      namespaceName: 'shop',
    };
    const others: readonly AccessQuestion[] = [
      { ...question, subject: { username: 'a', groups: ['b', 'c'] } },
      { ...question, subject: { username: 'a', groups: ['b'], uid: '1' } },
      { ...question, subject: { username: 'a', groups: ['b'], extra: { k: ['v'] } } },
      { ...question, sccName: 'privileged' },
      { ...question, namespaceName: 'other' },
    ];
    assert.equal(accessQuestionKey(question), accessQuestionKey(structuredClone(question)));
    assert.equal(new Set([question, ...others].map(accessQuestionKey)).size, 6);
  });

  test('collects no questions for a decision that does not depend on access', () => {
    const { decision, count } = settle(
      (canUse) => assignScc(request({ object: 7, access: canUse })),
      () => true,
    );
    assert.deepEqual([decision.allowed, count], [false, 0]);
  });

  test('leads to the same decision as answers to all questions in advance', () => {
    const spec = fc.record({
      securityContext: fc.record({ runAsUser: fc.constantFrom(undefined, 0, 1000, 70_000) }),
      hostUsers: fc.constantFrom(undefined, false),
      serviceAccountName: fc.constantFrom(undefined, 'web'),
      hostNetwork: fc.boolean(),
      containers: fc.record({ privileged: fc.boolean() }).map((securityContext) => [{ name: 'c', securityContext }]),
    });
    const rights = fc.array(fc.boolean(), { minLength: 26, maxLength: 26 });
    fc.assert(
      fc.property(spec, rights, fc.constantFrom(assignScc, validateScc), (fields, allowed, pass) => {
        const object = JSON.parse(JSON.stringify(podWith(fields))) as object;
        const input = request({ object, userInfo: ALICE });
        const answer = ({ subject, sccName }: Pick<AccessQuestion, 'subject' | 'sccName'>): boolean => {
          const index = input.sccs.findIndex(({ metadata }) => metadata?.name === sccName);
          return allowed[index * 2 + Number(subject.username === 'alice')] ?? false;
        };
        const decide = (access: SccAccess): SccDecision => pass({ ...input, access });
        const expected = decide({ canUse: (subject, sccName) => answer({ subject, sccName }) });
        const { decision } = settle(decide, answer);
        if (!expected.allowed || !decision.allowed) assert.deepEqual(decision, expected);
        else {
          assert.deepEqual([decision.facts, decision.object], [expected.facts, expected.object]);
          assert.deepEqual(decision.warnings, expected.warnings);
        }
      }),
      { numRuns: 300 },
    );
  });
});
