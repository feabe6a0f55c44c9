import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { strategyOf } from '../../../src/dev-cluster/objects/index.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { formatFieldError } from '../../../src/kube/field-error.ts';

const strategy = strategyOf('', 'Pod');

/** A sound pod, defaults filled in, with changes to its spec and metadata. */
function pod(spec: object = {}, metadata: object = {}): ApiObject {
  const made: ApiObject = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'a', ...metadata },
    spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
  };
  strategy.defaults(made);
  return made;
}

function container(more: object = {}): object {
  return { name: 'c', image: 'i', ...more };
}

function errorsOf(object: ApiObject): string[] {
  return strategy.validateCreate(object).map(formatFieldError);
}

const LABEL =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

describe('new pods', () => {
  const cases: { name: string; given: ApiObject; errors: string[] }[] = [
    { name: 'a sound one', given: pod(), errors: [] },
    {
      name: 'names',
      given: pod({}, { name: 'Bad_Name', namespace: 'B' }),
      errors: [
        `metadata.name: Invalid value: "Bad_Name": ${SUBDOMAIN}`,
        `metadata.namespace: Invalid value: "B": ${LABEL}`,
      ],
    },
    {
      name: 'no name',
      given: pod({}, { name: '' }),
      errors: ['metadata.name: Required value: name or generateName is required'],
    },
    {
      name: 'a prefix that ends in a dash, and one that cannot be mended',
      given: pod({}, { name: 'a-x', generateName: 'A-' }),
      errors: [`metadata.generateName: Invalid value: "A-": ${SUBDOMAIN}`],
    },
    {
      name: 'labels, annotations, finalizers',
      given: pod({}, { labels: { '-': 'a b' }, annotations: { __proto__x: '', UPPER: 'ok' }, finalizers: ['x y'] }),
      errors: [
        `metadata.labels: Invalid value: "-": ${QUALIFIED}`,
        "metadata.labels: Invalid value: \"a b\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        `metadata.annotations: Invalid value: "__proto__x": ${QUALIFIED}`,
        `metadata.finalizers: Invalid value: "x y": ${QUALIFIED}`,
      ],
    },
    {
      name: 'annotations that are too long',
      given: pod({}, { annotations: { a: 'x'.repeat(262144) } }),
      errors: ['metadata.annotations: Too long: may not be more than 262144 bytes'],
    },
    {
      name: 'owners',
      given: pod(
        {},
        {
          ownerReferences: [
            { apiVersion: 'v1', kind: 'A', name: 'a', uid: '1', controller: true },
            { apiVersion: 'v1', kind: 'B', name: 'b', uid: '', controller: true },
          ],
        },
      ),
      errors: [
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},{"apiVersion":"v1","kind":"B","name":"b","uid":"","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for A/a and B/b',
      ],
    },
    { name: 'no containers', given: pod({ containers: [] }), errors: ['spec.containers: Required value'] },
    {
      name: 'containers without what they need',
      given: pod({
        containers: [
          { name: '', image: '' },
          { name: 'A', image: ' i' },
        ],
      }),
      errors: [
        'spec.containers[0].name: Required value',
        'spec.containers[0].image: Required value',
        `spec.containers[1].name: Invalid value: "A": ${LABEL}`,
        'spec.containers[1].image: Invalid value: " i": must not have leading or trailing whitespace',
      ],
    },
    {
      name: 'names that are taken',
      given: pod({
        containers: [container(), container()],
        initContainers: [container({ name: 'i' }), container()],
      }),
      errors: ['spec.containers[1].name: Duplicate value: "c"', 'spec.initContainers[1].name: Duplicate value: "c"'],
    },
    {
      name: 'policies',
      given: pod({
        restartPolicy: 'Sometimes',
        dnsPolicy: 'Guess',
        preemptionPolicy: 'Maybe',
        containers: [container({ imagePullPolicy: 'Perhaps', terminationMessagePolicy: 'Mail' })],
      }),
      errors: [
        'spec.containers[0].terminationMessagePolicy: Unsupported value: "Mail": supported values: "File", "FallbackToLogsOnError"',
        'spec.containers[0].imagePullPolicy: Unsupported value: "Perhaps": supported values: "Always", "IfNotPresent", "Never"',
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        'spec.dnsPolicy: Unsupported value: "Guess": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"',
        'spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"',
      ],
    },
    {
      name: 'ports',
      given: pod({
        hostNetwork: true,
        containers: [
          container({
            ports: [
              { containerPort: 80, hostPort: 81, name: 'UP' },
              { containerPort: 0, hostPort: 0 },
              { containerPort: 70000, hostPort: 70000, protocol: 'ICMP' },
              { containerPort: 81, hostPort: 81, name: 'a' },
              { containerPort: 82, name: 'a' },
            ],
          }),
        ],
      }),
      errors: [
        'spec.containers[0].ports[0].name: Invalid value: "UP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
        'spec.containers[0].ports[0].name: Invalid value: "UP": must contain at least one letter (a-z)',
        'spec.containers[0].ports[1].containerPort: Required value',
        'spec.containers[0].ports[2].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
        'spec.containers[0].ports[2].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
        'spec.containers[0].ports[2].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        'spec.containers[0].ports[4].name: Duplicate value: "a"',
        'spec.containers[0].ports[3].hostPort: Duplicate value: "TCP//81"',
        'spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true',
      ],
    },
    {
      name: 'variables',
      given: pod({
        containers: [
          container({
            env: [
              { name: '' },
              { name: 'a=b' },
              { name: '1 is fine', value: 'x' },
              { name: 'A', valueFrom: {} },
              { name: 'B', value: 'b', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
              { name: 'C', valueFrom: { secretKeyRef: { name: 's' }, configMapKeyRef: { name: 'c', key: 'k' } } },
            ],
            envFrom: [{}, { prefix: 'a=', secretRef: { name: '' } }],
          }),
        ],
      }),
      errors: [
        'spec.containers[0].env[0].name: Required value',
        'spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than \'=\'',
        'spec.containers[0].env[3].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`',
        'spec.containers[0].env[4].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        'spec.containers[0].env[5].valueFrom.secretKeyRef.key: Required value',
        'spec.containers[0].env[5].valueFrom: Invalid value: "": may not have more than one field specified at a time',
        'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
        'spec.containers[0].envFrom[1].prefix: Invalid value: "a=": a valid environment variable name must consist only of printable ASCII characters other than \'=\'',
        'spec.containers[0].envFrom[1].secretRef.name: Required value',
      ],
    },
    {
      name: 'volumes and where they are mounted',
      given: pod({
        containers: [
          container({
            volumeMounts: [
              { name: 'v', mountPath: '/v', subPath: '/abs' },
              { name: 'none', mountPath: '' },
              { name: 'v', mountPath: '/v', mountPropagation: 'Bidirectional' },
            ],
          }),
        ],
        volumes: [
          { name: 'v', hostPath: { path: '/a/../b', type: 'Sock' } },
          { name: 'V', secret: {}, emptyDir: {} },
          { name: 'v', emptyDir: {} },
          { name: 'v', configMap: { name: 'c', defaultMode: 8888, items: [{ key: '', path: '../x' }] } },
          { name: 'p', projected: { sources: [{}, { serviceAccountToken: { path: 't', expirationSeconds: 5 } }] } },
        ],
      }),
      errors: [
        'spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain \'..\'',
        'spec.volumes[0].hostPath.type: Unsupported value: "Sock": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"',
        'spec.volumes[1].secret.secretName: Required value',
        'spec.volumes[1].emptyDir: Forbidden: may not specify more than 1 volume type',
        `spec.volumes[1].name: Invalid value: "V": ${LABEL}`,
        'spec.volumes[3].configMap.defaultMode: Invalid value: 8888: must be a number between 0 and 0777 (octal), both inclusive',
        'spec.volumes[3].configMap.items[0].key: Required value',
        'spec.volumes[3].configMap.items[0].path: Invalid value: "../x": must not contain \'..\'',
        'spec.volumes[3].name: Duplicate value: "v"',
        'spec.volumes[4].projected.sources[0]: Required value: must specify at least 1 source',
        'spec.volumes[4].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes',
        'spec.containers[0].volumeMounts.subPath: Invalid value: "/abs": must be a relative path',
        'spec.containers[0].volumeMounts[1].name: Not found: "none"',
        'spec.containers[0].volumeMounts[1].mountPath: Required value',
        'spec.containers[0].volumeMounts[2].mountPath: Invalid value: "/v": must be unique',
        'spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers',
      ],
    },
    {
      name: 'resources',
      given: pod({
        containers: [
          container({
            resources: {
              limits: { cpu: '1', 'example.com/gpu': 2, memory: '-1' },
              requests: { cpu: '1500m', 'example.com/gpu': 1, 'hugepages-2Mi': '2Mi', disk: '1' },
            },
          }),
        ],
      }),
      errors: [
        'spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0',
        'spec.containers[0].resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1',
        'spec.containers[0].resources.requests: Invalid value: 1: must be equal to example.com/gpu limit of 2',
        'spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources',
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified',
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers',
        'spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0',
      ],
    },
    {
      name: 'probes and hooks',
      given: pod({
        containers: [
          container({
            livenessProbe: { successThreshold: 2, exec: { command: [] } },
            readinessProbe: { httpGet: { port: 'x y' }, tcpSocket: { port: 1 }, terminationGracePeriodSeconds: 0 },
            startupProbe: { periodSeconds: -1, grpc: { port: 0 } },
            lifecycle: { preStop: { sleep: { seconds: 60 } }, postStart: {} },
          }),
        ],
        initContainers: [container({ name: 'i', readinessProbe: { exec: { command: ['x'] } } })],
      }),
      errors: [
        'spec.containers[0].lifecycle.postStart: Required value: must specify a handler type',
        'spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)',
        'spec.containers[0].livenessProbe.exec.command: Required value',
        'spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1',
        'spec.containers[0].readinessProbe.httpGet.port: Invalid value: "x y": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
        'spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type',
        'spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0',
        'spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must not be set for readinessProbes',
        'spec.containers[0].startupProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive',
        'spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0',
        'spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always',
      ],
    },
    {
      name: 'security',
      given: pod({
        hostPID: true,
        hostNetwork: true,
        shareProcessNamespace: true,
        securityContext: {
          runAsUser: -1,
          supplementalGroups: [3000000000],
          sysctls: [{ name: 'net.core.somaxconn' }, { name: 'net.core.somaxconn' }, { name: 'A' }, { name: '' }],
          seccompProfile: { type: 'Localhost' },
          fsGroupChangePolicy: 'Never',
        },
        containers: [
          container({
            securityContext: {
              privileged: true,
              allowPrivilegeEscalation: false,
              procMount: 'Unmasked',
              seccompProfile: { type: 'Some', localhostProfile: 'x' },
              appArmorProfile: {},
            },
          }),
        ],
      }),
      errors: [
        'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`',
        'spec.containers[0].securityContext.seccompProfile.type: Unsupported value: "Some": supported values: "Localhost", "RuntimeDefault", "Unconfined"',
        'spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: {"type":"Some","localhostProfile":"x"}: can only be set when seccomp type is Localhost',
        'spec.containers[0].securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set',
        'spec.containers[0].securityContext: Invalid value: {"privileged":true,"allowPrivilegeEscalation":false,"procMount":"Unmasked","seccompProfile":{"type":"Some","localhostProfile":"x"},"appArmorProfile":{}}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true',
        'spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive',
        'spec.securityContext.supplementalGroups[0]: Invalid value: 3000000000: must be between 0 and 2147483647, inclusive',
        'spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled',
        'spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when \'hostNetwork\' is true',
        'spec.securityContext.sysctls[1].name: Duplicate value: "net.core.somaxconn"',
        'spec.securityContext.sysctls[1].name: Invalid value: "net.core.somaxconn": may not be specified when \'hostNetwork\' is true',
        'spec.securityContext.sysctls[2].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$',
        'spec.securityContext.sysctls[3].name: Required value',
        'spec.securityContext.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"',
        'spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost',
      ],
    },
    {
      name: 'user namespaces',
      given: pod({ hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true }),
      errors: [
        'spec.hostNetwork: Forbidden: when `hostUsers` is false',
        'spec.HostPID: Forbidden: when `hostUsers` is false',
        'spec.HostIPC: Forbidden: when `hostUsers` is false',
      ],
    },
    {
      name: 'Windows',
      given: pod({
        os: { name: 'windows' },
        hostPID: true,
        securityContext: { runAsUser: 1, windowsOptions: { hostProcess: true } },
        containers: [
          container({ securityContext: { privileged: true } }),
          container({ name: 'd', securityContext: { windowsOptions: { hostProcess: false } } }),
        ],
      }),
      errors: [
        'spec.containers[1].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true',
        'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers',
        'spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers',
        'spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod',
        'spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod',
        'spec.hostPID: Forbidden: cannot be set for a windows pod',
      ],
    },
    {
      name: 'Linux and others',
      given: pod({ os: { name: 'linux' }, securityContext: { windowsOptions: {} } }),
      errors: ['spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod'],
    },
    {
      name: 'another system',
      given: pod({ os: { name: 'plan9' } }),
      errors: ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'],
    },
    {
      name: 'names of other objects',
      given: pod({
        serviceAccountName: 'A',
        nodeName: 'b_',
        runtimeClassName: '',
        hostname: 'a.b',
        priorityClassName: '-',
      }),
      errors: [
        `spec.serviceAccountName: Invalid value: "A": ${SUBDOMAIN}`,
        `spec.nodeName: Invalid value: "b_": ${SUBDOMAIN}`,
        `spec.priorityClassName: Invalid value: "-": ${SUBDOMAIN}`,
        `spec.runtimeClassName: Invalid value: "": ${SUBDOMAIN}`,
        'spec.hostname: Invalid value: "a.b": must not contain dots',
      ],
    },
    {
      name: 'tolerations and deadlines',
      given: pod({
        activeDeadlineSeconds: 0,
        tolerations: [
          { operator: 'Equal' },
          { key: 'a', operator: 'Exists', value: 'b', tolerationSeconds: 1 },
          { key: 'a', operator: 'Like', effect: 'Some' },
        ],
      }),
      errors: [
        'spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive',
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"',
        'spec.tolerations[1].effect: Invalid value: "": effect must be \'NoExecute\' when `tolerationSeconds` is set',
        'spec.tolerations[1].operator: Invalid value: "b": value must be empty when `operator` is \'Exists\'',
        'spec.tolerations[2].operator: Unsupported value: "Like": supported values: "Equal", "Exists"',
        'spec.tolerations[2].effect: Unsupported value: "Some": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
      ],
    },
    {
      name: 'DNS of its own',
      given: pod({ dnsPolicy: 'None' }),
      errors: ['spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None'],
    },
    {
      name: 'what a new pod cannot have',
      given: pod({ ephemeralContainers: [container({ name: 'e' })], nodeName: 'n', schedulingGates: [{ name: 'g' }] }),
      errors: [
        'spec.ephemeralContainers: Forbidden: cannot be set on create',
        'spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared',
      ],
    },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(errorsOf(given), errors));
  }

  test('values of a wrong type are not taken for errors, nor do they fail', () => {
    const odd = {
      containers: 'x',
      volumes: [1, null],
      securityContext: [],
      tolerations: {},
      os: 'linux',
      dnsConfig: 3,
    };
    assert.deepEqual(errorsOf(pod(odd)).length > 0, true);
  });
});

describe('what the server sets on a new pod', () => {
  const cases: { name: string; given: ApiObject; status: object }[] = [
    { name: 'no resources', given: pod(), status: { phase: 'Pending', qosClass: 'BestEffort' } },
    {
      name: 'some resources, and a status of its own',
      given: {
        ...pod({ containers: [container({ resources: { requests: { cpu: '1' } } })] }),
        status: { phase: 'Running' },
      },
      status: { phase: 'Pending', qosClass: 'Burstable' },
    },
    {
      name: 'all resources',
      given: pod({ containers: [container({ resources: { limits: { cpu: '1', memory: '1Gi' } } })] }),
      status: { phase: 'Pending', qosClass: 'Guaranteed' },
    },
    {
      name: 'the same amounts in other words',
      given: pod({
        containers: [
          container({
            resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '1000m', memory: '1024Mi' } },
          }),
        ],
      }),
      status: { phase: 'Pending', qosClass: 'Guaranteed' },
    },
    {
      name: 'all resources but in one container',
      given: pod({
        containers: [container({ resources: { limits: { cpu: '1', memory: '1Gi' } } }), container({ name: 'd' })],
      }),
      status: { phase: 'Pending', qosClass: 'Burstable' },
    },
    {
      name: 'scheduling gates',
      given: pod({ schedulingGates: [{ name: 'g' }] }),
      status: {
        phase: 'Pending',
        conditions: [
          {
            type: 'PodScheduled',
            status: 'False',
            reason: 'SchedulingGated',
            message: 'Scheduling is blocked due to non-empty scheduling gates',
          },
        ],
        qosClass: 'BestEffort',
      },
    },
  ];
  for (const { name, given, status } of cases) {
    test(name, () => {
      strategy.prepareForCreate(given);
      assert.deepEqual(given['status'], status);
      assert.equal(given.metadata?.['generation'], 1);
    });
  }
});

/** What becomes of a change: the object as it would be stored, or what is wrong with it. */
function change(old: ApiObject, next: ApiObject, subresource = ''): { object: ApiObject; errors: string[] } {
  const object = structuredClone(next);
  strategy.prepareForUpdate(object, old, subresource);
  return { object, errors: strategy.validateUpdate(object, old, subresource).map(formatFieldError) };
}

const MUTABLE =
  'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';

describe('changed pods', () => {
  const old = (): ApiObject => ({
    ...pod({}, { generation: 1 }),
    status: { phase: 'Pending', qosClass: 'BestEffort' },
  });
  const cases: { name: string; given: ApiObject; errors?: string[]; generation?: number }[] = [
    { name: 'nothing', given: pod() },
    { name: 'labels', given: pod({}, { labels: { a: 'b' } }) },
    { name: 'an image', given: pod({ containers: [container({ image: 'j' })] }), generation: 2 },
    { name: 'a deadline', given: pod({ activeDeadlineSeconds: 5 }), generation: 2 },
    { name: 'a toleration more', given: pod({ tolerations: [{ operator: 'Exists' }] }), generation: 2 },
    {
      name: 'no image',
      given: pod({ containers: [container({ image: '' })] }),
      generation: 2,
      // The image decides when it is pulled, too, unless that is given.
      errors: [
        'spec.containers[0].image: Required value',
        `spec: Forbidden: ${MUTABLE}\n@@ -2,7 +2,7 @@\n  "containers": [\n   {\n    "image": "i",\n-   "imagePullPolicy": "Always",\n+   "imagePullPolicy": "IfNotPresent",\n    "name": "c",\n    "resources": {},\n    "terminationMessagePath": "/dev/termination-log",\n`,
      ],
    },
    {
      name: 'a container more',
      given: pod({ containers: [container(), container({ name: 'd' })] }),
      generation: 2,
      errors: ['spec.containers: Forbidden: pod updates may not add or remove containers'],
    },
    {
      name: 'anything else',
      given: pod({ hostPID: true }),
      generation: 2,
      errors: [
        `spec: Forbidden: ${MUTABLE}\n@@ -11,6 +11,7 @@\n  ],\n  "dnsPolicy": "ClusterFirst",\n  "enableServiceLinks": true,\n+ "hostPID": true,\n  "restartPolicy": "Always",\n  "schedulerName": "default-scheduler",\n  "securityContext": {},\n`,
      ],
    },
    {
      name: 'a scheduling gate',
      given: pod({ schedulingGates: [{ name: 'g' }] }),
      generation: 2,
      errors: ['spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate'],
    },
    { name: 'its uid', given: pod({}, { uid: 'u' }), errors: ['metadata.uid: Invalid value: "u": field is immutable'] },
  ];
  for (const { name, given, errors = [], generation = 1 } of cases) {
    test(name, () => {
      const result = change(old(), given);
      assert.deepEqual(result.errors, errors);
      assert.equal(result.object.metadata?.['generation'], generation);
      assert.deepEqual(result.object['status'], old()['status']);
    });
  }

  test('a finalizer on its way out', () => {
    const leaving = pod({}, { deletionTimestamp: 'now', finalizers: ['a.b/c'] });
    const given = pod({}, { deletionTimestamp: 'now', finalizers: ['a.b/c', 'z.b/c', 'b.b/c'] });
    assert.deepEqual(change(leaving, given).errors, [
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"b.b/c", "z.b/c"}',
    ]);
  });

  test('a deadline goes down only', () => {
    const limited = pod({ activeDeadlineSeconds: 5 });
    assert.deepEqual(change(limited, pod({ activeDeadlineSeconds: 6 })).errors, [
      'spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value',
    ]);
    assert.deepEqual(change(limited, pod()).errors, [
      'spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value',
    ]);
    assert.deepEqual(change(limited, pod({ activeDeadlineSeconds: 1 })).errors, []);
  });

  test('existing tolerations stay', () => {
    const tolerant = pod({
      tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 }],
    });
    const longer = pod({ tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 6 }] });
    assert.deepEqual(change(tolerant, longer).errors, []);
    assert.deepEqual(change(tolerant, pod()).errors, [
      'spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds',
    ]);
  });
});

describe('parts of a pod', () => {
  test('status: the rest stays', () => {
    const old: ApiObject = {
      ...pod({}, { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u' }], generation: 3 }),
      status: { phase: 'Pending', qosClass: 'Burstable' },
    };
    const next = { ...pod({ hostPID: true }, { labels: { a: 'b' } }), status: { phase: 'Running' } };
    const { object, errors } = change(old, next, 'status');
    assert.deepEqual(errors, []);
    assert.deepEqual(object['spec'], old['spec']);
    assert.deepEqual(object['status'], { qosClass: 'Burstable', phase: 'Running' });
    assert.deepEqual(object.metadata, {
      name: 'p',
      namespace: 'a',
      labels: { a: 'b' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u' }],
      generation: 3,
    });
  });

  const debug = (more: object = {}): object => ({ name: 'debug', image: 'd', ...more });

  test('ephemeral containers: nothing else changes', () => {
    const { object, errors } = change(
      pod({}, { generation: 1 }),
      pod({ hostPID: true, ephemeralContainers: [debug({ targetContainerName: 'c' })] }, { labels: { a: 'b' } }),
      'ephemeralcontainers',
    );
    assert.deepEqual(errors, []);
    assert.deepEqual(object.metadata, { name: 'p', namespace: 'a', generation: 2 });
    assert.deepEqual(object['spec'], pod({ ephemeralContainers: [debug({ targetContainerName: 'c' })] })['spec']);
  });

  const refused: { name: string; old: object[]; next: object[]; errors: string[] }[] = [
    {
      name: 'one that stays may not change',
      old: [debug()],
      next: [debug({ tty: true })],
      errors: [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed\n@@ -4,5 +4,6 @@\n  "name": "debug",\n  "resources": {},\n  "terminationMessagePath": "/dev/termination-log",\n- "terminationMessagePolicy": "File"\n+ "terminationMessagePolicy": "File",\n+ "tty": true\n }\n',
      ],
    },
    {
      name: 'one that is there may not go',
      old: [debug()],
      next: [],
      errors: ['spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed\n'],
    },
    {
      name: 'what ephemeral containers cannot have',
      old: [],
      next: [debug({ name: 'c', ports: [{ containerPort: 1 }], lifecycle: { preStop: {} }, targetContainerName: 'x' })],
      errors: [
        'spec.ephemeralContainers[0].name: Duplicate value: "c"',
        'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
        'spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container',
        'spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container',
      ],
    },
  ];
  for (const { name, old, next, errors } of refused) {
    test(name, () => {
      const result = change(
        pod({ ephemeralContainers: old }),
        pod({ ephemeralContainers: next }),
        'ephemeralcontainers',
      );
      assert.deepEqual(result.errors, errors);
    });
  }

  const sized = (cpu: string, more: object = {}): ApiObject =>
    pod({ containers: [container({ resources: { requests: { cpu } }, ...more })] });
  const resizes: { name: string; next: ApiObject; errors: string[] }[] = [
    { name: 'resize', next: sized('2'), errors: [] },
    {
      name: 'resize changes nothing but resources',
      next: sized('1', { image: 'other' }),
      errors: ['spec: Forbidden: only cpu and memory resources are mutable'],
    },
    {
      name: 'resize takes nothing away',
      next: pod({ containers: [container({ resources: { requests: { memory: '1' } } })] }),
      errors: ['spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed'],
    },
    {
      name: 'resize keeps the class',
      next: pod({
        containers: [
          container({ resources: { requests: { cpu: '1', memory: '1' }, limits: { cpu: '1', memory: '1' } } }),
        ],
      }),
      errors: ['spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'],
    },
  ];
  for (const { name, next, errors } of resizes) {
    test(name, () => assert.deepEqual(change(sized('1'), next, 'resize').errors, errors));
  }
});

describe('warnings', () => {
  const cases: { name: string; given: ApiObject; warnings: string[] }[] = [
    { name: 'none', given: pod(), warnings: [] },
    {
      name: 'annotations of old',
      given: pod(
        {},
        {
          annotations: {
            'seccomp.security.alpha.kubernetes.io/pod': 'x',
            'container.seccomp.security.alpha.kubernetes.io/c': 'x',
            'container.apparmor.security.beta.kubernetes.io/c': 'x',
          },
        },
      ),
      warnings: [
        'metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead',
        'metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead',
        'metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead',
      ],
    },
    {
      name: 'what is hidden or said twice',
      given: pod({
        containers: [
          container({
            env: [
              { name: 'A', value: '1' },
              { name: 'A', value: '2' },
              { name: 'A', value: '$(A)3' },
            ],
            ports: [{ containerPort: 1 }, { containerPort: 1 }],
          }),
        ],
        volumes: [{ name: 'v', glusterfs: {} }],
        terminationGracePeriodSeconds: -1,
      }),
      warnings: [
        'spec.volumes[0].glusterfs: deprecated in v1.25, non-functional in v1.26+',
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        'spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]',
        'spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1',
      ],
    },
    {
      name: 'a name that is no host name',
      given: pod({}, { name: 'a.b' }),
      warnings: [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
      ],
    },
  ];
  for (const { name, given, warnings } of cases) {
    test(name, () => assert.deepEqual(strategy.warnings(given), warnings));
  }
});
