/** Tests which findings an entry of an exception covers, and properties of arbitrary exceptions. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import { LIMITS } from '../../../src/kube/limits.ts';
import type { ExceptionEntry } from '../../../src/kube/pod-security-exception.ts';
import { decodePod, type PodFields } from '../../../src/policy/pod/index.ts';
import {
  type ExceptedEvaluation,
  evaluateExcepted,
  type ExceptionRule,
  indexExceptions,
  readImage,
  findUnusable,
  suggestEntries,
  unexpired,
} from '../../../src/policy/pss/exceptions.ts';
import { checks, evaluatePod } from '../../../src/policy/pss/library.ts';
import { compliantPod } from '../../support/pod-security.ts';
import { pods } from './arbitrary.ts';

const DIGEST = `sha256:${'a'.repeat(64)}`;
const IMAGE = 'registry.example.com/gateway';
const NET_ADMIN: ExceptionEntry = {
  check: 'capabilities_baseline',
  container: 'c',
  image: IMAGE,
  values: ['NET_ADMIN'],
};

function exception(name: string, ...allow: readonly ExceptionEntry[]): ExceptionRule {
  return { name, serviceAccountName: 'gateway', allow, expiresAtMs: 1000 };
}

function decode(pod: object): PodFields {
  const { pod: decoded } = decodePod(pod);
  assert.ok(decoded);
  return decoded;
}

const SAFE = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

/** Builds a pod that runs as service account `gateway` and whose container has the given capabilities. */
function adding(add: readonly string[], container: object = {}, spec: object = {}): object {
  const securityContext = { ...SAFE, capabilities: { drop: ['ALL'], add } };
  return compliantPod(
    { serviceAccountName: 'gateway', ...spec },
    { image: `${IMAGE}:1`, securityContext, ...container },
  );
}

/** Builds a pod that runs as service account `gateway` and has a compliant container. */
function withSpec(spec: object): object {
  return compliantPod({ serviceAccountName: 'gateway', ...spec }, { image: IMAGE });
}

function withContext(securityContext: object, pod: object = {}): object {
  const podContext = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' }, ...pod };
  return compliantPod(
    { serviceAccountName: 'gateway', securityContext: podContext },
    { image: IMAGE, securityContext: { ...SAFE, ...securityContext } },
  );
}

const ephemeral = (container: object): object => ({
  ephemeralContainers: [{ name: 'c', image: IMAGE, securityContext: { ...SAFE, ...container } }],
});
const netAdmin = { capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] } };
const own = (check: string, ...values: readonly string[]): ExceptionEntry => ({
  check,
  container: 'c',
  image: IMAGE,
  ...(values.length === 0 ? {} : { values }),
});
const podLevel = (check: string, ...values: readonly string[]): ExceptionEntry => ({
  check,
  ...(values.length === 0 ? {} : { values }),
});

/** Returns the checks that deny the pod at the restricted level despite the entries of an exception. */
const CASES: readonly (readonly [name: string, pod: object, entries: readonly ExceptionEntry[], denied: string[]])[] = [
  ['an entry for a check that another check overrides', adding(['NET_ADMIN']), [NET_ADMIN], []],
  ['an entry for the violated check', adding(['NET_ADMIN']), [own('capabilities_restricted', 'NET_ADMIN')], []],
  ['an image with another tag', adding(['NET_ADMIN'], { image: `${IMAGE}:evil` }), [NET_ADMIN], []],
  ['an entry without the violating value', adding(['SYS_ADMIN']), [NET_ADMIN], ['capabilities_restricted']],
  ['an additional violating value', adding(['NET_ADMIN', 'SYS_ADMIN']), [NET_ADMIN], ['capabilities_restricted']],
  ['a violating value in another case', adding(['net_admin']), [NET_ADMIN], ['capabilities_restricted']],
  ['a violating value with a prefix', adding(['CAP_NET_ADMIN']), [NET_ADMIN], ['capabilities_restricted']],
  [
    'an entry for another check',
    adding(['NET_ADMIN']),
    [own('seccompProfile_baseline', 'NET_ADMIN')],
    ['capabilities_restricted'],
  ],
  ['an entry without values', adding(['NET_ADMIN']), [own('capabilities_baseline')], ['capabilities_restricted']],
  [
    'two entries that would have to combine for one finding',
    adding(['NET_ADMIN', 'SYS_ADMIN']),
    [NET_ADMIN, { ...NET_ADMIN, values: ['SYS_ADMIN'] }],
    ['capabilities_restricted'],
  ],
  ['an entry for another container', adding(['NET_ADMIN'], { name: 'd' }), [NET_ADMIN], ['capabilities_restricted']],
  [
    'a pod-level entry for a container',
    adding(['NET_ADMIN']),
    [podLevel('capabilities_baseline', 'NET_ADMIN')],
    ['capabilities_restricted'],
  ],
  [
    'an image in another repository',
    adding(['NET_ADMIN'], { image: `${IMAGE}/x` }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an image in another registry',
    adding(['NET_ADMIN'], { image: 'evil.example.com/gateway' }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an image whose registry ends with a dot',
    adding(['NET_ADMIN'], { image: 'registry.example.com./gateway' }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an image whose registry is in another case',
    adding(['NET_ADMIN'], { image: 'Registry.example.com/gateway' }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  ['an image with a space', adding(['NET_ADMIN'], { image: `${IMAGE} ` }), [NET_ADMIN], ['capabilities_restricted']],
  ['an empty image', adding(['NET_ADMIN'], { image: '' }), [NET_ADMIN], ['capabilities_restricted']],
  ['an entry with a tag', adding(['NET_ADMIN']), [{ ...NET_ADMIN, image: `${IMAGE}:1` }], ['capabilities_restricted']],
  [
    'an image with the digest of the entry',
    adding(['NET_ADMIN'], { image: `${IMAGE}:1@${DIGEST}` }),
    [{ ...NET_ADMIN, image: `${IMAGE}@${DIGEST}` }],
    [],
  ],
  [
    'an image with a tag instead of the digest of the entry',
    adding(['NET_ADMIN']),
    [{ ...NET_ADMIN, image: `${IMAGE}@${DIGEST}` }],
    ['capabilities_restricted'],
  ],
  [
    'an image with another digest',
    adding(['NET_ADMIN'], { image: `${IMAGE}@${DIGEST.replace('a', 'b')}` }),
    [{ ...NET_ADMIN, image: `${IMAGE}@${DIGEST}` }],
    ['capabilities_restricted'],
  ],
  [
    'a short image name, whose registry is docker.io',
    adding(['NET_ADMIN'], { image: 'nginx' }),
    [{ ...NET_ADMIN, image: 'docker.io/library/nginx' }],
    [],
  ],
  [
    'another container with the same image',
    adding(
      ['NET_ADMIN'],
      {},
      { initContainers: [{ name: 'd', image: IMAGE, securityContext: { ...SAFE, ...netAdmin } }] },
    ),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an entry for an init container',
    withSpec({ initContainers: [{ name: 'i', image: IMAGE, securityContext: { ...SAFE, ...netAdmin } }] }),
    [{ ...NET_ADMIN, container: 'i' }],
    [],
  ],
  ['an entry for an ephemeral container', withSpec(ephemeral(netAdmin)), [NET_ADMIN], ['capabilities_restricted']],
  [
    'an additional finding of the same check',
    adding([], { securityContext: { ...SAFE, capabilities: { add: ['NET_ADMIN'] } } }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an entry for a capability that is dropped instead of added',
    adding([], { securityContext: { ...SAFE, capabilities: { drop: ['NET_ADMIN'], add: ['NET_ADMIN'] } } }),
    [NET_ADMIN],
    ['capabilities_restricted'],
  ],
  [
    'an entry for capabilities that are not dropped',
    withContext({ capabilities: {} }),
    [own('capabilities_restricted', 'nil')],
    [],
  ],
  [
    'an additional violation of another check',
    withContext({ ...netAdmin, privileged: true }),
    [NET_ADMIN],
    ['privileged'],
  ],
  ['an entry for a check without values', withContext({ privileged: true }), [own('privileged')], []],
  [
    'an entry with values for a check without values',
    withContext({ privileged: true }),
    [own('privileged', 'true')],
    ['privileged'],
  ],
  ['an entry for one host namespace', withSpec({ hostNetwork: true }), [podLevel('hostNamespaces', 'hostNetwork')], []],
  [
    'an entry for another host namespace',
    withSpec({ hostPID: true }),
    [podLevel('hostNamespaces', 'hostNetwork')],
    ['hostNamespaces'],
  ],
  [
    'a container entry for a pod-level field',
    withSpec({ hostPID: true }),
    [own('hostNamespaces', 'hostPID')],
    ['hostNamespaces'],
  ],
  [
    'an entry for a host path',
    withSpec({ volumes: [{ name: 'v', hostPath: { path: '/var/log' } }] }),
    [podLevel('hostPathVolumes', '/var/log')],
    [],
  ],
  [
    'an entry for the parent of a host path',
    withSpec({ volumes: [{ name: 'v', hostPath: { path: '/var' } }] }),
    [podLevel('hostPathVolumes', '/var/log')],
    ['restrictedVolumes'],
  ],
  [
    'a host path with the name of a volume type',
    withSpec({ volumes: [{ name: 'v', hostPath: { path: 'nfs' } }] }),
    [podLevel('restrictedVolumes', 'nfs')],
    ['restrictedVolumes'],
  ],
  [
    'an entry for the volume type hostPath',
    withSpec({ volumes: [{ name: 'v', hostPath: { path: '/' } }] }),
    [podLevel('restrictedVolumes', 'hostPath')],
    ['restrictedVolumes'],
  ],
  [
    'an entry for a volume type',
    withSpec({ volumes: [{ name: 'v', nfs: {} }] }),
    [podLevel('restrictedVolumes', 'nfs')],
    [],
  ],
  ['an entry for a host port', adding([], { ports: [{ hostPort: 80 }] }), [own('hostPorts', '80')], []],
  [
    'an entry for another host port',
    adding([], { ports: [{ hostPort: 80 }, { hostPort: 81 }] }),
    [own('hostPorts', '80')],
    ['hostPorts'],
  ],
  [
    'an entry for a pod-level profile',
    withContext({}, { seccompProfile: { type: 'Unconfined' } }),
    [podLevel('seccompProfile_baseline', 'Unconfined')],
    [],
  ],
  [
    'containers without a profile next to a container with an unsafe profile',
    {
      ...compliantPod({
        serviceAccountName: 'gateway',
        securityContext: { runAsNonRoot: true },
        containers: [
          { name: 'c', image: IMAGE, securityContext: { ...SAFE, seccompProfile: { type: 'Unconfined' } } },
          { name: 'd', image: 'other', securityContext: SAFE },
        ],
      }),
    },
    [own('seccompProfile_restricted', 'Unconfined')],
    ['seccompProfile_restricted'],
  ],
  [
    'containers that may run as root next to a container that sets it',
    {
      ...compliantPod({
        serviceAccountName: 'gateway',
        securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          { name: 'c', image: IMAGE, securityContext: { ...SAFE, runAsNonRoot: false } },
          { name: 'd', image: 'other', securityContext: SAFE },
        ],
      }),
    },
    [own('runAsNonRoot')],
    ['runAsNonRoot'],
  ],
  [
    'an SELinux user with the name of a type',
    withContext({ seLinuxOptions: { user: 'x' } }),
    [own('seLinuxOptions', 'x')],
    ['seLinuxOptions'],
  ],
  [
    'an entry for an SELinux user',
    withContext({ seLinuxOptions: { user: 'x' } }),
    [own('seLinuxOptions', 'user=x')],
    [],
  ],
  [
    'an entry for an AppArmor annotation',
    {
      ...withSpec({}),
      metadata: { annotations: { 'container.apparmor.security.beta.kubernetes.io/c': 'unconfined' } },
    },
    [podLevel('appArmorProfile', 'container.apparmor.security.beta.kubernetes.io/c=unconfined')],
    [],
  ],
];

const RESTRICTED = { level: 'restricted', version: 'latest' } as const;

const evaluate = (pod: PodFields, rules: readonly ExceptionRule[]): ExceptedEvaluation =>
  evaluateExcepted(pod, RESTRICTED, indexExceptions(rules));

suite('an exception allows only violations that its entries cover:', () => {
  for (const [name, pod, entries, denied] of CASES) {
    test(`${name}: ${denied.length === 0 ? 'allowed' : 'denied'}`, () => {
      assert.notDeepEqual(evaluatePod(pod, RESTRICTED).violations, []);
      const { evaluation, exceptions } = evaluate(decode(pod), [exception('e', ...entries)]);
      assert.deepEqual(
        evaluation.violations.map(({ check }) => check),
        denied,
      );
      if (evaluation.allowed) assert.deepEqual(exceptions, ['e']);
    });
  }
});

test('an exception applies to one service account, which is the default service account if the pod names none', () => {
  const pod = { ...compliantPod({ hostNetwork: true }) };
  const rule = exception('e', podLevel('hostNamespaces', 'hostNetwork'));
  assert.equal(evaluate(decode(pod), [rule]).evaluation.allowed, false);
  const ofDefault = { ...rule, serviceAccountName: 'default' };
  assert.equal(evaluate(decode(pod), [ofDefault]).evaluation.allowed, true);
});

test('the deprecated serviceAccount field selects the service account if serviceAccountName is not set', () => {
  const rule = exception('e', podLevel('hostNamespaces', 'hostNetwork'));
  const cases: readonly (readonly [spec: object, allowed: boolean])[] = [
    [{ serviceAccount: 'gateway' }, true],
    [{ serviceAccount: 'gateway', serviceAccountName: '' }, true],
    [{ serviceAccount: 'gateway', serviceAccountName: 'other' }, false],
    [{ serviceAccountName: 'other', serviceAccount: 'gateway' }, false],
    [{ serviceAccount: 'other', serviceAccountName: 'gateway' }, true],
  ];
  for (const [spec, allowed] of cases) {
    const pod = decode(compliantPod({ hostNetwork: true, ...spec }));
    assert.equal(evaluate(pod, [rule]).evaluation.allowed, allowed, JSON.stringify(spec));
  }
});

test('several exceptions can cover different findings of a check, and all of them are reported', () => {
  const pod = decode(withSpec({ hostNetwork: true, hostPID: true }));
  const network = exception('b', podLevel('hostNamespaces', 'hostNetwork'));
  const pid = exception('a', podLevel('hostNamespaces', 'hostPID'));
  const { evaluation, exceptions } = evaluate(pod, [network, pid]);
  assert.deepEqual([evaluation.allowed, exceptions], [true, ['a', 'b']]);
});

test('the first of several exceptions that cover a finding is reported', () => {
  const pod = decode(withSpec({ hostNetwork: true }));
  const rules = ['b', 'a', 'c'].map((name) => exception(name, podLevel('hostNamespaces', 'hostNetwork')));
  assert.deepEqual(evaluate(pod, rules).exceptions, ['a']);
});

test('the evaluation of a pod with thousands of containers and volumes takes linear time', () => {
  const count = LIMITS.containers;
  const covered: ExceptionEntry = { check: 'hostPathVolumes', values: ['/data'] };
  const securityContext = { ...SAFE, ...netAdmin };
  const containers = Array.from({ length: count }, (_, index) => ({
    name: `c${index}`,
    image: IMAGE,
    securityContext,
  }));
  const volumes = Array.from({ length: count }, (_, index) => ({ name: `v${index}`, hostPath: { path: '/data' } }));
  const pod = decode(withSpec({ containers, volumes }));
  const start = performance.now();
  const { evaluation } = evaluateExcepted(pod, RESTRICTED, indexExceptions([exception('e', NET_ADMIN, covered)]));
  const elapsedMs = performance.now() - start;
  assert.ok(elapsedMs < 2000, `${elapsedMs} ms`);
  assert.equal(evaluation.allowed, false);
});

test('an exception no longer applies at its expiry time', () => {
  const rule = exception('e');
  assert.deepEqual([unexpired([rule], 999), unexpired([rule], 1000)], [[rule], []]);
});

test('images are compared by their normalized references', () => {
  const cases: readonly (readonly [text: string, repository: string | undefined])[] = [
    ['nginx', 'docker.io/library/nginx'],
    ['nginx:1', 'docker.io/library/nginx'],
    ['docker.io/nginx', 'docker.io/library/nginx'],
    ['index.docker.io/library/nginx', 'docker.io/library/nginx'],
    ['team/nginx', 'docker.io/team/nginx'],
    ['localhost/nginx', 'localhost/nginx'],
    ['localhost:5000/nginx:1', 'localhost:5000/nginx'],
    ['registry.example.com:443/a/b__c', 'registry.example.com:443/a/b__c'],
    [`a@${DIGEST}`, 'docker.io/library/a'],
    ['a@sha256:12', undefined],
    ['a@md5:12', undefined],
    ['A/b', 'A/b'],
    ['a/B', undefined],
    ['a//b', undefined],
    ['/a', undefined],
    ['', undefined],
    ['-'.repeat(100_000), undefined],
  ];
  for (const [text, repository] of cases) assert.equal(readImage(text)?.repository, repository, text);
});

/** Entries with any check, container, image and values in the generated pods. */
function entries(): Arbitrary<ExceptionEntry> {
  const values = fc.constantFrom(
    'CHOWN',
    'SYS_ADMIN',
    'nil',
    'hostNetwork',
    'hostPID',
    'Unconfined',
    'Unmasked',
    'spc_t',
    '80',
    'h',
  );
  return fc
    .record({
      check: fc.constantFrom(...checks.map(({ id }) => id)),
      container: fc.option(fc.constantFrom('a', 'b', 'c'), { nil: undefined }),
      values: fc.option(fc.uniqueArray(values, { minLength: 1 }), { nil: undefined }),
    })
    .map(({ check, container, values: list }) => ({
      check,
      ...(container === undefined ? {} : { container, image: IMAGE }),
      ...(list === undefined ? {} : { values: list }),
    }));
}

function exceptionRules(): Arbitrary<readonly ExceptionRule[]> {
  const rule = fc.record({
    name: fc.string(),
    serviceAccountName: fc.constantFrom('gateway', 'other'),
    allow: fc.array(entries(), { maxLength: 6 }),
    expiresAtMs: fc.constant(1000),
  });
  return fc.array(rule, { maxLength: 5 });
}

/** Generates pods of the service account `gateway` whose containers have the image. */
function accountPods(): Arbitrary<PodFields> {
  return pods().map((pod) => {
    const named = (list: readonly object[] = []) => list.map((one) => ({ ...one, image: IMAGE }));
    const spec = { ...pod.spec, serviceAccountName: 'gateway' };
    const containers = {
      containers: named(spec.containers),
      ...(spec.initContainers ? { initContainers: named(spec.initContainers) } : {}),
    };
    return decode({ ...pod, spec: { ...spec, ...containers } });
  });
}

const denied = (pod: PodFields, rules: readonly ExceptionRule[]): ReadonlySet<string> =>
  new Set(evaluate(pod, rules).evaluation.violations.map(({ check }) => check));

/** Checks that report some fields only after other fields are fixed. */
const OMITTING = ['runAsNonRoot', 'seccompProfile_restricted'];

test('arbitrary exceptions allow only violations that their entries cover', () => {
  let allowed = 0;
  let single = 0;
  fc.assert(
    fc.property(accountPods(), exceptionRules(), exceptionRules(), (pod, rules, others) => {
      const plain = denied(pod, []);
      assert.deepEqual(plain, new Set(evaluatePod(pod.json, RESTRICTED).violations.map(({ check }) => check)));
      const one = denied(pod, rules);
      const both = denied(pod, [...rules, ...others]);
      // Adding exceptions never causes a denial, and their order does not affect the result.
      assert.deepEqual(new Set([...plain, ...one]), plain);
      assert.deepEqual(new Set([...one, ...both]), one);
      assert.deepEqual(denied(pod, [...others, ...rules].reverse()), both);
      // Exceptions for other service accounts have no effect.
      const ofOther = rules.map((rule) => ({ ...rule, serviceAccountName: 'other' }));
      assert.deepEqual(denied(pod, ofOther), plain);
      if (one.size < plain.size) allowed++;
      // Exceptions for the same check combine only if the check has several findings.
      const other = denied(pod, others);
      for (const { check, fields = [] } of evaluatePod(pod.json, { ...RESTRICTED, fields: true }).violations) {
        if (fields.length > 1 || OMITTING.includes(check) || both.has(check)) continue;
        assert.ok(!one.has(check) || !other.has(check), check);
        single++;
      }
      // Separate exceptions for the entries cover the same findings.
      const split = rules.flatMap((rule) => rule.allow.map((entry) => ({ ...rule, allow: [entry] })));
      assert.deepEqual(denied(pod, split), one);
    }),
    { numRuns: 3_000 },
  );
  assert.ok(allowed > 20, `exceptions changed only ${allowed} results`);
  assert.ok(single > 20, `exceptions covered only ${single} single findings`);
});

test('an exception with the suggested entries admits the pod, and no exception with fewer entries does', () => {
  fc.assert(
    fc.property(accountPods(), (pod) => {
      const { entries: suggested, uncovered } = suggestEntries(pod, RESTRICTED);
      assert.deepEqual(findUnusable(suggested), []);
      const admits = (allow: readonly ExceptionEntry[]): boolean =>
        evaluate(pod, [exception('e', ...allow)]).evaluation.allowed;
      assert.equal(admits(suggested), uncovered.length === 0);
      if (uncovered.length > 0) return;
      for (const [index] of suggested.entries()) assert.equal(admits(suggested.toSpliced(index, 1)), false);
    }),
    { numRuns: 1_000 },
  );
});

test('19,000 findings and 10,000 entries are evaluated in linear time', () => {
  const hostPath = (path: string): ExceptionEntry => ({ check: 'hostPathVolumes', values: [path] });
  const rules = Array.from({ length: 100 }, (_, number) => {
    return exception(`e${number}`, ...Array.from({ length: 100 }, (_entry, index) => hostPath(`/${number}/${index}`)));
  });
  const index = indexExceptions([...rules, exception('last', hostPath('/x'))]);
  const volumes = Array.from({ length: 19_000 }, (_, number) => ({ name: `v${number}`, hostPath: { path: '/x' } }));
  const pod = decode({ spec: { serviceAccountName: 'gateway', volumes, containers: [{ name: 'c' }] } });
  const start = process.cpuUsage();
  const { evaluation, exceptions } = evaluateExcepted(pod, { level: 'baseline', version: 'latest' }, index);
  const { user, system } = process.cpuUsage(start);
  assert.deepEqual([evaluation.allowed, exceptions], [true, ['last']]);
  assert.ok(user + system < 1_000_000, `${(user + system) / 1000} ms`);
});
