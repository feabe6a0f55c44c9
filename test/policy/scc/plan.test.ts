import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { planPod, type PlannedPod } from '../../../src/policy/scc/advice/explain.ts';
import type { SccInput } from '../../../src/policy/scc/index.ts';
import { type Grant, laxScc, namespaceWith } from '../../support/scc.ts';
import { podWith, request } from './requests.ts';

type Given = Partial<SccInput> & { readonly grants?: readonly Grant[] };

/** Without the long texts of refusals. */
function planned(given: Given): unknown {
  const result: PlannedPod = planPod(request(given));
  if (result.outcome !== 'refused') return result;
  const { message, ...rest } = result;
  assert.ok(message.length > 0);
  return rest;
}

describe('refused', () => {
  const cases: readonly { name: string; given: Given; expected: unknown }[] = [
    {
      name: 'what no object is',
      given: { object: 'pod' },
      expected: { outcome: 'refused' },
    },
    {
      name: 'a pod that cannot be decoded',
      given: { object: podWith({ hostPID: 'yes' }) },
      expected: { outcome: 'refused' },
    },
    {
      name: 'a namespace without ranges',
      given: { namespace: namespaceWith({}) },
      expected: { outcome: 'refused' },
    },
    { name: 'no SCC', given: { sccs: [] }, expected: { outcome: 'refused' } },
    {
      name: 'an SCC that is required and not there',
      given: { object: podWith({}, { annotations: { 'openshift.io/required-scc': 'gone' } }) },
      expected: { outcome: 'refused' },
    },
    {
      name: 'an SCC that is required and does not fit, though another would',
      given: {
        object: podWith({ hostPID: true }, { annotations: { 'openshift.io/required-scc': 'restricted-v2' } }),
      },
      expected: {
        outcome: 'refused',
        closest: { scc: 'restricted-v2', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
      },
    },
    {
      name: 'what the least permissive SCC would admit, were it granted',
      given: { object: podWith({ securityContext: { runAsUser: 999 } }) },
      expected: {
        outcome: 'refused',
        closest: {
          scc: 'restricted-v2',
          disallowedFields: [{ path: 'spec.securityContext.runAsUser', values: [999] }],
        },
        grantable: 'nonroot-v2',
      },
    },
    {
      name: 'what no SCC admits',
      given: {
        object: podWith({ hostPID: true }),
        sccs: [laxScc({ name: 'lax' })],
        grants: [{ group: 'system:authenticated', sccs: ['lax'] }],
      },
      expected: {
        outcome: 'refused',
        closest: { scc: 'lax', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
      },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(planned(given), expected));
  }
});

describe('admitted or ignored', () => {
  test('a pod of Windows', () => {
    assert.deepEqual(planned({ object: podWith({ os: { name: 'windows' } }) }), { outcome: 'ignored' });
  });

  test('with what the SCC gives it', () => {
    const result = planPod(request({}));
    assert.ok(result.outcome === 'admitted');
    assert.deepEqual([result.scc, result.subjectType], ['restricted-v2', 'serviceaccount']);
    assert.deepEqual(
      new Map(result.changes.map(({ path, after }) => [path, after])),
      new Map<string, unknown>([
        ['metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]', 'runtime/default'],
        ['spec.securityContext.fsGroup', 1_000_660_000],
        ['spec.securityContext.seLinuxOptions.level', 's0:c26,c5'],
        ['spec.securityContext.seccompProfile.type', 'RuntimeDefault'],
        ['spec.containers[0].securityContext.runAsUser', 1_000_660_000],
        ['spec.containers[0].securityContext.runAsNonRoot', true],
        ['spec.containers[0].securityContext.capabilities.drop', ['ALL']],
        ['spec.containers[0].securityContext.allowPrivilegeEscalation', false],
      ]),
    );
  });

  test('without any change', () => {
    const given = {
      sccs: [laxScc({ name: 'lax' })],
      grants: [{ user: 'system:serviceaccount:demo:default', sccs: ['lax'] }],
    };
    assert.deepEqual(planned(given), { outcome: 'admitted', scc: 'lax', subjectType: 'serviceaccount', changes: [] });
  });

  test('because of its creator alone', () => {
    const { username = '' } = request({}).userInfo;
    const given = { object: podWith({ hostPID: true }), grants: [{ user: username, sccs: ['privileged'] }] };
    const result = planPod(request(given));
    assert.ok(result.outcome === 'admitted');
    assert.deepEqual([result.scc, result.subjectType], ['privileged', 'user']);
  });
});
