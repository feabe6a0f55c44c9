/** Pods of many megabytes: refused where no cluster could store them, and judged in linear time where one could. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { laxScc } from '../../support/scc.ts';
import { messageOf, podWith, request } from './requests.ts';

function times<T>(count: number, item: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => item(index));
}

function manyFields(): Record<string, unknown> {
  return Object.fromEntries(times(1001, (index) => [`f${index}`, 1]));
}

suite('more than a stored object can hold', () => {
  const cases: readonly (readonly [name: string, object: object, what: string])[] = [
    [
      'containers',
      podWith({ initContainers: [{}], containers: times(39_321, () => ({})) }),
      'spec.containers: Too many: 39322: must have at most 39321 items',
    ],
    [
      'volumes',
      podWith({ volumes: times(131_072, () => ({})) }),
      'spec.volumes: Too many: 131073: must have at most 131072 items',
    ],
    [
      'groups',
      podWith({ securityContext: { supplementalGroups: times(131_073, () => 1) } }),
      'spec.securityContext.supplementalGroups: Too many: 131073: must have at most 131072 items',
    ],
    [
      'sysctls and capabilities, together',
      podWith({
        securityContext: { sysctls: times(100_000, () => ({})) },
        containers: [{ securityContext: { capabilities: { drop: times(40_000, String) } } }],
      }),
      'spec.securityContext.sysctls: Too many: 140001: must have at most 131072 items',
    ],
    [
      'annotations',
      podWith({}, { annotations: { a: 'x'.repeat(256 * 1024) } }),
      'metadata.annotations: Too long: may not be more than 262144 bytes',
    ],
    ['fields of a spec', podWith(manyFields()), 'spec: Too many: 1003: must have at most 1000 items'],
    [
      'fields of a container',
      podWith({ containers: [manyFields()] }),
      'spec.containers[0]: Too many: 1001: must have at most 1000 items',
    ],
  ];
  for (const [name, object, what] of cases) {
    test(name, () => {
      const message = `object was marked as kind pod but was unable to be converted: ${what}`;
      for (const decide of [assignScc, validateScc]) {
        assert.equal(messageOf(decide(request({ object, canUse: () => true }))), message);
      }
    });
  }
});

const STRICT = laxScc({
  name: 'strict',
  requiredDropCapabilities: ['ALL'],
  allowPrivilegeEscalation: false,
  volumes: ['emptyDir'],
});

suite('what is wrong with a large pod has a short text, soon', { timeout: 30_000 }, () => {
  const long = 'é'.repeat(3_000_000);
  const cases: readonly (readonly [name: string, object: object])[] = [
    [
      'one port of the node in each of many containers',
      podWith({ containers: times(39_000, () => ({ ports: [{ hostPort: 80 }] })) }),
    ],
    [
      'many capabilities',
      podWith({ containers: [{ securityContext: { capabilities: { add: times(130_000, String) } } }] }),
    ],
    ['a long sysctl', podWith({ securityContext: { sysctls: [{ name: long }] } })],
    [
      'a long profile in many containers',
      podWith({
        containers: times(1000, () => ({
          securityContext: { seccompProfile: { type: 'Localhost', localhostProfile: long } },
        })),
      }),
    ],
    ['a long volume', podWith({ volumes: [{ name: 'v', unknown: long }] })],
    ['a deep volume', podWith({ volumes: [{ name: 'v', unknown: nested(50_000) }] })],
    ['a long SELinux level', podWith({ securityContext: { seLinuxOptions: { level: long } } })],
  ];
  const sccs = [
    { ...STRICT, seccompProfiles: ['runtime/default'] },
    laxScc({
      name: 'other',
      seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0' } },
      allowHostPorts: false,
    }),
  ];
  for (const [name, object] of cases) {
    test(name, () => {
      const decision = assignScc(request({ object, sccs, canUse: () => true }));
      const texts = [messageOf(decision) ?? '', ...Object.values(decision.auditAnnotations)];
      assert.ok(texts.join('').length < 4 * 1024 * 1024);
    });
  }

  test('many containers under many SCCs', () => {
    const containers = times(30_000, (index) => ({
      name: `c${index}`,
      securityContext: { privileged: index > 29_998 },
    }));
    const many = times(200, (index) => laxScc({ name: `s${index}`, allowPrivilegedContainer: false }));
    const decision = assignScc(request({ object: podWith({ containers }), sccs: many, canUse: () => true }));
    const message = messageOf(decision) ?? '';
    assert.match(
      message,
      /provider s0: \.containers\[29999\]\.privileged: Invalid value: true: Privileged containers are/,
    );
    assert.match(message, /provider "s\d+": Internal error: the pod has too many containers/);
  });

  test('every container gets its values', () => {
    const object = podWith({ containers: times(39_000, (index) => ({ name: `c${index}` })) });
    const decision = assignScc(request({ object, sccs: [STRICT], canUse: () => true }));
    assert.ok(decision.allowed);
    const { spec } = decision.object as { readonly spec: { readonly containers: readonly object[] } };
    assert.equal(spec.containers.length, 39_000);
    assert.deepEqual(spec.containers[38_999], {
      name: 'c38999',
      securityContext: { capabilities: { drop: ['ALL'] }, allowPrivilegeEscalation: false },
    });
  });

  test('an update of what is nested without end is judged', () => {
    const object = podWith({ unknown: nested(50_000) });
    const oldObject = podWith({ unknown: nested(50_001) });
    const decision = validateScc(
      request({ operation: 'UPDATE', object, oldObject, sccs: [STRICT], canUse: () => true }),
    );
    assert.equal(decision.allowed, false);
  });
});

function nested(levels: number): unknown {
  return JSON.parse('['.repeat(levels) + ']'.repeat(levels)) as unknown;
}
