import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { applyDefaults } from '../../src/kube/defaults.ts';

type Json = Record<string, unknown>;

/** The container `{name, image: i}` with its defaults. */
const CONTAINER = {
  image: 'i',
  resources: {},
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  imagePullPolicy: 'Always',
};

const TEMPLATE_SPEC = {
  dnsPolicy: 'ClusterFirst',
  restartPolicy: 'Always',
  securityContext: {},
  terminationGracePeriodSeconds: 30,
  schedulerName: 'default-scheduler',
};

const POD_SPEC = { ...TEMPLATE_SPEC, enableServiceLinks: true };

function defaulted(object: Json): Json {
  const copy = structuredClone(object);
  applyDefaults(copy);
  return copy;
}

function podWith(spec: Json): Json {
  return { apiVersion: 'v1', kind: 'Pod', spec };
}

function specOf(spec: Json): Json {
  return defaulted(podWith(spec))['spec'] as Json;
}

describe('pods', () => {
  const cases: { name: string; given: Json; expected: Json }[] = [
    {
      name: 'an empty spec',
      given: {},
      expected: POD_SPEC,
    },
    {
      name: 'a container',
      given: { containers: [{ name: 'c', image: 'i' }] },
      expected: { ...POD_SPEC, containers: [{ name: 'c', ...CONTAINER }] },
    },
    {
      name: 'set fields do not change',
      given: {
        dnsPolicy: 'None',
        restartPolicy: 'Never',
        securityContext: { runAsUser: 1 },
        enableServiceLinks: false,
      },
      expected: {
        ...POD_SPEC,
        dnsPolicy: 'None',
        restartPolicy: 'Never',
        securityContext: { runAsUser: 1 },
        enableServiceLinks: false,
      },
    },
    {
      name: 'host ports in the host network, except of ephemeral containers',
      given: {
        hostNetwork: true,
        containers: [
          {
            name: 'c',
            image: 'i',
            ports: [{ containerPort: 80 }, { containerPort: 53, hostPort: 53, protocol: 'UDP' }],
          },
        ],
        ephemeralContainers: [{ name: 'e', image: 'i', ports: [{ containerPort: 81 }] }],
      },
      expected: {
        ...POD_SPEC,
        hostNetwork: true,
        containers: [
          {
            name: 'c',
            ...CONTAINER,
            ports: [
              { containerPort: 80, protocol: 'TCP', hostPort: 80 },
              { containerPort: 53, hostPort: 53, protocol: 'UDP' },
            ],
          },
        ],
        ephemeralContainers: [{ name: 'e', ...CONTAINER, ports: [{ containerPort: 81, protocol: 'TCP' }] }],
      },
    },
    {
      name: 'requests default to limits',
      given: {
        containers: [
          { name: 'c', image: 'i', resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } } },
        ],
      },
      expected: {
        ...POD_SPEC,
        containers: [
          {
            name: 'c',
            ...CONTAINER,
            resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m', memory: '1Gi' } },
          },
        ],
      },
    },
    {
      name: 'serviceAccount sets serviceAccountName',
      given: { serviceAccount: 'app' },
      expected: { ...POD_SPEC, serviceAccount: 'app', serviceAccountName: 'app' },
    },
    {
      name: 'serviceAccountName overrides serviceAccount',
      given: { serviceAccount: 'old', serviceAccountName: 'app' },
      expected: { ...POD_SPEC, serviceAccount: 'app', serviceAccountName: 'app' },
    },
    {
      name: 'volumes',
      given: {
        volumes: [
          { name: 'none' },
          { name: 'null', hostPath: null },
          { name: 'secret', secret: { secretName: 's' } },
          { name: 'host', hostPath: { path: '/' } },
          { name: 'claim', ephemeral: { volumeClaimTemplate: {} } },
          {
            name: 'projected',
            projected: {
              sources: [{ serviceAccountToken: {} }, { downwardAPI: { items: [{ fieldRef: { fieldPath: 'x' } }] } }],
            },
          },
        ],
      },
      expected: {
        ...POD_SPEC,
        volumes: [
          { name: 'none', emptyDir: {} },
          { name: 'null', hostPath: null, emptyDir: {} },
          { name: 'secret', secret: { secretName: 's', defaultMode: 420 } },
          { name: 'host', hostPath: { path: '/', type: '' } },
          { name: 'claim', ephemeral: { volumeClaimTemplate: { spec: { volumeMode: 'Filesystem' } } } },
          {
            name: 'projected',
            projected: {
              sources: [
                { serviceAccountToken: { expirationSeconds: 3600 } },
                { downwardAPI: { items: [{ fieldRef: { fieldPath: 'x', apiVersion: 'v1' } }] } },
              ],
              defaultMode: 420,
            },
          },
        ],
      },
    },
    {
      name: 'probes and hooks',
      given: {
        containers: [
          {
            name: 'c',
            image: 'i',
            livenessProbe: { httpGet: { port: 80 }, periodSeconds: 0 },
            readinessProbe: { grpc: { port: 1 }, timeoutSeconds: 7 },
            lifecycle: { preStop: { httpGet: { port: 81, path: '/bye' } } },
          },
        ],
      },
      expected: {
        ...POD_SPEC,
        containers: [
          {
            name: 'c',
            ...CONTAINER,
            livenessProbe: {
              httpGet: { port: 80, path: '/', scheme: 'HTTP' },
              timeoutSeconds: 1,
              periodSeconds: 10,
              successThreshold: 1,
              failureThreshold: 3,
            },
            readinessProbe: {
              grpc: { port: 1, service: '' },
              timeoutSeconds: 7,
              periodSeconds: 10,
              successThreshold: 1,
              failureThreshold: 3,
            },
            lifecycle: { preStop: { httpGet: { port: 81, path: '/bye', scheme: 'HTTP' } } },
          },
        ],
      },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(specOf(given), expected));
  }
});

describe('the image pull policy', () => {
  const cases: [image: string, policy: string][] = [
    ['nginx', 'Always'],
    ['nginx:latest', 'Always'],
    ['nginx:1.27', 'IfNotPresent'],
    ['registry:5000/nginx', 'Always'],
    ['registry:5000/nginx:1', 'IfNotPresent'],
    ['registry.example.com/team/app', 'Always'],
    ['nginx@sha256:0123456789abcdef', 'IfNotPresent'],
    ['nginx:latest@sha256:0123456789abcdef', 'Always'],
    ['localhost/App', 'IfNotPresent'],
    ['', 'IfNotPresent'],
  ];
  for (const [image, policy] of cases) {
    test(`${image} ${policy}`, () => {
      const [container] = specOf({ containers: [{ name: 'c', image }] })['containers'] as Json[];
      assert.equal(container?.['imagePullPolicy'], policy);
    });
  }
});

describe('other kinds', () => {
  const cases: { name: string; given: Json; expected: Json }[] = [
    {
      name: 'the label of a namespace with its name',
      given: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } },
      expected: {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: 'a', labels: { 'kubernetes.io/metadata.name': 'a' } },
        status: { phase: 'Active' },
      },
    },
    {
      name: 'a namespace with generateName',
      given: { apiVersion: 'v1', kind: 'Namespace', metadata: { generateName: 'a-' } },
      expected: { apiVersion: 'v1', kind: 'Namespace', metadata: { generateName: 'a-' }, status: { phase: 'Active' } },
    },
    {
      name: 'a Deployment and its template',
      given: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        spec: {
          template: {
            spec: { hostNetwork: true, containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 1 }] }] },
          },
        },
      },
      expected: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        spec: {
          replicas: 1,
          template: {
            metadata: {},
            spec: {
              ...TEMPLATE_SPEC,
              hostNetwork: true,
              containers: [{ name: 'c', ...CONTAINER, ports: [{ containerPort: 1, protocol: 'TCP' }] }],
            },
          },
          strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
          revisionHistoryLimit: 10,
          progressDeadlineSeconds: 600,
        },
      },
    },
    {
      name: 'a CronJob',
      given: { apiVersion: 'batch/v1', kind: 'CronJob', spec: { jobTemplate: { spec: { template: { spec: {} } } } } },
      expected: {
        apiVersion: 'batch/v1',
        kind: 'CronJob',
        spec: {
          concurrencyPolicy: 'Allow',
          suspend: false,
          successfulJobsHistoryLimit: 3,
          failedJobsHistoryLimit: 1,
          jobTemplate: { metadata: {}, spec: { template: { metadata: {}, spec: TEMPLATE_SPEC } } },
        },
      },
    },
    {
      name: 'a webhook configuration',
      given: {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'MutatingWebhookConfiguration',
        webhooks: [{ clientConfig: { service: {} }, rules: [{}], timeoutSeconds: 3 }],
      },
      expected: {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'MutatingWebhookConfiguration',
        webhooks: [
          {
            clientConfig: { service: { port: 443 } },
            rules: [{ scope: '*' }],
            timeoutSeconds: 3,
            failurePolicy: 'Fail',
            matchPolicy: 'Equivalent',
            namespaceSelector: {},
            objectSelector: {},
            reinvocationPolicy: 'Never',
          },
        ],
      },
    },
    {
      name: 'subjects of a binding',
      given: {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        roleRef: { kind: 'Role', name: 'r' },
        subjects: [
          { kind: 'User', name: 'a' },
          { kind: 'ServiceAccount', name: 'b' },
        ],
      },
      expected: {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        roleRef: { kind: 'Role', name: 'r', apiGroup: 'rbac.authorization.k8s.io' },
        subjects: [
          { kind: 'User', name: 'a', apiGroup: 'rbac.authorization.k8s.io' },
          { kind: 'ServiceAccount', name: 'b' },
        ],
      },
    },
    {
      name: 'an unknown group',
      given: { apiVersion: 'example.com/v1', kind: 'Pod', spec: {} },
      expected: { apiVersion: 'example.com/v1', kind: 'Pod', spec: {} },
    },
    {
      name: 'a kind that is a name of Object.prototype',
      given: { apiVersion: 'v1', kind: 'constructor' },
      expected: { apiVersion: 'v1', kind: 'constructor' },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(defaulted(given), expected));
  }
});

const KINDS = [
  ['v1', 'Pod'],
  ['v1', 'Namespace'],
  ['v1', 'Service'],
  ['v1', 'ReplicationController'],
  ['apps/v1', 'Deployment'],
  ['apps/v1', 'StatefulSet'],
  ['apps/v1', 'DaemonSet'],
  ['batch/v1', 'CronJob'],
  ['batch/v1', 'Job'],
  ['admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration'],
] as const;

const NAMES = 'spec template containers volumes metadata labels resources limits __proto__ ports'.split(' ');

/** Objects with fields of known names and any values. */
const parts = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, depthIdentifier: 'part' },
    fc.jsonValue({ maxDepth: 1 }),
    tie('part'),
    fc.array(tie('part'), { maxLength: 3, depthIdentifier: 'part' }),
  ),
  part: fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 4, depthIdentifier: 'part' }),
})).part;

test('applyDefaults is idempotent and does not throw', () => {
  fc.assert(
    fc.property(fc.constantFrom(...KINDS), parts, ([apiVersion, kind], part) => {
      const object = { ...(part as Json), apiVersion, kind };
      const once = defaulted(object);
      assert.deepEqual(defaulted(once), once);
    }),
    { numRuns: 500 },
  );
});
