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

/** The labels of a pod template, and a selector that matches them. */
const SELECTED = 'metadata: {labels: {a: b}}}\n  selector: {matchLabels: {a: b}}\n';

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

describe('check fails at every level for', () => {
  const cases: readonly (readonly [name: string, text: string, line: string])[] = [
    [
      'a number as the value of an environment variable',
      `${POD}${CONTAINERS}    env: [{name: PORT, value: 8080}]\n`,
      `8:24 spec.containers[0].env[0].value: Invalid value: 8080: must be a string | ${QUOTES}`,
    ],
    [
      'a word that YAML decodes as a boolean',
      `${POD}${CONTAINERS}    args: [on]\n`,
      `8:12 spec.containers[0].args[0]: Invalid value: true: must be a string | ${QUOTES}`,
    ],
    [
      'a map instead of a list of objects',
      `${POD}${CONTAINERS}    env: {A: b}\n`,
      '8:5 spec.containers[0].env: Invalid value: {"A":"b"}: must be a list | Begin each item of the list with a hyphen.',
    ],
    [
      'a single value instead of a list',
      `${POD}${CONTAINERS}    command: sh\n`,
      '8:5 spec.containers[0].command: Invalid value: "sh": must be a list | Write it as the item of a list.',
    ],
    [
      'a number as the value of a label',
      `${POD.replace('{name: p}', '{name: p, labels: {version: 1.10}}')}${CONTAINERS}`,
      `3:30 metadata.labels.version: Invalid value: 1.1: must be a string | ${QUOTES}`,
    ],
    [
      'a quoted number',
      `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: "3"}\n`,
      `4:8 spec.replicas: Invalid value: "3": must be a 32-bit integer | ${NO_QUOTES}`,
    ],
    [
      'a number that does not fit in 32 bits',
      `${POD}${CONTAINERS}    ports: [{containerPort: 4294967296}]\n`,
      `8:14 spec.containers[0].ports[0].containerPort: Invalid value: 4294967296: must be a 32-bit integer | ${TYPE}`,
    ],
    [
      'an invalid quantity',
      `${POD}${CONTAINERS}    resources: {limits: {memory: 1GB}}\n`,
      `8:26 spec.containers[0].resources.limits.memory: Invalid value: "1GB": must be a quantity, such as 500m or 1Gi | ${TYPE}`,
    ],
    [
      'a boolean instead of a number or a name',
      `${POD}${CONTAINERS}    livenessProbe: {httpGet: {port: true}}\n`,
      `8:31 spec.containers[0].livenessProbe.httpGet.port: Invalid value: true: must be a 32-bit integer or a string | ${QUOTES}`,
    ],
    [
      'a date instead of a time',
      `${POD.replace('{name: p}', '{name: p, creationTimestamp: "2026-01-31"}')}${CONTAINERS}`,
      `3:21 metadata.creationTimestamp: Invalid value: "2026-01-31": must be a time in RFC 3339 format, such as 2026-01-31T15:04:05Z | ${TYPE}`,
    ],
    [
      'unencoded text in the data of a Secret',
      'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: hunter2}\n',
      `4:8 data.password: Invalid value: "hunter2": must be text in base64 | ${TYPE}`,
    ],
    [
      'a number in the pod template of a custom resource',
      'apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec:\n  unknown: 1\n  template: {spec: {containers: [{name: a, unknown: b, env: [{name: A, value: 1}], image: i}]}}\n',
      `6:72 spec.template.spec.containers[0].env[0].value: Invalid value: 1: must be a string | ${QUOTES}`,
    ],
    [
      'a quoted number in a custom resource that composes its pod from several fields',
      'apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: t}\nspec:\n  steps: [{image: a, securityContext: {runAsUser: "1"}}]\n',
      `5:40 spec.steps[0].securityContext.runAsUser: Invalid value: "1": must be a 64-bit integer | ${NO_QUOTES}`,
    ],
    [
      'an object instead of a list in a RoleBinding',
      'apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r}\nsubjects: {kind: User, name: u}\n',
      '4:1 subjects: Invalid value: {"kind":"User","name":"u"}: must be a list | Write it as the item of a list.',
    ],
    [
      'a number as the value of a Namespace label',
      'apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {pod-security.kubernetes.io/enforce: 1}}\n',
      `3:30 metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: 1: must be a string | ${QUOTES}`,
    ],
    [
      'a number as a name in an item of a PodList',
      `apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: 1}}]\n`,
      `3:21 metadata.name: Invalid value: 1: must be a string | ${QUOTES}`,
    ],
  ];
  for (const [name, text, line] of cases) {
    test(name, async () => {
      assert.deepEqual(await findings(text), { code: 1, lines: [`enforce decode ${line}`] });
    });
  }

  test('values that API servers cannot decode, without evaluating policies', async () => {
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

test('check accepts values that Go decodes', async () => {
  const text = `${POD.replace('{name: p}', '{name: p, creationTimestamp: null, labels: {a: null}}')}${CONTAINERS}    args: [null]
    ports: [{containerPort: 80.0, hostPort: 0}]
    resources: {limits: {cpu: 1, memory: 1.5e9}}
    readinessProbe: {httpGet: {port: http}}
`;
  assert.deepEqual(await findings(text), { code: 0, lines: [] });
});

test('other commands fail and print the positions of validation errors and of values that API servers cannot decode', async () => {
  const invalid = `${POD}${CONTAINERS}  - {name: c, image: i}\n`;
  for (const command of ['scc plan', 'scc review --offline', 'audit user-namespaces']) {
    const { code, stderr } = await runProgram([...command.split(' '), '-f', '-'], { stdin: invalid });
    const error = 'API servers reject the Pod "p": spec.containers[1].name: Duplicate value: "c"';
    assert.equal(stderr, `error: stdin:8:6: ${error}. Use another name in spec.containers[1].name.\n`);
    assert.equal(code, 2);
  }
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

describe('check warns about an unknown field and prints a correction:', () => {
  const deployment = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n';
  const cases: readonly (readonly [name: string, text: string, field: string, fix: string])[] = [
    [
      'a container field in the security context of the pod',
      `${POD}  securityContext: {capabilities: {drop: [ALL]}}\n${CONTAINERS}`,
      '5:21 "spec.securityContext.capabilities"',
      'Move it to spec.containers[].securityContext.',
    ],
    [
      'a pod field in the security context of a container',
      `${POD}${CONTAINERS}    securityContext: {fsGroup: 1}\n`,
      '8:23 "spec.containers[0].securityContext.fsGroup"',
      'Move it to spec.securityContext.',
    ],
    [
      'a name with other capitalization, in the wrong object',
      `${POD}  securityContext: {readonlyRootFilesystem: true}\n${CONTAINERS}`,
      '5:21 "spec.securityContext.readonlyRootFilesystem"',
      'Move it to spec.containers[].securityContext, and write "readOnlyRootFilesystem".',
    ],
    [
      'a name with other capitalization',
      `${POD}  HostPID: true\n${CONTAINERS}`,
      '5:3 "spec.HostPID"',
      'Write "hostPID".',
    ],
    [
      'a misspelled name',
      `${POD}  securityContex: {runAsUser: 1}\n${CONTAINERS}`,
      '5:3 "spec.securityContex"',
      'Write "securityContext".',
    ],
    [
      'a security context field beside the security context',
      `${POD}${CONTAINERS}    privileged: true\n`,
      '8:5 "spec.containers[0].privileged"',
      'Move it to spec.containers[0].securityContext.',
    ],
    [
      'a container field in the pod spec',
      `${POD}  image: i\n${CONTAINERS}`,
      '5:3 "spec.image"',
      'Move it to spec.containers[].',
    ],
    [
      'a pod field in a container',
      `${POD}${CONTAINERS}    hostNetwork: true\n`,
      '8:5 "spec.containers[0].hostNetwork"',
      'Move it to spec.',
    ],
    [
      'a pod field in the spec of a workload',
      `${deployment}  serviceAccountName: a\n  template: {spec: {containers: [{name: c, image: i}]}, ${SELECTED}`,
      '5:3 "spec.serviceAccountName"',
      'Move it to spec.template.spec.',
    ],
    [
      'init containers outside the pod spec of a template',
      `${deployment}  template: {initContainers: [], spec: {containers: [{name: c, image: i}]}, ${SELECTED}`,
      '5:14 "spec.template.initContainers"',
      'Move it to spec.template.spec.',
    ],
    [
      'labels outside the metadata',
      `${deployment.replace('metadata', 'labels: {a: b}\nmetadata')}  template: {spec: {containers: [{name: c, image: i}]}, ${SELECTED}`,
      '3:1 "labels"',
      'Move it to metadata.',
    ],
    [
      'a workload field in the pod spec',
      `${deployment}  template: {spec: {replicas: 1, containers: [{name: c, image: i}]}, ${SELECTED}`,
      '5:21 "spec.template.spec.replicas"',
      'Move it to spec.',
    ],
    [
      'a name that belongs in several places',
      `${POD}${CONTAINERS}    httpGet: {port: 80}\n`,
      '8:5 "spec.containers[0].httpGet"',
      DROPPED,
    ],
    ['a name that no object has', `${POD}  colour: red\n${CONTAINERS}`, '5:3 "spec.colour"', DROPPED],
    [
      'a misspelled metadata field',
      `${POD.replace('{name: p}', '{name: p, lables: {a: b}}')}${CONTAINERS}`,
      '3:21 "metadata.lables"',
      'Write "labels".',
    ],
    [
      'an unknown field of a Namespace',
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

  test('check ignores unknown fields of custom resources and keys of maps', async () => {
    const text = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: r, labls: {}}
spec: {template: {spec: {HostPID: true, containers: []}}}
---
${POD}  nodeSelector: {colour: red}\n${CONTAINERS}    resources: {limits: {example.com/gpu: 1}}
`;
    assert.deepEqual(await findings(text), { code: 0, lines: [] });
  });

  test('other results do not change', async () => {
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

/** Runs `--fix` at the privileged level, at which it changes nothing else. */
async function fix(stdin: string): Promise<{ readonly stdout: string; readonly lines: readonly string[] }> {
  const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=privileged', '--fix'], { stdin });
  const lines = stderr.split('\n').filter((line) => /^(?:fixed|not fixed|verify): /.test(line));
  return { stdout, lines };
}

const VERIFY =
  'verify: stdin:1:1: the moved or renamed fields now take effect. Previously, API servers dropped them as unknown fields';

function fixed(position: string, field: string, change: string): readonly string[] {
  return [`fixed: stdin:${position}: unknownField: ${field} ${change}`, VERIFY];
}

function unfixed(position: string, field: string, choice: string): readonly string[] {
  return [`not fixed: stdin:${position}: unknownField: unknown field "${field}": ${choice}`];
}

function withContext(context: string, containers = CONTAINERS): string {
  return `${POD}  securityContext: {${context}}\n${containers}`;
}

describe('--fix corrects an unknown field', () => {
  const two = `  initContainers: [{name: a, image: i}]\n${CONTAINERS}`;
  const deployment = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n';
  const moved = 'moved to spec.containers[0].securityContext';
  const cases: readonly (readonly [name: string, text: string, fixed: string, lines: readonly string[]])[] = [
    [
      'by moving it to the container',
      withContext('readOnlyRootFilesystem: true, runAsUser: 1'),
      `${withContext('runAsUser: 1')}    securityContext:\n      readOnlyRootFilesystem: true\n`,
      fixed('5:21', 'spec.securityContext.readOnlyRootFilesystem', moved),
    ],
    [
      'by moving it to all containers',
      withContext('runAsUser: 1, capabilities: {drop: [ALL]}', two),
      withContext(
        'runAsUser: 1',
        two.replace('image: i}', 'image: i, securityContext: {capabilities: {drop: ["ALL"]}}}'),
      ).concat('    securityContext:\n      capabilities:\n        drop: ["ALL"]\n'),
      fixed('5:35', 'spec.securityContext.capabilities', 'moved to spec.containers[].securityContext'),
    ],
    [
      'by removing it if the container already has the value',
      withContext('runAsUser: 1, privileged: false', `${CONTAINERS}    securityContext: {privileged: false}\n`),
      withContext('runAsUser: 1', `${CONTAINERS}    securityContext: {privileged: false}\n`),
      fixed('5:35', 'spec.securityContext.privileged', moved),
    ],
    [
      'by moving it to the pod',
      `${POD}${CONTAINERS}    hostNetwork: true\n`,
      `${POD}${CONTAINERS}  hostNetwork: true\n`,
      fixed('8:5', 'spec.containers[0].hostNetwork', 'moved to spec'),
    ],
    [
      'by moving it from the workload to the pod',
      `${deployment}  containers: [{name: c, image: i}]\n`,
      `${deployment}  template:\n    spec:\n      containers: [{"name":"c","image":"i"}]\n`,
      fixed('5:3', 'spec.containers', 'moved to spec.template.spec'),
    ],
    [
      'by renaming it in an item of a PodList without types',
      `apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n  spec: {hostpid: true, containers: []}\n`,
      `apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n  spec: {hostPID: true, containers: []}\n`,
      ['fixed: stdin:5:10: unknownField: spec.hostpid renamed to hostPID', VERIFY.replace('1:1', '4:3')],
    ],
    [
      'by renaming it in a Project',
      'apiVersion: project.openshift.io/v1\nkind: Project\nmetadata: {name: a, Labels: {b: c}}\n',
      'apiVersion: project.openshift.io/v1\nkind: Project\nmetadata: {name: a, labels: {b: c}}\n',
      fixed('3:21', 'metadata.Labels', 'renamed to labels'),
    ],
  ];
  for (const [name, text, expected, lines] of cases) {
    test(name, async () => assert.deepEqual(await fix(text), { stdout: expected, lines }));
  }
});

describe('--fix does not move an unknown field', () => {
  const place = 'spec.containers[0].securityContext';
  const two = `  initContainers: [{name: a, image: i}]\n${CONTAINERS}`;
  const cases: readonly (readonly [name: string, text: string, lines: readonly string[]])[] = [
    [
      'whose container has another value',
      withContext('privileged: true', `${CONTAINERS}    securityContext: {privileged: false}\n`),
      unfixed('5:21', 'spec.securityContext.privileged', `${place}.privileged has another value: keep one of them`),
    ],
    [
      'that belongs to an object of another type that is missing',
      `${POD}${CONTAINERS}  volumes: [{name: v, emptyDir: {secretName: a}}]\n`,
      unfixed('8:34', 'spec.volumes[0].emptyDir.secretName', 'correct the name, or remove the field'),
    ],
    [
      'whose value contradicts another unknown field',
      `${POD}  hostNetwork: null\n${CONTAINERS}    hostNetwork: true\n  - {name: b, image: i, hostNetwork: false}\n`,
      [
        ...unfixed(
          '9:5',
          'spec.containers[0].hostNetwork',
          'spec.containers[1].hostNetwork has another value: keep one of them',
        ),
        ...unfixed(
          '10:25',
          'spec.containers[1].hostNetwork',
          'spec.containers[0].hostNetwork has another value: keep one of them',
        ),
      ],
    ],
    [
      'that belongs to one of several containers',
      `${POD}  image: j\n${two}`,
      unfixed('5:3', 'spec.image', 'move it to one of spec.initContainers[0], spec.containers[0]'),
    ],
    [
      'of a pod that has no container',
      `${POD}  securityContext: {privileged: true}\n  containers: []\n`,
      unfixed(
        '5:21',
        'spec.securityContext.privileged',
        'move it to spec.containers[].securityContext, which does not exist',
      ),
    ],
    [
      'whose value is wrong',
      withContext('capabilities: {drop: ALL}'),
      unfixed(
        '5:21',
        'spec.securityContext.capabilities',
        'move it to spec.containers[].securityContext, and correct its value',
      ),
    ],
    [
      'that belongs to a volume',
      `${POD}  volumes: [{name: v}]\n${CONTAINERS}    volumeMounts: [{name: v, mountPath: /v, hostPath: {path: /v}}]\n`,
      unfixed('9:45', 'spec.containers[0].volumeMounts[0].hostPath', 'move it to spec.volumes[]'),
    ],
    [
      'that repeats the kind',
      `${POD}  kind: Pod\n${CONTAINERS}`,
      unfixed('5:3', 'spec.kind', 'correct the name, or remove the field'),
    ],
    [
      'that belongs nowhere',
      `${POD}  colour: red\n${CONTAINERS}`,
      unfixed('5:3', 'spec.colour', 'correct the name, or remove the field'),
    ],
    [
      'that API servers would reject in its place',
      withContext('allowPrivilegeEscalation: false', `${CONTAINERS}    securityContext: {privileged: true}\n`),
      unfixed(
        '5:21',
        'spec.securityContext.allowPrivilegeEscalation',
        'remove privileged, or add an exception for allowPrivilegeEscalation, because API servers reject privileged together with allowPrivilegeEscalation=false',
      ),
    ],
    [
      'of a Windows pod',
      `${POD}  os: {name: windows}\n${CONTAINERS}    privileged: true\n`,
      unfixed(
        '9:5',
        'spec.containers[0].privileged',
        'for Windows nodes, set spec.os.name to windows and remove spec.containers[0].securityContext.privileged, which API servers reject in Windows pods',
      ),
    ],
    [
      'in a container with an anchor',
      `${POD}  containers:\n  - &c {name: c, image: i, privileged: true}\n  - *c\n`,
      [0, 1].map(
        (index) =>
          `not fixed: stdin:6:28: unknownField: not moved to spec.containers[${index}].securityContext: the anchor "c" on line 6 is also used for other fields: replace its aliases with copies`,
      ),
    ],
  ];
  for (const [name, text, lines] of cases) {
    test(name, async () => assert.deepEqual(await fix(text), { stdout: text, lines }));
  }
});

test('--fix applies the fixes of the level to a moved field', async () => {
  const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], {
    stdin: `${POD}${CONTAINERS}    privileged: true\n`,
  });
  assert.equal(stdout, `${POD}${CONTAINERS}    securityContext:\n      privileged: false\n`);
  assert.equal(
    stderr,
    `fixed: stdin:8:5: unknownField: spec.containers[0].privileged moved to spec.containers[0].securityContext
fixed: stdin:6:5: privileged: spec.containers[0].securityContext.privileged set to false
${VERIFY}
verify: stdin:6:5: container "c": was privileged. Host devices, mounts, kernel settings and most capabilities are no longer available
stdin: 2 fields fixed, 0 not fixed
1 passed, 0 failed
`,
  );
});

test('--fix lists the values of a pod that API servers cannot decode', async () => {
  const { stdout, stderr, code } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], {
    stdin: `${POD}  hostPID: true\n${CONTAINERS}    env: [{name: PORT, value: 8080}]\n    securityContext: {privileged: "no"}\n`,
  });
  assert.match(stdout, /value: 8080/);
  const lines = stderr.split('\n').filter((line) => line.startsWith('not fixed'));
  assert.deepEqual(lines, [
    'not fixed: stdin:9:24: decode: spec.containers[0].env[0].value: Invalid value: 8080: must be a string: Put the value in quotes.',
    'not fixed: stdin:10:23: decode: spec.containers[0].securityContext.privileged: Invalid value: "no": must be a boolean: Remove the quotes.',
  ]);
  assert.equal(code, 1);
});
