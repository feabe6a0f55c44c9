/** Tests properties of the warnings about decisions. The cases are in `test/fixtures/scc-cases/warnings.yaml`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PodLike } from '../../../src/kube/types.ts';
import { assignScc, validateScc } from '../../../src/policy/scc/assign.ts';
import type { SccInput } from '../../../src/policy/scc/index.ts';
import { STANDARD_CLUSTER_ROLES, STANDARD_SCCS, standardUseRole } from '../../../src/policy/scc/standard.ts';
import { laxScc } from '../../support/scc.ts';
import { create } from './arbitrary.ts';
import { podWith, request } from './requests.ts';

test('a pod with more containers than a node can run gets no SCC warnings', () => {
  const containers = Array.from({ length: 1001 }, () => ({ name: 'c', securityContext: { privileged: true } }));
  const { allowed, warnings } = assignScc(request({ object: podWith({ containers }) }));
  assert.deepEqual({ allowed, warnings }, { allowed: false, warnings: [] });
});

const LONG = 'x'.repeat(300);

test('SCC warnings truncate long values and escape control characters', () => {
  const seLinuxOptions = { level: 's0\u001b[2J', role: LONG };
  const object = podWith({ containers: [{ name: 'c', securityContext: { seLinuxOptions } }] });
  const sccs = [laxScc({ name: 'a', seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's1' } } })];
  const { warnings } = assignScc(request({ object, sccs, access: { canUse: () => true } }));
  assert.deepEqual(warnings, [
    `The closest usable SCC is "a". It does not allow: spec.containers[0].securityContext.seLinuxOptions.level="s0\\x1b[2J", spec.containers[0].securityContext.seLinuxOptions.role=${'x'.repeat(37)}....`,
    'To admit the pod, copy SCC "a" and set seLinuxContext={type: RunAsAny}, then allow service account "default" to use the copy.',
  ]);
});

test('SCC warnings suggest no copy of an SCC if a field among more than 100 errors cannot be allowed', () => {
  const object = podWith({ securityContext: { supplementalGroups: Array<number>(100).fill(1) } });
  const supplementalGroups = { type: 'MustRunAs', ranges: [{ min: 5, max: 5 }] } as const;
  const sccs = [laxScc({ name: 'a', supplementalGroups, userNamespaceLevel: 'RequirePodLevel' })];
  const { warnings } = assignScc(request({ object, sccs, access: { canUse: () => true } }));
  assert.deepEqual(warnings, [
    'The closest usable SCC is "a". It does not allow: spec.securityContext.supplementalGroups=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,..., spec.hostUsers (not set).',
    'No SCC would admit the pod as it is.',
  ]);
});

test('SCC warnings replace control characters in paths', () => {
  const annotations = { [`container.seccomp.security.alpha.kubernetes.io/a\n${LONG}`]: 'odd' };
  const object = podWith({ containers: [{ name: `a\n${LONG}`, securityContext: {} }] }, { annotations });
  const [warning = ''] = assignScc(request({ object })).warnings;
  assert.equal(warning.length, 256);
  assert.ok(!/\p{Cc}/u.test(warning), warning);
});

test('SCC warnings are short, fit on one line, and contain no environment variables or arguments', () => {
  const secret = 'hunter2-hunter2';
  fc.assert(
    fc.property(create, fc.constantFrom(assignScc, validateScc), (input, decide) => {
      const pod = structuredClone(input.object) as { spec: { containers?: Record<string, unknown>[] } };
      for (const container of pod.spec.containers ?? []) {
        container['env'] = [{ name: 'PASSWORD', value: secret }];
        container['args'] = [secret];
      }
      const { warnings } = decide({ ...input, object: pod, compatibility: 'portcullis' });
      // These are two warnings about the SCC, and one about user namespaces.
      assert.ok(warnings.length <= 3);
      for (const warning of warnings) {
        assert.ok(warning.length <= 256 && warning.endsWith('.') && !/[\p{Cc}]/u.test(warning), warning);
        assert.ok(!warning.includes(secret), warning);
      }
    }),
    { numRuns: 500 },
  );
});

test('the SCC that a warning suggests admits the pod once its use is granted', () => {
  let granted = 0;
  fc.assert(
    fc.property(create, (input) => {
      const decision = assignScc({ ...input, compatibility: 'portcullis' });
      const [, scc] =
        decision.warnings.map((text) => /^SCC "([^"]+)" would admit the pod/.exec(text)).find((match) => match) ?? [];
      if (scc === undefined) return;
      granted++;
      const canUse: SccInput['access']['canUse'] = (subject, name, namespace) =>
        name === scc || input.access.canUse(subject, name, namespace);
      const after = assignScc({ ...input, compatibility: 'portcullis', access: { canUse } });
      assert.equal(after.allowed && after.facts?.scc, scc);
      assert.ok(after.allowed && !isContradictory(after.object as PodLike), 'the API server rejects the completed pod');
    }),
    { numRuns: 500 },
  );
  assert.ok(granted > 20, String(granted));
});

/** Returns true if a container is privileged or adds CAP_SYS_ADMIN, but sets allowPrivilegeEscalation to false. */
function isContradictory({ spec }: PodLike): boolean {
  const containers = [
    ...(spec?.initContainers ?? []),
    ...(spec?.containers ?? []),
    ...(spec?.ephemeralContainers ?? []),
  ];
  return containers.some(({ securityContext: { privileged, capabilities, allowPrivilegeEscalation } = {} }) => {
    const isAdministrator = privileged === true || capabilities?.add?.includes('CAP_SYS_ADMIN') === true;
    return allowPrivilegeEscalation === false && isAdministrator;
  });
}

test('the ClusterRoles that SCC warnings suggest are standard ClusterRoles', () => {
  const roles = STANDARD_CLUSTER_ROLES.map(({ metadata }) => metadata?.name);
  for (const { scc } of STANDARD_SCCS) assert.ok(roles.includes(standardUseRole(scc.metadata?.name ?? '')));
  assert.equal(standardUseRole('web'), undefined);
  assert.equal(standardUseRole('constructor'), undefined);
});
