/** Pods that the API server would not send, or would rather not. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { laxScc } from '../../support/scc.ts';
import { annotationsOf, messageOf, podWith, request } from './requests.ts';

suite('values of a wrong type are refused', () => {
  const cases: readonly (readonly [object: unknown, what: string])[] = [
    [null, 'null'],
    ['pod', '"pod"'],
    [[], '[]'],
    [{ kind: 'Scale', spec: { os: { name: 'windows' } } }, '{"kind":"Scale","spec":{"os":{"name":"windows"}}}'],
    [{ metadata: 7 }, 'metadata: Invalid value: 7: must be an object'],
    [podWith({}, { annotations: { a: 1 } }), 'metadata.annotations[a]: Invalid value: 1: must be a string'],
    [{ spec: [] }, 'spec: Invalid value: []: must be an object'],
    [podWith({ serviceAccountName: {} }), 'spec.serviceAccountName: Invalid value: {}: must be a string'],
    [podWith({ hostNetwork: 'no' }), 'spec.hostNetwork: Invalid value: "no": must be a boolean'],
    [podWith({ hostUsers: 0 }), 'spec.hostUsers: Invalid value: 0: must be a boolean'],
    [podWith({ containers: {} }), 'spec.containers: Invalid value: {}: must be a list'],
    [podWith({ containers: [null] }), 'spec.containers[0]: Invalid value: null: must be an object'],
    [
      podWith({ containers: [{ name: 'app', ports: [{ hostPort: '80' }] }] }),
      'spec.containers[0].ports[0].hostPort: Invalid value: "80": must be an integer',
    ],
    [
      podWith({ containers: [{}, { securityContext: { runAsUser: 1.5 } }] }),
      'spec.containers[1].securityContext.runAsUser: Invalid value: 1.5: must be an integer',
    ],
    [
      podWith({ initContainers: [{ securityContext: { capabilities: { add: 'ALL' } } }] }),
      'spec.initContainers[0].securityContext.capabilities.add: Invalid value: "ALL": must be a list',
    ],
    [
      podWith({ ephemeralContainers: [{ securityContext: { privileged: 'true' } }] }),
      'spec.ephemeralContainers[0].securityContext.privileged: Invalid value: "true": must be a boolean',
    ],
    [
      podWith({ securityContext: { supplementalGroups: [1, '2'] } }),
      'spec.securityContext.supplementalGroups[1]: Invalid value: "2": must be an integer',
    ],
    [
      podWith({ securityContext: { seccompProfile: { type: 1 } } }),
      'spec.securityContext.seccompProfile.type: Invalid value: 1: must be a string',
    ],
    [
      podWith({ securityContext: { sysctls: [{ name: null }, 7] } }),
      'spec.securityContext.sysctls[1]: Invalid value: 7: must be an object',
    ],
    [podWith({ volumes: [{ hostPath: '/' }] }), 'spec.volumes[0].hostPath: Invalid value: "/": must be an object'],
  ];
  for (const [object, what] of cases) {
    test(what, () => {
      const message = `object was marked as kind pod but was unable to be converted: ${what}`;
      for (const decide of [assignScc, validateScc]) {
        assert.equal(messageOf(decide(request({ object, canUse: () => true }))), message);
      }
    });
  }
});

test('null is absent', () => {
  const nothing = { securityContext: null, volumes: null, initContainers: null, hostNetwork: null, hostUsers: null };
  const container = { name: 'app', image: null, ports: null, securityContext: { capabilities: { add: null } } };
  const object = podWith({ ...nothing, containers: [container] }, { annotations: null });
  assert.equal(annotationsOf(assignScc(request({ object })))?.['openshift.io/scc'], 'restricted-v2');
});

test('keys with a meaning in JavaScript are kept and mean nothing', () => {
  const object = JSON.parse(
    '{"metadata":{"annotations":{"__proto__":"a","constructor":"b"}},"__proto__":{"spec":{"hostPID":true}},"spec":{"containers":[{"name":"__proto__"}]}}',
  ) as object;
  const decision = assignScc(request({ object }));
  assert.ok(decision.allowed, messageOf(decision));
  assert.deepEqual(Object.keys(annotationsOf(decision) ?? {}).slice(0, 2), ['__proto__', 'constructor']);
  assert.ok(Object.hasOwn(decision.object as object, '__proto__'));
});

suite('pods that are made to cost', () => {
  const many = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index));
  const cases = {
    'host ports, each charged to each container': podWith({
      containers: many(500, (index) => ({ name: `c${index}`, ports: many(50, (port) => ({ hostPort: port + 1 })) })),
    }),
    'supplemental groups, told all with each': podWith({
      securityContext: { supplementalGroups: many(100_000, (index) => index) },
    }),
    'equal sysctls': podWith({
      securityContext: { sysctls: many(50_000, () => ({ name: 'kernel.msgmax', value: '1' })) },
    }),
    'annotations and volumes': podWith(
      { volumes: many(20_000, () => ({ name: 'v', hostPath: { path: '/' } })) },
      { annotations: Object.fromEntries(many(20_000, (index) => [`a${index}`, ''])) },
    ),
  };
  const sccs = many(13, (index) =>
    laxScc({
      name: `strict-${index}`,
      volumes: ['none'],
      supplementalGroups: { type: 'MustRunAs', ranges: [{ min: 1, max: 1 }] },
    }),
  );
  for (const [name, object] of Object.entries(cases)) {
    test(name, () => {
      const decision = assignScc(request({ object, canUse: () => true, sccs }));
      const { length } = messageOf(decision) ?? '';
      assert.ok(length > 0 && length < 16 * 1024 * 1024, `${length} characters`);
    });
  }
});
