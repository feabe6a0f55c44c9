/** Tests the types and the unknown fields of built-in kinds in `check`, and the changes of `check --fix`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const POD = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
`;
const CONTAINERS = `  containers:
  - name: c
    image: i
`;

interface JsonReport {
  readonly objects: readonly {
    readonly findings: readonly {
      readonly mode: string;
      readonly check: string;
      readonly detail: string;
      readonly fix: string;
      readonly fields: readonly { readonly line: number; readonly column: number }[];
    }[];
  }[];
}

/** Prints each finding about fields as `mode check line:column detail | fix`. */
async function findings(stdin: string): Promise<{ readonly code: number; readonly lines: readonly string[] }> {
  const { code, stdout } = await runProgram(['check', '-f', '-', '--level=privileged', '-o', 'json'], { stdin });
  const { objects } = JSON.parse(stdout) as JsonReport;
  const lines = objects.flatMap((object) =>
    object.findings.map(({ mode, check, detail, fix, fields: [field] }) => {
      return `${mode} ${check} ${field?.line}:${field?.column} ${detail} | ${fix}`;
    }),
  );
  return { code, lines };
}

const QUOTES = 'Put the value in quotes.';
const NO_QUOTES = 'Remove the quotes.';
const TYPE = 'Use a value of the required type.';

describe('a value that API servers cannot decode fails at every level', () => {
  const cases: readonly (readonly [name: string, text: string, line: string])[] = [
    [
      'a number in env',
      `${POD}${CONTAINERS}    env: [{name: PORT, value: 8080}]\n`,
      `8:24 spec.containers[0].env[0].value: Invalid value: 8080: must be a string | ${QUOTES}`,
    ],
    [
      'a word that is a boolean in YAML',
      `${POD}${CONTAINERS}    args: [on]\n`,
      `8:12 spec.containers[0].args[0]: Invalid value: true: must be a string | ${QUOTES}`,
    ],
    [
      'a map in place of a list of objects',
      `${POD}${CONTAINERS}    env: {A: b}\n`,
      '8:5 spec.containers[0].env: Invalid value: {"A":"b"}: must be a list | Begin each item of the list with a hyphen.',
    ],
    [
      'one value in place of a list',
      `${POD}${CONTAINERS}    command: sh\n`,
      '8:5 spec.containers[0].command: Invalid value: "sh": must be a list | Write it as the item of a list.',
    ],
    [
      'a label',
      `${POD.replace('{name: p}', '{name: p, labels: {version: 1.10}}')}${CONTAINERS}`,
      `3:30 metadata.labels.version: Invalid value: 1.1: must be a string | ${QUOTES}`,
    ],
    [
      'a quoted number',
      `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: "3"}\n`,
      `4:8 spec.replicas: Invalid value: "3": must be a 32-bit integer | ${NO_QUOTES}`,
    ],
    [
      'a number beyond 32 bits',
      `${POD}${CONTAINERS}    ports: [{containerPort: 4294967296}]\n`,
      `8:14 spec.containers[0].ports[0].containerPort: Invalid value: 4294967296: must be a 32-bit integer | ${TYPE}`,
    ],
    [
      'a quantity',
      `${POD}${CONTAINERS}    resources: {limits: {memory: 1GB}}\n`,
      `8:26 spec.containers[0].resources.limits.memory: Invalid value: "1GB": must be a quantity, such as 500m or 1Gi | ${TYPE}`,
    ],
    [
      'a boolean in place of a number or a name',
      `${POD}${CONTAINERS}    livenessProbe: {httpGet: {port: true}}\n`,
      `8:31 spec.containers[0].livenessProbe.httpGet.port: Invalid value: true: must be a 32-bit integer or a string | ${QUOTES}`,
    ],
    [
      'a date',
      `${POD.replace('{name: p}', '{name: p, creationTimestamp: "2026-01-31"}')}${CONTAINERS}`,
      `3:21 metadata.creationTimestamp: Invalid value: "2026-01-31": must be a time in RFC 3339 format, such as 2026-01-31T15:04:05Z | ${TYPE}`,
    ],
    [
      'text in the data of a Secret',
      'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: hunter2}\n',
      `4:8 data.password: Invalid value: "hunter2": must be text in base64 | ${TYPE}`,
    ],
    [
      'a RoleBinding',
      'apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r}\nsubjects: {kind: User, name: u}\n',
      '4:1 subjects: Invalid value: {"kind":"User","name":"u"}: must be a list | Write it as the item of a list.',
    ],
    [
      'a label of a Namespace',
      'apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {pod-security.kubernetes.io/enforce: 1}}\n',
      `3:30 metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: 1: must be a string | ${QUOTES}`,
    ],
    [
      'an item of a PodList',
      `apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: 1}}]\n`,
      `3:21 metadata.name: Invalid value: 1: must be a string | ${QUOTES}`,
    ],
  ];
  for (const [name, text, line] of cases) {
    test(name, async () => {
      assert.deepEqual(await findings(text), { code: 1, lines: [`enforce decode ${line}`] });
    });
  }

  test('no policy is evaluated on the object', async () => {
    const stdin = `${POD}  hostPID: true\n${CONTAINERS}    env: [{name: PORT, value: 8080}]\n`;
    const { stdout } = await runProgram(['check', '-f', '-'], { stdin });
    assert.equal(
      stdout,
      `Pod default/p is invalid
  stdin:9:24  decode  wrong type (spec.containers[0].env[0].value: Invalid value: 8080: must be a string)
                      Fix: ${QUOTES}

0 passed, 1 failed
`,
    );
  });
});

test('values that Go decodes pass', async () => {
  const text = `${POD.replace('{name: p}', '{name: p, creationTimestamp: null, labels: {a: null}}')}${CONTAINERS}    args: [null]
    ports: [{containerPort: 80.0, hostPort: 0}]
    resources: {limits: {cpu: 1, memory: 1.5e9}}
    readinessProbe: {httpGet: {port: http}}
`;
  assert.deepEqual(await findings(text), { code: 0, lines: [] });
});

test('the other commands end with the positions of the values', async () => {
  const stdin = `${POD}${CONTAINERS}    env: [{name: PORT, value: 8080}, {name: DEBUG, value: yes}]\n`;
  const path = 'API servers cannot decode the Pod: spec.containers[0].env';
  const commands = ['explain --offline', 'scc plan', 'report', 'rollout plan'];
  for (const command of commands) {
    const { code, stderr } = await runProgram([...command.split(' '), '-f', '-'], { stdin });
    assert.equal(
      stderr,
      `error: stdin:8:24: ${path}[0].value: Invalid value: 8080: must be a string. ${QUOTES}
stdin:8:52: ${path}[1].value: Invalid value: true: must be a string. ${QUOTES}
`,
      command,
    );
    assert.equal(code, 2);
  }
});

const DROPPED = 'Correct the name or remove the field: API servers may drop it silently.';

describe('an unknown field is a violation in warn mode with the place where it belongs', () => {
  const deployment = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n';
  const cases: readonly (readonly [name: string, text: string, field: string, fix: string])[] = [
    [
      'a field of a container in the security context of the pod',
      `${POD}  securityContext: {capabilities: {drop: [ALL]}}\n${CONTAINERS}`,
      '5:21 "spec.securityContext.capabilities"',
      'Move it to spec.containers[].securityContext.',
    ],
    [
      'a field of the pod in the security context of a container',
      `${POD}${CONTAINERS}    securityContext: {fsGroup: 1}\n`,
      '8:23 "spec.containers[0].securityContext.fsGroup"',
      'Move it to spec.securityContext.',
    ],
    ['other capitalization', `${POD}  HostPID: true\n${CONTAINERS}`, '5:3 "spec.HostPID"', 'Write "hostPID".'],
    [
      'a similar name',
      `${POD}  securityContex: {runAsUser: 1}\n${CONTAINERS}`,
      '5:3 "spec.securityContex"',
      'Write "securityContext".',
    ],
    [
      'a field beside the security context',
      `${POD}${CONTAINERS}    privileged: true\n`,
      '8:5 "spec.containers[0].privileged"',
      'Move it to spec.containers[0].securityContext.',
    ],
    [
      'a field of a container in the pod',
      `${POD}  image: i\n${CONTAINERS}`,
      '5:3 "spec.image"',
      'Move it to spec.containers[].',
    ],
    [
      'a field of the pod in a container',
      `${POD}${CONTAINERS}    hostNetwork: true\n`,
      '8:5 "spec.containers[0].hostNetwork"',
      'Move it to spec.',
    ],
    [
      'a field of the pod in a workload',
      `${deployment}  serviceAccountName: a\n`,
      '5:3 "spec.serviceAccountName"',
      'Move it to spec.template.spec.',
    ],
    [
      'containers in a template without spec',
      `${deployment}  template: {containers: []}\n`,
      '5:14 "spec.template.containers"',
      'Move it to spec.template.spec.',
    ],
    [
      'labels outside the metadata',
      `${deployment.replace('metadata', 'labels: {a: b}\nmetadata')}  replicas: 1\n`,
      '3:1 "labels"',
      'Move it to metadata.',
    ],
    [
      'a workload field in the pod',
      `${deployment}  template: {spec: {replicas: 1}}\n`,
      '5:21 "spec.template.spec.replicas"',
      'Move it to spec.',
    ],
    [
      'a name in several places',
      `${POD}${CONTAINERS}    httpGet: {port: 80}\n`,
      '8:5 "spec.containers[0].httpGet"',
      DROPPED,
    ],
    ['a name that is nowhere', `${POD}  colour: red\n${CONTAINERS}`, '5:3 "spec.colour"', DROPPED],
    [
      'a metadata field',
      `${POD.replace('{name: p}', '{name: p, lables: {a: b}}')}${CONTAINERS}`,
      '3:21 "metadata.lables"',
      'Write "labels".',
    ],
    [
      'a Namespace',
      'apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspecs: {}\n',
      '4:1 "specs"',
      'Write "spec".',
    ],
    ['__proto__', `${POD}  __proto__: {}\n${CONTAINERS}`, '5:3 "spec.__proto__"', DROPPED],
  ];
  for (const [name, text, field, fix] of cases) {
    test(name, async () => {
      const [position = '', path = ''] = field.split(' ');
      assert.deepEqual(await findings(text), { code: 0, lines: [`warn unknownField ${position} ${path} | ${fix}`] });
    });
  }

  test('fields of custom resources and the keys of maps are not checked', async () => {
    const text = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: r, labls: {}}
spec: {template: {spec: {HostPID: true, containers: []}}}
---
${POD}  nodeSelector: {colour: red}\n${CONTAINERS}    resources: {limits: {example.com/gpu: 1}}
`;
    assert.deepEqual(await findings(text), { code: 0, lines: [] });
  });

  test('the field has no effect on the result', async () => {
    const { code, stdout } = await runProgram(['check', '-f', '-', '--level=baseline'], {
      stdin: `${POD}  HostPID: true\n${CONTAINERS}`,
    });
    assert.equal(
      stdout,
      `Pod default/p has unknown fields (warn)
  stdin:5:3  unknownField  unknown field ("spec.HostPID")
                           Fix: Write "hostPID".

0 passed, 0 failed, 1 with warnings
`,
    );
    assert.equal(code, 0);
  });
});

/** Runs `--fix` at the restricted level with exceptions for all checks, so only unknown fields are changed. */
async function fix(stdin: string): Promise<{ readonly stdout: string; readonly lines: readonly string[] }> {
  const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=privileged', '--fix'], { stdin });
  const lines = stderr.split('\n').filter((line) => /^(?:fixed|not fixed|verify): /.test(line));
  return { stdout, lines };
}

const TWO = `${POD}  initContainers: [{name: a, image: i}]\n${CONTAINERS}`;
const VERIFY = 'verify: stdin:1:1: had unknown fields, which API servers drop. They take effect now';

describe('--fix moves unknown fields', () => {
  const cases: readonly (readonly [name: string, text: string, fixed: string, lines: readonly string[]])[] = [
    [
      'to all containers',
      TWO.replace('spec:\n', 'spec:\n  securityContext: {runAsUser: 1, capabilities: {drop: [ALL]}}\n'),
      `${POD}  securityContext: {runAsUser: 1}
  initContainers: [{name: a, image: i, securityContext: {capabilities: {drop: ["ALL"]}}}]
${CONTAINERS}    securityContext:
      capabilities:
        drop: ["ALL"]
`,
      [
        'fixed: stdin:5:35: unknownField: spec.securityContext.capabilities moved to spec.containers[].securityContext',
        VERIFY,
      ],
    ],
  ];
  for (const [name, text, fixed, lines] of cases) {
    test(name, async () => assert.deepEqual(await fix(text), { stdout: fixed, lines }));
  }
});
