import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type SccInput, assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { decideWithKnownAccess, accessQuestionKey, type AccessQuestion } from '../../../src/policy/scc/access.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import type { CanUse } from '../../../src/policy/scc/access.ts';
import type { SccDecision } from '../../../src/policy/scc/request.ts';
import { namespaceWith } from '../../support/scc.ts';

const INPUT: Omit<SccInput, 'canUse' | 'object'> = {
  operation: 'CREATE',
  namespace: namespaceWith({ 'openshift.io/sa.scc.uid-range': '1000/10', 'openshift.io/sa.scc.mcs': 's0:c1,c0' }),
  userInfo: { username: 'alice', groups: ['system:authenticated'] },
  sccs: STANDARD_SCCS.map(({ scc }) => scc),
};

/** Asks until the decision stands. */
function settle(decide: (canUse: CanUse) => SccDecision, answer: (question: AccessQuestion) => boolean) {
  const answers = new Map<string, boolean>();
  const asked: string[] = [];
  for (;;) {
    const step = decideWithKnownAccess(decide, (question) => answers.get(accessQuestionKey(question)));
    if ('decision' in step) return { decision: step.decision, asked };
    assert.ok(step.questions.length > 0);
    for (const question of step.questions) {
      assert.ok(!answers.has(accessQuestionKey(question)), 'nothing is asked twice');
      answers.set(accessQuestionKey(question), answer(question));
      asked.push(`${question.subject.username} ${question.sccName}`);
    }
  }
}

suite('deciding on what is known', () => {
  test('a question is the same for everybody who asks it, and for nobody else', () => {
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

  test('nothing is asked where nothing depends on it', () => {
    const { decision, asked } = settle(
      (canUse) => assignScc({ ...INPUT, object: 7, canUse }),
      () => true,
    );
    assert.equal(decision.allowed, false);
    assert.deepEqual(asked, []);
  });

  test('whatever the answers: who asks comes to the choice, and to the refusal, of who knows', () => {
    const uid = fc.option(fc.constantFrom(0, 1000, 70_000), { nil: undefined });
    const pod = fc.record({
      uid,
      privileged: fc.boolean(),
      hostUsers: fc.constantFrom(undefined, false),
      serviceAccountName: fc.constantFrom(undefined, 'web'),
      hostNetwork: fc.boolean(),
    });
    const rights = fc.array(fc.boolean(), { minLength: 26, maxLength: 26 });
    fc.assert(
      fc.property(pod, rights, fc.constantFrom(assignScc, validateScc), (asks, allowed, pass) => {
        const { uid: runAsUser, privileged, ...spec } = asks;
        const containers = [{ name: 'c', image: 'i', securityContext: { runAsUser, privileged } }];
        const object = JSON.parse(
          JSON.stringify({ metadata: { name: 'web' }, spec: { ...spec, containers } }),
        ) as object;
        const answer = ({ subject, sccName }: Pick<AccessQuestion, 'subject' | 'sccName'>): boolean => {
          const place = INPUT.sccs.findIndex(({ metadata }) => metadata?.name === sccName);
          return allowed[place * 2 + Number(subject.username === 'alice')] ?? false;
        };
        const decide = (canUse: CanUse): SccDecision => pass({ ...INPUT, object, canUse });
        const knowing = decide((subject, sccName) => answer({ subject, sccName }));
        const asking = settle(decide, answer).decision;
        if (!knowing.allowed || !asking.allowed) assert.deepEqual(asking, knowing);
        else {
          assert.deepEqual([asking.facts, asking.object], [knowing.facts, knowing.object]);
          assert.deepEqual(asking.warnings, knowing.warnings);
        }
      }),
      { numRuns: 300 },
    );
  });
});
