/** Tests which PodSecurityExceptions in manifests are invalid, and that API servers reject the same exceptions. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { exceptionErrors } from '../../src/config/exceptions.ts';
import { manifestObjects } from '../../src/config/objects.ts';
import { printYaml, readDocuments } from '../../src/config/yaml.ts';
import { definedResources } from '../../src/dev-cluster/objects/custom-resources.ts';
import type { ApiObject } from '../../src/dev-cluster/types.ts';
import { CRDS } from '../../src/install/index.ts';
import { formatFieldError } from '../../src/kube/field-error.ts';

const ENTRY = { check: 'hostNamespaces', values: ['hostPID'] };
const SPEC = {
  serviceAccountName: 'web',
  allow: [ENTRY],
  expiresAt: '2027-01-31T00:00:00Z',
  reason: 'SEC-1',
};
const IMAGE = 'registry.example.com/web';

const entry = (fields: object): object => ({ ...SPEC, allow: [{ ...ENTRY, ...fields }] });
const values = (list: unknown): object => entry({ values: list });
const withoutValues = (fields: object): object => ({ ...SPEC, allow: [fields] });

const CHECKS =
  'supported values: "appArmorProfile", "capabilities_baseline", "hostNamespaces", "hostPathVolumes", "hostPorts", "hostProbesAndHostLifecycle", "privileged", "procMount", "seLinuxOptions", "seccompProfile_baseline", "sysctls", "windowsHostProcess", "allowPrivilegeEscalation", "capabilities_restricted", "procMount_restricted", "restrictedVolumes", "runAsNonRoot", "runAsUser", "seccompProfile_restricted"';
const TIME = 'must be a time in RFC 3339. Use a time such as "2027-01-31T00:00:00Z".';
const ACCOUNT = 'must be the name of a service account. Use the name of a service account in the namespace.';
const REPOSITORY =
  'must be a repository with a registry, and must not have a tag. Use a repository such as registry.example.com/gateway, optionally with a digest.';
const PAIR =
  'requires both container and image, or neither. Set both container and image, or neither for pod-level fields.';
const LENGTH = 'must have 1 to 32 items.';

const cases: readonly (readonly [name: string, spec: unknown, ...errors: readonly string[]])[] = [
  ['valid', SPEC],
  ['an offset and fractions of a second', { ...SPEC, expiresAt: '2027-01-31t00:00:00.5+01:00' }],
  ['a container with a digest', entry({ container: 'web', image: `${IMAGE}@sha256:${'a'.repeat(64)}` })],
  ['a check without values', withoutValues({ check: 'privileged', container: 'web', image: IMAGE })],
  ['no spec', undefined, 'spec: Required value. Set spec.'],
  [
    'an empty spec',
    {},
    'spec.serviceAccountName: Required value. Set spec.serviceAccountName.',
    'spec.expiresAt: Required value. Set spec.expiresAt.',
    'spec.reason: Required value. Set spec.reason.',
    'spec.allow: Required value. Set spec.allow.',
  ],
  [
    'a misspelled check name',
    entry({ check: 'hostNamespace' }),
    `spec.allow[0].check: Unsupported value: "hostNamespace": ${CHECKS}. Write "hostNamespaces".`,
  ],
  [
    'a check of another tool',
    entry({ check: 'CKV_K8S_17' }),
    `spec.allow[0].check: Unsupported value: "CKV_K8S_17": ${CHECKS}. Use the ID of a check.`,
  ],
  ['no check', withoutValues({ values: ['x'] }), 'spec.allow[0].check: Required value. Set spec.allow[0].check.'],
  [
    'an impossible date',
    { ...SPEC, expiresAt: '2027-13-01T00:00:00Z' },
    `spec.expiresAt: Invalid value: "2027-13-01T00:00:00Z": ${TIME}`,
  ],
  [
    'a date without a time',
    { ...SPEC, expiresAt: '2027-01-31' },
    `spec.expiresAt: Invalid value: "2027-01-31": ${TIME}`,
  ],
  ['a date with words', { ...SPEC, expiresAt: '31 Jan 2027' }, `spec.expiresAt: Invalid value: "31 Jan 2027": ${TIME}`],
  ['an empty date', { ...SPEC, expiresAt: '' }, `spec.expiresAt: Invalid value: "": ${TIME}`],
  [
    'a duration',
    { ...SPEC, expiresAt: 14 },
    'spec.expiresAt: Invalid value: 14: must be a string. Put the value in quotes.',
  ],
  ['no entries', { ...SPEC, allow: [] }, `spec.allow: Invalid value: 0: ${LENGTH} Add an item to the list.`],
  [
    'too many entries',
    { ...SPEC, allow: Array.from({ length: 33 }, () => ENTRY) },
    `spec.allow: Invalid value: 33: ${LENGTH} Remove items from the list.`,
  ],
  [
    'one entry instead of a list',
    { ...SPEC, allow: ENTRY },
    `spec.allow: Invalid value: ${JSON.stringify(ENTRY)}: must be a list. Write it as the item of a list.`,
  ],
  [
    'an empty entry',
    { ...SPEC, allow: [null] },
    'spec.allow[0]: Invalid value: null: must be an object. Use a value of the required type.',
  ],
  ['a container without an image', entry({ container: 'web' }), `spec.allow[0]: Invalid value: "web": ${PAIR}`],
  ['an image without a container', entry({ image: IMAGE }), `spec.allow[0]: Invalid value: "${IMAGE}": ${PAIR}`],
  [
    'an image with a tag',
    entry({ container: 'web', image: `${IMAGE}:1` }),
    `spec.allow[0].image: Invalid value: "${IMAGE}:1": ${REPOSITORY}`,
  ],
  [
    'an image without a registry',
    entry({ container: 'web', image: 'web' }),
    `spec.allow[0].image: Invalid value: "web": ${REPOSITORY}`,
  ],
  [
    'an invalid container',
    entry({ container: 'Web', image: IMAGE }),
    'spec.allow[0].container: Invalid value: "Web": must be the name of a container. Use the name of a container or init container.',
  ],
  [
    'no values',
    withoutValues({ check: 'hostPorts' }),
    'spec.allow[0].values: Required value. Set spec.allow[0].values.',
  ],
  [
    'values for a check without values',
    withoutValues({ check: 'privileged', values: ['true'] }),
    'spec.allow[0].values: Invalid value: ["true"]: must not be set for privileged. Remove the field.',
  ],
  ['an empty list of values', values([]), `spec.allow[0].values: Invalid value: 0: ${LENGTH} Add an item to the list.`],
  [
    'an empty value',
    values(['']),
    'spec.allow[0].values[0]: Invalid value: "": must have 1 to 512 characters. Use the value of the field that violates the check.',
  ],
  [
    'a number as a value',
    values([8080]),
    'spec.allow[0].values[0]: Invalid value: 8080: must be a string. Put the value in quotes.',
  ],
  [
    'an invalid account',
    { ...SPEC, serviceAccountName: 'Web_1' },
    `spec.serviceAccountName: Invalid value: "Web_1": ${ACCOUNT}`,
  ],
  [
    'an empty reason',
    { ...SPEC, reason: '' },
    'spec.reason: Invalid value: "": must have 1 to 1024 characters. Give a reason, for example a ticket number.',
  ],
];

const definition = CRDS.find(({ metadata }) => metadata?.name === 'podsecurityexceptions.policy.portcullis.dev');
const [resource] = definedResources(definition as ApiObject);

function errors(object: object): readonly string[] {
  const { documents } = readDocuments(printYaml([object]), 'e.yaml');
  return documents
    .flatMap((document) => manifestObjects(document).objects)
    .flatMap((one) => exceptionErrors(one).map(({ error, fix }) => `${formatFieldError(error)}. ${fix}`));
}

suite('files and API servers report the same errors for an exception with', () => {
  for (const [name, spec, ...expected] of cases) {
    test(`${name}: ${expected.length === 0 ? 'valid' : 'invalid'}`, () => {
      const object = {
        apiVersion: 'policy.portcullis.dev/v1alpha1',
        kind: 'PodSecurityException',
        metadata: { name: 'e', namespace: 'shop' },
        ...(spec === undefined ? {} : { spec }),
      };
      assert.deepEqual(errors(object), expected);
      const rejections = resource?.strategy.validateCreate(structuredClone(object) as ApiObject) ?? [];
      assert.equal(
        rejections.length > 0,
        expected.length > 0,
        `API server: ${rejections.map(formatFieldError).join()}`,
      );
    });
  }

  test('unknown fields and versions of exceptions are reported', () => {
    const object = {
      apiVersion: 'policy.portcullis.dev/v1alpha1',
      kind: 'PodSecurityException',
      metadata: { name: 'e', namespace: 'shop' },
    };
    assert.deepEqual(errors({ ...object, spec: { ...SPEC, serviceAccount: 'x' } }), [
      'spec.serviceAccount: Forbidden: unknown field. Remove the field.',
    ]);
    assert.deepEqual(errors({ ...object, spec: { ...SPEC, expireAt: 'x' } }), [
      'spec.expireAt: Forbidden: unknown field. Write "expiresAt".',
    ]);
    assert.deepEqual(errors({ ...object, apiVersion: 'policy.portcullis.dev/v1', spec: SPEC }), [
      'apiVersion: Unsupported value: "policy.portcullis.dev/v1": supported values: "policy.portcullis.dev/v1alpha1". Use policy.portcullis.dev/v1alpha1.',
    ]);
  });
});
