/** Tests the decisions and links of the playground. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { LIMITS } from '../../src/kube/limits.ts';
import { evaluateManifests, fixManifests } from '../../src/web/evaluate.ts';
import { decodeState, encodeState } from '../../src/web/share.ts';

const POD = `apiVersion: v1
kind: Pod
metadata: { name: a, namespace: shop }
spec:
  containers:
    - name: c
      image: i
`;

/** Returns a pod with an exception from one of the four checks that it violates. */
const withException = (expiresAt: string): string => `${POD}---
apiVersion: policy.portcullis.dev/v1alpha1
kind: PodSecurityException
metadata: { name: e, namespace: shop }
spec:
  serviceAccountName: default
  allow: [{ check: allowPrivilegeEscalation, container: c, image: docker.io/library/i }]
  expiresAt: "${expiresAt}"
  reason: test
`;

/** Formats the result as one line for each object and each error. */
function summarize(text: string): readonly string[] {
  const { objects, otherKinds, errors } = evaluateManifests(text, 'latest');
  return [
    ...objects.map(({ kind, namespace, name, line, findings, scc }) => {
      const denied = Object.entries(findings).map(([level, { length }]) => `${level} ${length}`);
      const { verdict } = scc;
      const result = verdict.outcome === 'admitted' ? verdict.scc : verdict.outcome;
      return `${line}: ${kind} ${namespace}/${name}: ${denied.join(', ')}; SCC ${result}`;
    }),
    ...errors.map(({ line, column, message }) => `${line}:${column}: ${message}`),
    ...(otherKinds > 0 ? [`${otherKinds} of other kinds`] : []),
  ];
}

describe('evaluateManifests', () => {
  const cases: readonly (readonly [name: string, text: string, ...expected: string[]])[] = [
    ['nothing', ''],
    ['text that is not valid YAML', 'a: [', '1:6: did not find expected node content'],
    ['text without an object', '- a', '1:1: expected an object with apiVersion and kind'],
    [
      'text that exceeds the limit',
      ' '.repeat(LIMITS.playgroundCharacters + 1),
      `1:1: the manifests have ${LIMITS.playgroundCharacters + 1} characters, but the limit is ${LIMITS.playgroundCharacters}: use portcullis check -f`,
    ],
    [
      'a field of the wrong type',
      POD.replace('name: c', 'name: 5'),
      '6:7: API servers cannot decode the Pod: spec.containers[0].name: Invalid value: 5: must be a string. Put the value in quotes.',
    ],
    [
      'metadata, labels and annotations of the wrong type',
      `{ apiVersion: v1, kind: Namespace, metadata: { name: shop, labels: 5, annotations: [1] } }\n---\n${POD}`,
      '4: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2',
      '1:60: API servers cannot decode the Namespace: metadata.labels: Invalid value: 5: must be an object. Use a value of the required type.',
      '1:71: API servers cannot decode the Namespace: metadata.annotations: Invalid value: [1]: must be an object. Use a value of the required type.',
    ],
    [
      'an invalid SCC and an invalid binding, which are ignored',
      `${POD}---\n{ apiVersion: security.openshift.io/v1, kind: SecurityContextConstraints, metadata: { name: restricted-v2 }, runAsUser: 5 }\n---\n{ apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: 5 }`,
      '2: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2',
      '11:64: API servers cannot decode the RoleBinding: metadata: Invalid value: 5: must be an object. Use a value of the required type.',
      '1 of other kinds',
    ],
    [
      'a pod with an exception that applies',
      withException('2099-01-01T00:00:00Z'),
      '2: Pod shop/a: privileged 0, baseline 0, restricted 3; SCC restricted-v2',
      '1 of other kinds',
    ],
    [
      'a pod with an expired exception',
      withException('2026-01-01T00:00:00Z'),
      '2: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2',
      '1 of other kinds',
    ],
    [
      'a pod with placeholders, of which decisions read the second',
      POD.replace('name: c', 'name: ${NAME}').replace(
        'image: i',
        "image: i\n      securityContext: { privileged: '{{ .Values.privileged }}' }",
      ),
      '8:26: not rendered yet: spec.containers[0].securityContext.privileged contains {{ .Values.privileged }}. Render it first: helm template CHART | portcullis check -f -',
    ],
    [
      'a parameter of an OpenShift Template that has no value',
      'apiVersion: template.openshift.io/v1\nkind: Template\nobjects:\n  - { apiVersion: v1, kind: Pod, spec: { hostPID: "${{HOST}}" } }\n',
      '4:42: not rendered yet: spec.hostPID contains ${{HOST}}. The parameter has no value, so process the template first: oc process -f FILE -p HOST=VALUE | portcullis check -f -',
    ],
    [
      'a field of the wrong type in a custom workload',
      'apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: { template: { spec: { containers: [{ name: a, ports: [{ containerPort: "80" }] }] } } }\n',
      '3:63: API servers cannot decode the pods of the Rollout: spec.template.spec.containers[0].ports[0].containerPort: Invalid value: "80": must be a 32-bit integer. Remove the quotes.',
    ],
    [
      'a pod with a validation error, in addition to its decisions',
      `${POD}    - { name: c, image: i }\n`,
      '2: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2',
      '8:9: API servers reject the Pod "a": spec.containers[1].name: Duplicate value: "c". Use another name in spec.containers[1].name.',
    ],
    ['a pod', POD, '2: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2'],
    [
      'a pod that its service account may not create',
      POD.replace('image: i', 'image: i\n      securityContext: { runAsUser: 0 }'),
      '2: Pod shop/a: privileged 0, baseline 0, restricted 5; SCC denied',
    ],
    [
      'a pod with a granted SCC',
      `${POD.replace('image: i', 'image: i\n      securityContext: { runAsUser: 0 }')}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: b, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:openshift:scc:anyuid' }
subjects: [{ kind: ServiceAccount, name: default, namespace: shop }]
`,
      '2: Pod shop/a: privileged 0, baseline 0, restricted 5; SCC anyuid',
      '1 of other kinds',
    ],
    [
      'a pod with a granted SCC and without a namespace',
      `${POD.replace(', namespace: shop', '').replace('image: i', 'image: i\n      securityContext: { runAsUser: 0 }')}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: b }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: r }
subjects: [{ kind: ServiceAccount, name: default }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: r }
rules: [{ apiGroups: [security.openshift.io], resources: [securitycontextconstraints], resourceNames: [anyuid], verbs: [use] }]
`,
      '2: Pod default/a: privileged 0, baseline 0, restricted 5; SCC anyuid',
      '2 of other kinds',
    ],
    [
      'a pod whose SCC a replaced binding no longer grants',
      `${POD}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: 'system:openshift:scc:restricted-v2' }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:openshift:scc:restricted-v2' }
subjects: []
`,
      '2: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC denied',
      '1 of other kinds',
    ],
    [
      'a pod whose service account is an administrator',
      `${POD.replace('image: i', 'image: i\n      securityContext: { privileged: true }')}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: b, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }
subjects: [{ kind: ServiceAccount, name: default, namespace: shop }]
`,
      '2: Pod shop/a: privileged 0, baseline 1, restricted 5; SCC privileged',
      '1 of other kinds',
    ],
    [
      'a pod whose namespace has only a UID range, to which the other ranges correspond',
      `{ apiVersion: v1, kind: Namespace, metadata: { name: shop, annotations: { openshift.io/sa.scc.uid-range: 1000070000/10000 } } }\n---\n${POD.replace('spec:', 'spec:\n  securityContext: { fsGroup: 1000070000 }')}`,
      '4: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC restricted-v2',
      '1 of other kinds',
    ],
    [
      'a pod whose namespace has only a UID range of another cluster, so SELinux levels are unknown',
      `{ apiVersion: v1, kind: Namespace, metadata: { name: shop, annotations: { openshift.io/sa.scc.uid-range: 5/5 } } }\n---\n${POD}`,
      '4: Pod shop/a: privileged 0, baseline 0, restricted 4; SCC denied',
      '1 of other kinds',
    ],
    [
      'a custom workload',
      'apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: { name: r }\nspec:\n  template:\n    spec: { hostNetwork: true, containers: [] }\n',
      '5: Rollout default/r: privileged 0, baseline 1, restricted 1; SCC denied',
    ],
  ];
  for (const [name, text, ...expected] of cases)
    test(`returns the decisions or errors for ${name}`, () => assert.deepEqual(summarize(text), expected));

  test('returns the positions of violating fields, and applies the checks of the selected version', () => {
    const findings = (version: 'latest' | 'v1.7') =>
      evaluateManifests(POD, version).objects.flatMap((object) =>
        object.findings.restricted.map(({ check, fields }) => [
          check,
          ...fields.map(({ line, path }) => `${line} ${path}`),
        ]),
      );
    assert.deepEqual(findings('v1.7'), [['runAsNonRoot', '6 spec.containers[0].securityContext.runAsNonRoot']]);
    assert.equal(findings('latest').length, 4);
  });
});

test('a fix keeps the fields that an exception allows', () => {
  const { text, changes } = fixManifests(withException('2099-01-01T00:00:00Z'), {
    level: 'restricted',
    version: 'latest',
  });
  assert.deepEqual(
    changes.map(({ check }) => check),
    ['capabilities_restricted', 'runAsNonRoot', 'seccompProfile_restricted'],
  );
  assert.doesNotMatch(text, /allowPrivilegeEscalation: false/);
});

describe('the state in a link', () => {
  const state = { text: 'kind: Pod # ü €\u0000', level: 'baseline', version: 'v1.30' } as const;

  test('is encoded and decoded', async () => {
    const fragment = await encodeState(state);
    assert.match(fragment, /^#v1\.[\w-]+$/);
    assert.deepEqual(await decodeState(fragment), state);
  });

  const pack = (value: unknown): string => `#v1.${deflateRawSync(JSON.stringify(value)).toString('base64url')}`;
  const cases: readonly (readonly [name: string, fragment: string, reason: string])[] = [
    ['it has another format', '#v2.AAAA', 'its format is unknown'],
    ['it is not base64', '#v1.<script>', 'it is damaged or incomplete'],
    ['it is not compressed', '#v1.AAAA', 'it is damaged or incomplete'],
    ['it is incomplete', pack(state).slice(0, -6), 'it is damaged or incomplete'],
    ['it is too long', `#v1.${'A'.repeat(600_000)}`, 'it is too long'],
    ['it expands to too much data', pack({ ...state, text: 'a'.repeat(50_000_000) }), 'it is damaged or incomplete'],
    [
      'its text is too long',
      pack({ ...state, text: 'a'.repeat(LIMITS.playgroundCharacters + 1) }),
      'it contains no manifests, or too many',
    ],
    ['its text is not a string', pack({ ...state, text: { a: 1 } }), 'it contains no manifests, or too many'],
    ['it contains null', pack(null), 'it contains no manifests, or too many'],
    ['its level is unknown', pack({ ...state, level: '<b>' }), 'its level or its version is unknown'],
    ['its version is unknown', pack({ ...state, version: 'v2' }), 'its level or its version is unknown'],
  ];
  for (const [name, fragment, reason] of cases) {
    test(`is rejected if ${name}`, async () => {
      assert.deepEqual(await decodeState(fragment), { problem: `The link cannot be read: ${reason}.` });
    });
  }
});
