/** Where this program is not like OpenShift unless told to be. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { laxScc } from '../../support/scc.ts';
import { annotationsOf, DEMO, messageOf, podWith, request, STANDARD } from './requests.ts';

const SCC = 'openshift.io/scc';
const SUBJECT = 'security.openshift.io/validated-scc-subject-type';

suite('identity', () => {
  for (const [compatibility, subjectType] of [
    [undefined, 'serviceaccount'],
    [{ identity: 'accurate' }, 'serviceaccount'],
    [{ identity: 'openshift' }, 'user'],
    ['openshift', 'user'],
  ] as const) {
    test(JSON.stringify(compatibility) ?? 'by default', () => {
      const annotations = annotationsOf(assignScc(request({ compatibility })));
      assert.equal(annotations?.[SCC], 'restricted-v2');
      assert.equal(annotations[SUBJECT], subjectType);
    });
  }
});

suite('an SCC that cannot work', () => {
  const broken = laxScc({ name: 'broken', priority: 99, runAsUser: { type: 'MustRunAs' } });
  const sccs = [...STANDARD, broken];
  const error = 'error creating provider for SCC broken in namespace demo: MustRunAs requires a UID';

  test('fits no pod, and says so to those who may use it', () => {
    const decision = assignScc(request({ sccs, canUse: () => true }));
    assert.equal(annotationsOf(decision)?.[SCC], 'anyuid');
    assert.equal(decision.auditAnnotations['too-restrictive-broken'], `provider "broken": Internal error: ${error}`);
  });

  test('alone it refuses', () => {
    assert.equal(
      messageOf(assignScc(request({ sccs: [broken], canUse: () => true }))),
      `unable to validate against any security context constraint: provider "broken": Internal error: ${error}`,
    );
  });

  test('it stops every pod, if it is to be as on OpenShift', () => {
    assert.equal(messageOf(assignScc(request({ sccs, compatibility: { brokenScc: 'refuse' } }))), error);
    assert.equal(messageOf(assignScc(request({ sccs, compatibility: 'openshift' }))), error);
  });

  test('all that are broken are named then, those behind the others, too', () => {
    const more = [...sccs, laxScc({ name: 'z', fsGroup: {}, seLinuxContext: { type: 'No' } })];
    assert.equal(
      messageOf(assignScc(request({ sccs: more, compatibility: 'openshift' }))),
      `[${error}, error creating provider for SCC z in namespace demo: Unrecognized SELinuxContext strategy type No]`,
    );
  });

  test('a field of a wrong type makes an SCC useless, not lax', () => {
    const odd = { ...laxScc({ name: 'odd', users: ['alice'] }), allowPrivilegedContainer: 'yes' };
    assert.equal(
      messageOf(assignScc(request({ sccs: [odd as never], canUse: () => true }))),
      'unable to validate against any security context constraint: provider "odd": Internal error: error creating provider for SCC odd in namespace demo: allowPrivilegedContainer: Invalid value: "yes": must be a boolean',
    );
  });

  for (const [key, value, cause] of [
    [
      'openshift.io/sa.scc.uid-range',
      '',
      'uid annotation: found annotation openshift.io/sa.scc.uid-range but it was empty',
    ],
    ['openshift.io/sa.scc.uid-range', 'x', 'uid annotation: expected integer'],
    ['openshift.io/sa.scc.mcs', '', 'mcs annotation: found annotation openshift.io/sa.scc.mcs but it was empty'],
    [
      'openshift.io/sa.scc.supplemental-groups',
      '',
      'group annotation: unable to find groups using openshift.io/sa.scc.supplemental-groups and openshift.io/sa.scc.uid-range annotations',
    ],
  ] as const) {
    test(`the namespace has ${key}: ${JSON.stringify(value)}`, () => {
      const annotations = { ...DEMO.metadata?.annotations, [key]: value };
      const namespace = { metadata: { name: 'demo', annotations } };
      const own = STANDARD.filter(({ metadata }) => metadata?.name === 'restricted-v2');
      const colon = cause.indexOf(':');
      assert.equal(
        messageOf(assignScc(request({ namespace, sccs: own, compatibility: { brokenScc: 'refuse' } }))),
        `unable to find pre-allocated ${cause.slice(0, colon)} for namespace demo while trying to configure SCC restricted-v2${cause.slice(colon)}`,
      );
    });
  }
});

suite('required SCCs', () => {
  const sccs = STANDARD.filter(({ metadata }) => metadata?.name !== 'anyuid' && metadata?.name !== 'nonroot');

  test('none are by default', () => {
    assert.equal(annotationsOf(assignScc(request({ sccs })))?.[SCC], 'restricted-v2');
  });

  for (const [compatibility, names] of [
    ['openshift', 'anyuid, nonroot'],
    [{ requiredSccs: ['restricted-v2', 'ours', 'nonroot'] }, 'nonroot, ours'],
  ] as const) {
    test(`without ${names} nothing is admitted`, () => {
      assert.equal(
        messageOf(assignScc(request({ sccs, compatibility }))),
        `securitycontextconstraints.security.openshift.io cache is missing ${names}`,
      );
    });
  }
});

suite('pods from before there were SCCs', () => {
  const oldObject = podWith({ hostNetwork: true });
  const labelled = podWith({ hostNetwork: true }, { labels: { a: 'b' } });
  const update = (object: JsonObject, old = oldObject) => request({ operation: 'UPDATE', object, oldObject: old });

  test('are updated freely as long as their spec stays', () => {
    const passed = { allowed: true, warnings: [], auditAnnotations: {} };
    assert.deepEqual(assignScc(update(labelled)), { ...passed, object: labelled });
    assert.deepEqual(validateScc(update(labelled)), passed);
  });

  test('are judged on OpenShift', () => {
    assert.equal(assignScc({ ...update(labelled), compatibility: 'openshift' }).allowed, false);
    assert.equal(validateScc({ ...update(labelled), compatibility: 'openshift' }).allowed, false);
  });

  for (const [name, object, old] of [
    ['their spec changes', podWith({ hostNetwork: true, hostPID: true }), oldObject],
    ['they carry an SCC', labelled, podWith({ hostNetwork: true }, { annotations: { [SCC]: 'privileged' } })],
    ['they claim an SCC', podWith({ hostNetwork: true }, { annotations: { [SCC]: 'privileged' } }), oldObject],
  ] as const) {
    test(`are judged if ${name}`, () => {
      assert.equal(assignScc(update(object, old)).allowed, false);
      assert.equal(validateScc(update(object, old)).allowed, false);
    });
  }

  test('cannot take on a required SCC', () => {
    const object = podWith({ hostNetwork: true }, { annotations: { 'openshift.io/required-scc': 'privileged' } });
    assert.equal(
      messageOf(assignScc(update(object))),
      'invalid change of required security context constraint annotation: openshift.io/required-scc',
    );
  });
});

suite('preference for user namespaces', () => {
  const inUserNamespace = podWith({ hostUsers: false });
  for (const [name, given, scc] of [
    ['is off', { object: inUserNamespace }, 'restricted-v2'],
    ['among equals', { object: inUserNamespace, preferUserNamespaces: true }, 'restricted-v3'],
    ['for pods that have one', { preferUserNamespaces: true }, 'restricted-v2'],
    [
      'never across scores',
      {
        object: inUserNamespace,
        preferUserNamespaces: true,
        sccs: STANDARD.filter(({ metadata: { name: own = '' } = {} }) =>
          ['restricted-v2', 'nested-container'].includes(own),
        ),
        canUse: () => true,
      },
      'restricted-v2',
    ],
  ] as const) {
    test(name, () => assert.equal(annotationsOf(assignScc(request(given)))?.[SCC], scc));
  }
});
