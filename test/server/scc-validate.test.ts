import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { createSccRig, podOf, podRequest, RANGES, type SccRig } from '../support/scc-webhooks.ts';

const PATH = '/scc/validate';
const LABELLED = { metadata: { name: 'web', namespace: 'shop', labels: { a: 'b' } } };

function createFilled(labels: Readonly<Record<string, string>> = {}): SccRig {
  const rig = createSccRig();
  rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES, labels } });
  return rig;
}

/** The pod as the first webhook leaves it. */
function assigned(rig: SccRig): {
  readonly metadata: object;
  readonly spec: { readonly containers: readonly object[] };
} {
  const decision = rig.ask('/scc/mutate', podRequest(podOf())) as Decision;
  assert.ok(decision.allowed);
  return decision.object as ReturnType<typeof assigned>;
}

suite('the second look at pods', () => {
  const cases: readonly {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly request: (rig: SccRig) => AdmissionRequest;
    readonly message?: RegExp | string;
    readonly warnings?: readonly string[];
    readonly facts?: object;
  }[] = [
    {
      name: 'a pod as it was assigned',
      request: (rig) => podRequest(assigned(rig)),
      facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
    },
    {
      name: 'a pod to which somebody added a privileged container afterwards',
      request(rig) {
        const pod = assigned(rig);
        const added = { name: 'evil', securityContext: { privileged: true } };
        return podRequest({ ...pod, spec: { ...pod.spec, containers: [...pod.spec.containers, added] } });
      },
      message:
        /^unable to validate against any security context constraint: \[.*provider restricted-v2: \.containers\[1\]\.privileged: Invalid value: true: Privileged containers are not allowed .*\]$/,
      warnings: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[1].securityContext.privileged=true.',
        'SCC "privileged" would admit the pod if service account "default" were granted its use: bind ClusterRole "system:openshift:scc:privileged".',
      ],
    },
    {
      name: 'a pod that never was assigned',
      request: () => podRequest(podOf()),
      message: /^unable to validate against any security context constraint: \[/,
    },
    {
      name: 'another SCC than the one that is required',
      request: () =>
        podRequest({
          ...podOf(),
          metadata: {
            name: 'web',
            annotations: { 'openshift.io/required-scc': 'anyuid', 'openshift.io/scc': 'restricted-v2' },
          },
        }),
      message: 'required scc/anyuid does not match the suggested scc/restricted-v2',
    },
    {
      name: 'a pod that never was assigned, where SCCs are only reported',
      labels: { 'portcullis.dev/scc': 'report' },
      request: () => podRequest(podOf({ privileged: true })),
    },
    {
      name: 'off',
      labels: { 'portcullis.dev/scc': 'off' },
      request: () => podRequest(podOf({ privileged: true })),
    },
    {
      name: 'a pod from before there were SCCs gets a label',
      request: () => podRequest({ ...podOf(), ...LABELLED }, { operation: 'UPDATE', oldObject: podOf() }),
    },
    {
      name: 'another resource',
      request: () => podRequest({}, { resource: { group: '', version: 'v1', resource: 'services' } }),
    },
  ];
  for (const { name, labels, request, message, warnings, facts } of cases) {
    test(name, () => {
      const rig = createFilled(labels);
      const decision = rig.ask(PATH, request(rig)) as Decision;
      const told = decision.allowed ? undefined : decision.status.message;
      if (message instanceof RegExp) assert.match(told ?? '', message);
      else assert.equal(told, message);
      if (!decision.allowed) assert.deepEqual([decision.status.code, decision.status.reason], [403, 'Forbidden']);
      else assert.equal(decision.object, undefined);
      if (warnings) assert.deepEqual(decision.warnings, warnings);
      assert.deepEqual(decision.facts, facts);
    });
  }

  test('waits for the ranges, too', async () => {
    const rig = createSccRig();
    const pod = assigned(createFilled());
    const decision = rig.ask(PATH, podRequest(pod), 15_000);
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    assert.equal((await decision).allowed, true);
  });

  test('is counted apart', async () => {
    const rig = createFilled();
    void rig.ask(PATH, podRequest(assigned(rig)));
    void rig.ask(PATH, podRequest(podOf()));
    assert.deepEqual(await rig.series('portcullis_scc_validations_total'), [
      'portcullis_scc_validations_total{operation="create",mode="enforce",decision="allow",scc="restricted-v2",subject_type="serviceaccount"} 1',
      'portcullis_scc_validations_total{operation="create",mode="enforce",decision="deny",scc="",subject_type=""} 1',
    ]);
  });
});
