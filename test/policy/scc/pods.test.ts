/** Tests that pods that cannot be decoded and pods with thousands of items are denied or evaluated in bounded time. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { assignScc, validateScc } from '../../../src/policy/scc/assign.ts';
import { laxScc } from '../../support/scc.ts';
import {
  createRequest,
  decisionAnnotations,
  denialMessage,
  podWith,
  readCases,
  request,
  type RequestFixture,
  STANDARD,
} from './requests.ts';

/** Asserts that both passes deny the pod, and an update of the pod, because the pod cannot be decoded. */
const UNDECODABLE = 'object was marked as kind pod but was unable to be converted: ';

function assertDenied(object: unknown, message: string): void {
  const input = request({ object, access: { canUse: () => true } });
  for (const decide of [assignScc, validateScc]) {
    assert.equal(denialMessage(decide(input)), message);
    const update = { ...input, operation: 'UPDATE' as const, oldObject: podWith({ nodeName: 'n' }) };
    assert.equal(denialMessage(decide(update)), message);
  }
}

suite('pods with values of the wrong type are denied:', () => {
  for (const { error, ...fixture } of readCases<readonly (RequestFixture & { error: string })[]>('wrong-types.yaml')) {
    test(error, () => assertDenied(createRequest(fixture).object, UNDECODABLE + error));
  }
});

test('names of built-in properties in pods have no special meaning', () => {
  const object = JSON.parse(
    '{"metadata":{"annotations":{"__proto__":"a","constructor":"b"}},"__proto__":{"spec":{"hostPID":true}},"spec":{"containers":[{"name":"__proto__"}]}}',
  ) as object;
  const decision = assignScc(request({ object }));
  assert.ok(decision.allowed, denialMessage(decision));
  assert.deepEqual(Object.keys(decisionAnnotations(decision) ?? {}).slice(0, 2), ['__proto__', 'constructor']);
  assert.ok(Object.hasOwn(decision.object as object, '__proto__'));
});

test('null in a list of strings means an empty string, as in Go', () => {
  const object = podWith({ containers: [{ securityContext: { capabilities: { drop: [null] } } }] });
  const dropsAll = laxScc({ name: 'drops', requiredDropCapabilities: ['KILL'] });
  const decision = assignScc(request({ object, access: { canUse: () => true }, sccs: [dropsAll] }));
  assert.ok(decision.allowed, denialMessage(decision));
  const { spec } = decision.object as { spec: { containers: readonly JsonObject[] } };
  assert.deepEqual(spec.containers[0]?.['securityContext'], { capabilities: { drop: ['', 'KILL'] } });
});

function times<T>(count: number, item: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => item(index));
}

suite('a pod with too many items is denied:', () => {
  const cases: readonly (readonly [name: string, object: object, what: string])[] = [
    [
      'containers',
      podWith({ initContainers: [{}], containers: times(5000, () => ({})) }),
      'spec.containers: Too many: 5001: must have at most 5000 items',
    ],
    [
      'volumes',
      podWith({ volumes: times(20_000, () => ({})) }),
      'spec.volumes: Too many: 20001: must have at most 20000 items',
    ],
    [
      'groups',
      podWith({ securityContext: { supplementalGroups: times(20_001, () => 1) } }),
      'spec.securityContext.supplementalGroups: Too many: 20002: must have at most 20000 items',
    ],
    [
      'sysctls and capabilities that exceed their common limit',
      podWith({
        securityContext: { sysctls: times(15_000, () => ({})) },
        containers: [{ securityContext: { capabilities: { drop: times(6000, String) } } }],
      }),
      'spec.containers[0].securityContext.capabilities.drop: Too many: 21001: must have at most 20000 items',
    ],
    [
      'annotations',
      podWith({}, { annotations: { a: 'x'.repeat(256 * 1024) } }),
      `${UNDECODABLE}metadata.annotations: Too long: may not be more than 262144 bytes`,
    ],
  ];
  for (const [name, object, what] of cases) {
    test(name, () => assertDenied(object, what));
  }
});

const STRICT = laxScc({
  name: 'strict',
  requiredDropCapabilities: ['ALL'],
  allowPrivilegeEscalation: false,
  volumes: ['emptyDir'],
});

suite('large pods', { timeout: 30_000 }, () => {
  const long = 'é'.repeat(3_000_000);
  const cases: readonly (readonly [name: string, object: object])[] = [
    [
      'a host port in each of many containers',
      podWith({ containers: times(4900, () => ({ ports: [{ hostPort: 80 }] })) }),
    ],
    [
      'many capabilities',
      podWith({ containers: [{ securityContext: { capabilities: { add: times(19_000, String) } } }] }),
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
    ['a long field of a volume', podWith({ volumes: [{ name: 'v', unknown: long }] })],
    ['a deeply nested field of a volume', podWith({ volumes: [{ name: 'v', unknown: nested(50_000) }] })],
    ['a long SELinux level', podWith({ securityContext: { seLinuxOptions: { level: long } } })],
    [
      'many host ports in many containers, with errors for each container',
      podWith({ containers: times(500, () => ({ ports: times(30, (port) => ({ hostPort: port + 1 })) })) }),
    ],
    [
      'many groups, which each error repeats',
      podWith({ securityContext: { supplementalGroups: times(19_000, Number) } }),
    ],
    ['many equal sysctls', podWith({ securityContext: { sysctls: times(19_000, () => ({ name: 'kernel.msgmax' })) } })],
    [
      'many annotations and volumes',
      podWith(
        { volumes: times(19_000, () => ({ name: 'v', hostPath: { path: '/' } })) },
        { annotations: Object.fromEntries(times(20_000, (index) => [`a${index}`, ''])) },
      ),
    ],
  ];
  const supplementalGroups = { type: 'MustRunAs', ranges: [{ min: 1, max: 1 }] };
  const sccs = [
    { ...STRICT, seccompProfiles: ['runtime/default'], supplementalGroups },
    laxScc({
      name: 'other',
      seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0' } },
      allowHostPorts: false,
      supplementalGroups,
    }),
  ];
  for (const [name, object] of cases) {
    test(`get short denial messages with ${name}`, () => {
      const decision = assignScc(request({ object, sccs, access: { canUse: () => true } }));
      assert.equal(decision.allowed, false);
      const texts = [denialMessage(decision) ?? '', ...Object.values(decision.auditAnnotations)];
      assert.ok(texts.join('').length < 4 * 1024 * 1024);
    });
  }

  test('are defaulted in every container', () => {
    const object = podWith({ containers: times(4900, (index) => ({ name: `c${index}` })) });
    const decision = assignScc(request({ object, sccs: [STRICT], access: { canUse: () => true } }));
    assert.ok(decision.allowed);
    const { spec } = decision.object as { readonly spec: { readonly containers: readonly object[] } };
    assert.equal(spec.containers.length, 4900);
    assert.deepEqual(spec.containers[4899], {
      name: 'c4899',
      securityContext: { capabilities: { drop: ['ALL'] }, allowPrivilegeEscalation: false },
    });
  });

  test('are evaluated when a deeply nested field changes', () => {
    const object = podWith({ unknown: nested(50_000) });
    const oldObject = podWith({ unknown: nested(50_001) });
    const decision = validateScc(
      request({ operation: 'UPDATE', object, oldObject, sccs: [STRICT], access: { canUse: () => true } }),
    );
    assert.equal(decision.allowed, false);
  });
});

suite('the evaluation of a large pod against many SCCs', { timeout: 30_000 }, () => {
  const sccs = times(500, (index) =>
    laxScc({
      name: `s${index}`,
      allowPrivilegedContainer: false,
      requiredDropCapabilities: ['ALL'],
      allowedCapabilities: ['A'],
      allowedFlexVolumes: [{ driver: 'd' }],
      volumes: ['emptyDir', 'flexVolume'],
      allowHostPorts: false,
      supplementalGroups: { type: 'MustRunAs', ranges: [{ min: 1, max: 1 }] },
      seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c1,c2' } },
      forbiddenSysctls: ['f.*'],
    }),
  );
  const privileged = { securityContext: { privileged: true } };
  const capabilities = { add: ['A'], drop: times(120, (index) => `D${index}`) };
  const level = { seLinuxOptions: { level: 's0:c2,c1' } };
  const cases: readonly (readonly [name: string, spec: JsonObject, path: string, count: number])[] = [
    ['containers', { containers: [...times(4899, () => ({})), privileged] }, 'spec.containers', 4900],
    [
      'SELinux levels',
      { containers: [...times(4899, () => ({ securityContext: level })), privileged] },
      'spec.containers',
      4900,
    ],
    [
      'capabilities',
      { containers: [...times(150, () => ({ securityContext: { capabilities } })), privileged] },
      'spec.containers[*].securityContext.capabilities',
      18_150,
    ],
    [
      'ports',
      { containers: [{ ports: times(19_000, () => ({ hostPort: 1 })) }] },
      'spec.containers[*].ports[*].hostPort',
      19_000,
    ],
    ['volumes', { volumes: [...times(19_000, () => ({ emptyDir: {} })), { nfs: {} }] }, 'spec.volumes', 19_001],
    [
      'sysctls',
      { securityContext: { sysctls: times(19_000, () => ({ name: 'f.x' })) } },
      'spec.securityContext.sysctls',
      19_000,
    ],
    [
      'groups',
      { securityContext: { supplementalGroups: times(19_000, () => 2) } },
      'spec.securityContext.supplementalGroups',
      19_000,
    ],
  ];
  for (const [name, spec, path, count] of cases) {
    test(`ends within a limit for ${name}`, () => {
      for (const decide of [assignScc, validateScc]) {
        const start = process.cpuUsage();
        const decision = decide(request({ object: podWith(spec), sccs, access: { canUse: () => true } }));
        const { user } = process.cpuUsage(start);
        assert.ok(user < 1_000_000, `${user} µs`);
        assert.equal(
          denialMessage(decision),
          `unable to validate against any security context constraint: ${path}: Too many: ${count}: too many to evaluate against 500 SCCs; reduce their number, or select one SCC with annotation openshift.io/required-scc`,
        );
      }
      // Every pod within the decoding limits can be evaluated against one SCC.
      const object = podWith(spec, { annotations: { 'openshift.io/required-scc': 's7' } });
      const message = denialMessage(assignScc(request({ object, sccs, access: { canUse: () => true } })));
      assert.match(message ?? '', /^unable to validate against any security context constraint: .*provider s7: |f\.x/);
    });
  }

  test('is complete for a valid pod', () => {
    const containers = times(100, (index) => ({
      name: `c${index}`,
      ports: times(3, () => ({ containerPort: 80 })),
      securityContext: { ...level, capabilities: { add: ['A'], drop: times(10, (drop) => `D${drop}`) } },
    }));
    const object = podWith({ containers, volumes: times(100, () => ({ emptyDir: {} })) });
    const last = laxScc({
      name: 'z',
      priority: -1,
      allowPrivilegedContainer: true,
      allowedCapabilities: ['*'],
      volumes: ['*'],
    });
    const first = assignScc(request({ object, sccs: [...sccs, last], access: { canUse: () => true } }));
    assert.equal(decisionAnnotations(first)?.['openshift.io/scc'], 's0');
    const rootful = podWith({ containers: [...containers, privileged] });
    const decision = assignScc(request({ object: rootful, sccs: [...sccs, last], access: { canUse: () => true } }));
    assert.equal(decisionAnnotations(decision)?.['openshift.io/scc'], 'z');
  });

  test('ends early once it is known which SCC admits the pod', () => {
    const object = podWith({ containers: [...times(4899, () => ({})), privileged] });
    const first = laxScc({ name: 'a', priority: 1, allowPrivilegedContainer: true });
    const decision = assignScc(request({ object, sccs: [first, ...sccs], access: { canUse: () => true } }));
    assert.equal(
      decision.auditAnnotations['reason'],
      '"a" is most restrictive and not denied; the pod is too large to evaluate the remaining SCCs',
    );
  });

  test('reports only the first few of many errors', () => {
    const object = podWith({
      containers: times(30, () => ({ ports: times(30, () => ({ hostPort: 1 })), ...privileged })),
    });
    const message = denialMessage(assignScc(request({ object, sccs, access: { canUse: () => true } }))) ?? '';
    assert.ok(
      message.startsWith(
        'unable to validate against any security context constraint: [provider s0: .containers[0].privileged: ',
      ),
    );
    assert.ok(message.endsWith(', provider "s99": Forbidden: does not allow the pod (errors omitted)]'));
    assert.ok(message.length < 1024 * 1024, String(message.length));
  });
});

suite('a pod is denied quickly even if it has many', { timeout: 30_000 }, () => {
  // The lists have the maximum length for which the denial suggests an SCC.
  const cases: readonly (readonly [name: string, spec: JsonObject])[] = [
    ['host ports', { containers: [{ ports: times(12_000, (index) => ({ hostPort: index + 1 })) }] }],
    ['equal host ports', { containers: [{ ports: times(12_000, () => ({ hostPort: 80 })) }] }],
    ['capabilities', { containers: [{ securityContext: { capabilities: { add: times(1400, (i) => `C${i}`) } } }] }],
    ['sysctls', { securityContext: { sysctls: times(7000, (index) => ({ name: `kernel.a${index}`, value: '1' })) } }],
    ['groups', { securityContext: { supplementalGroups: times(3500, (index) => index) } }],
    ['volumes', { volumes: times(4800, (index) => ({ name: `v${index}`, hostPath: { path: '/' } })) }],
    [
      'containers',
      { containers: times(750, (index) => ({ name: `c${index}`, securityContext: { privileged: true } })) },
    ],
  ];
  for (const [name, spec] of cases) {
    test(name, () => {
      const input = request({
        object: podWith(spec),
        sccs: STANDARD,
        access: { canUse: (_user, scc) => scc === 'restricted-v2' },
      });
      const start = process.cpuUsage();
      const decision = validateScc(input);
      const { user, system } = process.cpuUsage(start);
      assert.equal(decision.allowed, false);
      assert.ok(decision.warnings.length > 0);
      assert.ok(user + system < 250_000, `${user + system} µs`);
    });
  }
});

suite('SCCs with extreme values', { timeout: 30_000 }, () => {
  const names = times(9000, (index) => `C${index}`);
  const cases: readonly (readonly [name: string, scc: object, capabilities: object])[] = [
    ['default capabilities', { defaultAddCapabilities: names }, { add: names }],
    ['capabilities to drop', { requiredDropCapabilities: names }, { drop: [...names].reverse() }],
    ['allowed capabilities', { allowedCapabilities: names }, { add: [...names].reverse() }],
  ];
  for (const [name, scc, capabilities] of cases) {
    test(`are evaluated within the time limit if they have many ${name}`, () => {
      const object = podWith({ containers: [{ securityContext: { capabilities } }] });
      const start = process.cpuUsage();
      const decision = assignScc(
        request({
          object,
          sccs: [laxScc({ name: 'long', allowedCapabilities: [], ...scc })],
          access: { canUse: () => true },
        }),
      );
      assert.ok(process.cpuUsage(start).user < 400_000);
      assert.equal(decision.allowed, true);
    });
  }

  test('admit pods as on OpenShift if they have 64-bit IDs', () => {
    const last = { type: 'MustRunAsRange', uidRangeMin: 1000, uidRangeMax: 2 ** 63 };
    const groups = { type: 'MustRunAs', ranges: [{ min: 2000, max: 2 ** 63 }] };
    const sccs = [
      laxScc({ name: 'large', runAsUser: last, fsGroup: groups }),
      laxScc({ name: 'small', priority: 1, runAsUser: { type: 'MustRunAs', uid: 5 } }),
    ];
    const admitted = [1000, 2 ** 31 - 1, 999].map((runAsUser) => {
      const object = podWith({ securityContext: { runAsUser, fsGroup: 2000 }, containers: [{ name: 'c' }] });
      const decision = assignScc(
        request({
          object,
          sccs: [...sccs, ...STANDARD],
          access: { canUse: (_, scc) => ['large', 'small'].includes(scc) },
          compatibility: 'openshift',
        }),
      );
      return decision.allowed;
    });
    assert.deepEqual(admitted, [true, true, false]);
  });

  test('have a defect if their lists are too long', () => {
    const sccs = [laxScc({ name: 'long', requiredDropCapabilities: times(20_001, String) })];
    assert.equal(
      denialMessage(assignScc(request({ sccs, access: { canUse: () => true } }))),
      'unable to validate against any security context constraint: provider "long": Internal error: error creating provider for SCC long in namespace demo: requiredDropCapabilities: Too many: 20001: must have at most 20000 items',
    );
  });
});

function nested(levels: number): unknown {
  return JSON.parse('['.repeat(levels) + ']'.repeat(levels)) as unknown;
}
