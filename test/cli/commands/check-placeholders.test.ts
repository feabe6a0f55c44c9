/** Tests manifests with placeholders, which must be rendered before they are evaluated. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const HELM = 'Render it first: helm template CHART | portcullis check -f -';
const ENVSUBST = 'Render it first: envsubst < FILE | portcullis check -f -';
const KUSTOMIZE = 'Render it first: kubectl kustomize DIR | portcullis check -f -';
const OTHER =
  'To evaluate it, render the manifest with the tool that replaces it, and check the result: portcullis check -f -';

/** Fields of a pod, the path of the field with a placeholder, and the end of the message. */
const IN_POD: readonly (readonly [spec: string, path: string, end: string])[] = [
  ['hostNetwork: ${HOST}', 'spec.hostNetwork', `\${HOST}. ${ENVSUBST}`],
  ['hostNetwork: ${HOST:-true}', 'spec.hostNetwork', `\${HOST:-true}. ${ENVSUBST}`],
  [
    'hostNetwork: "${{HOST}}"',
    'spec.hostNetwork',
    `\${{HOST}}. Render it first: oc process -f FILE | portcullis check -f -`,
  ],
  ['hostNetwork: $HOST', 'spec.hostNetwork', `$HOST. ${ENVSUBST}`],
  ['hostNetwork: $(HOST)', 'spec.hostNetwork', `$(HOST). ${KUSTOMIZE}`],
  [
    'hostNetwork: "{{ .Values.host | default false }}"',
    'spec.hostNetwork',
    `{{ .Values.host | default false }}. ${HELM}`,
  ],
  ['hostNetwork: <%= host %>', 'spec.hostNetwork', `<%= host %>. ${OTHER}`],
  ['hostNetwork: "@@HOST@@"', 'spec.hostNetwork', `@@HOST@@. ${OTHER}`],
  ['hostNetwork: "@host.network@"', 'spec.hostNetwork', `@host.network@. ${OTHER}`],
  ['hostNetwork: "#{HOST}#"', 'spec.hostNetwork', `#{HOST}. ${OTHER}`],
  ['hostNetwork: __HOST__', 'spec.hostNetwork', `__HOST__. ${OTHER}`],
  ['hostNetwork: "%HOST%"', 'spec.hostNetwork', `%HOST%. ${OTHER}`],
  ['hostNetwork: ((host))', 'spec.hostNetwork', `((host)). ${OTHER}`],
  ['hostNetwork: <HOST>', 'spec.hostNetwork', `<HOST>. ${OTHER}`],
  ['priority: ${P}', 'spec.priority', `\${P}. ${ENVSUBST}`],
  ['securityContext: ${CONTEXT}', 'spec.securityContext', `\${CONTEXT}. ${ENVSUBST}`],
  ['securityContext: {runAsUser: "${UID}"}', 'spec.securityContext.runAsUser', `\${UID}. ${ENVSUBST}`],
  [
    'securityContext: {seccompProfile: {type: "${A}"}}',
    'spec.securityContext.seccompProfile.type',
    `\${A}. ${ENVSUBST}`,
  ],
  [
    'securityContext: {sysctls: [{name: "a.${A}", value: b}]}',
    'spec.securityContext.sysctls[0].name',
    `\${A}. ${ENVSUBST}`,
  ],
  ['os: {name: "${A}"}', 'spec.os.name', `\${A}. ${ENVSUBST}`],
  ['volumes: [{name: a, hostPath: "${A}"}]', 'spec.volumes[0].hostPath', `\${A}. ${ENVSUBST}`],
];

const CONTAINER: readonly (readonly [container: string, path: string])[] = [
  ['ports: [{containerPort: "${A}"}]', 'ports[0].containerPort'],
  ['securityContext: {privileged: "${A}"}', 'securityContext.privileged'],
  ['securityContext: {procMount: "${A}"}', 'securityContext.procMount'],
  ['securityContext: {appArmorProfile: {type: "${A}"}}', 'securityContext.appArmorProfile.type'],
  ['securityContext: {seLinuxOptions: {type: "${A}"}}', 'securityContext.seLinuxOptions.type'],
  ['securityContext: {capabilities: {add: ["${A}"]}}', 'securityContext.capabilities.add[0]'],
  ['livenessProbe: {httpGet: {port: 80, host: "${A}"}}', 'livenessProbe.httpGet.host'],
  ['lifecycle: {preStop: {tcpSocket: {port: 80, host: "${A}"}}}', 'lifecycle.preStop.tcpSocket.host'],
];

function pod(spec: string): string {
  return `apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  ${spec}\n`;
}

/** Texts, the exit code, and the messages without their positions. */
const CASES: readonly (readonly [name: string, text: string, code: number, messages: readonly string[]])[] = [
  ...IN_POD.map(([spec, path, end]) => {
    return [spec, pod(spec), 2, [`not rendered yet: ${path} contains ${end}`]] as const;
  }),
  ...CONTAINER.map(([container, path]) => {
    const message = `not rendered yet: spec.containers[0].${path} contains \${A}. ${ENVSUBST}`;
    return [container, pod(`containers: [{name: a, ${container}, image: i}]`), 2, [message]] as const;
  }),
  [
    'no placeholder in strings that no policy reads',
    pod(
      'containers: [{name: "${A}", image: "{{ B }}", args: ["$(C)"], env: [{name: D, value: "${D}"}], resources: {limits: {cpu: 1}}}]',
    ),
    0,
    [],
  ],
  [
    'no placeholder in names and labels that API servers compare',
    'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {matchLabels: {app: "{{ A }}"}}, template: {metadata: {labels: {app: a}}, spec: {volumes: [{name: $(B), emptyDir: {}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]}}}\n',
    0,
    [],
  ],
  [
    'all fields of an object that contain placeholders',
    `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: "\${A}", template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: "\${B}", c: "\${C}"}}, spec: {hostPID: "\${D}"}}}\n`,
    2,
    [
      `not rendered yet: spec.replicas contains \${A}. ${ENVSUBST}`,
      `not rendered yet: spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/a] contains \${B}. ${ENVSUBST}`,
      `not rendered yet: spec.template.spec.hostPID contains \${D}. ${ENVSUBST}`,
    ],
  ],
  [
    'the pod template of a custom resource',
    'apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: {replicas: "${A}", template: {spec: {hostPID: "${B}"}}}\n',
    2,
    [`not rendered yet: spec.template.spec.hostPID contains \${B}. ${ENVSUBST}`],
  ],
  [
    'the levels of a namespace',
    'apiVersion: v1\nkind: Namespace\nmetadata: {name: "${A}", labels: {pod-security.kubernetes.io/enforce: "${B}", c: "${C}"}}\n',
    2,
    [`not rendered yet: metadata.labels[pod-security.kubernetes.io/enforce] contains \${B}. ${ENVSUBST}`],
  ],
  [
    'the labels of a namespace that turn SCCs and label synchronization off',
    'apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {openshift.io/run-level: "${A}", security.openshift.io/disable-securitycontextconstraints: "${B}", security.openshift.io/scc.podSecurityLabelSync: "${C}", other.openshift.io/d: "${D}"}}\n',
    2,
    [
      `not rendered yet: metadata.labels[openshift.io/run-level] contains \${A}. ${ENVSUBST}`,
      `not rendered yet: metadata.labels[security.openshift.io/disable-securitycontextconstraints] contains \${B}. ${ENVSUBST}`,
      `not rendered yet: metadata.labels[security.openshift.io/scc.podSecurityLabelSync] contains \${C}. ${ENVSUBST}`,
    ],
  ],
  [
    'the strategies of an SCC',
    'apiVersion: security.openshift.io/v1\nkind: SecurityContextConstraints\nmetadata: {name: "${A}"}\nrunAsUser: {type: "${B}"}\n',
    2,
    [`not rendered yet: runAsUser.type contains \${B}. ${ENVSUBST}`],
  ],
  [
    'the kind of an object',
    'apiVersion: apps/v1\nkind: "{{ .Values.kind }}"\n',
    2,
    [`not rendered yet: kind contains {{ .Values.kind }}. ${HELM}`],
  ],
  [
    'no placeholder in the texts of a ConfigMap',
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "${A}", labels: {a: "{{ B }}"}}\ndata: {a: "${A}", b: "{{ B }}"}\n',
    0,
    [],
  ],
  [
    'a field of a ConfigMap that is not text',
    'apiVersion: v1\nkind: ConfigMap\nimmutable: ${A}\n',
    2,
    [`not rendered yet: immutable contains \${A}. ${ENVSUBST}`],
  ],
  [
    'a statement in a text that is not YAML',
    pod('containers: []\n  {{- if .Values.a }}\n  hostPID: true\n  {{- end }}'),
    2,
    [`could not find expected ':', not rendered yet: {{- if .Values.a }}. ${HELM}`],
  ],
  [
    'an expression in a text that is not YAML',
    pod('hostPID: {{ .Values.a }}'),
    2,
    [`a key must be a string, not rendered yet: {{ .Values.a }}. ${HELM}`],
  ],
  [
    'a variable in a text that is not YAML',
    pod('containers: [{name: a, securityContext: {privileged: ${A}}, image: i}]'),
    2,
    [`did not find expected ',' or '}', not rendered yet: \${A}. ${ENVSUBST}`],
  ],
  [
    'other placeholders in a text that is not YAML',
    pod('hostPID: @@A@@'),
    2,
    [`found character that cannot start any token, not rendered yet: @@A@@. ${OTHER}`],
  ],
  [
    'a placeholder that is a whole value in a text that is not YAML',
    pod('hostPID: %A%'),
    2,
    [`found character that cannot start any token, not rendered yet: %A%. ${OTHER}`],
  ],
  [
    'statements of another language',
    pod('containers: []\n<% if a %>\n  hostPID: true\n<% end %>'),
    2,
    [`could not find expected ':', not rendered yet: <% if a %>. ${OTHER}`],
  ],
  [
    'a syntax error in a text with templates in strings',
    "a: '{{ $labels.b }}'\nc: |\n  {{ if true }}\n  d\n  {{ end }}\ne: [{{ f }}]\ng: 1\n h: 2\n",
    2,
    ['mapping values are not allowed in this context'],
  ],
  [
    'a syntax error that the placeholder does not cause',
    'a: "${A}"\nb: [\n',
    2,
    ['did not find expected node content'],
  ],
];

describe('check reports only placeholders that affect its results:', () => {
  for (const [name, text, code, messages] of CASES) {
    test(name, async () => {
      const result = await runProgram(['check', '-f', '-', '--level=privileged'], { stdin: text });
      const found = result.stderr
        .trimEnd()
        .split('\n')
        .map((line) => line.replace(/^error: stdin:\d+:\d+: /, ''));
      assert.deepEqual(found, messages.length === 0 ? [''] : messages);
      assert.equal(result.code, code);
    });
  }

  test('other commands that evaluate pods report placeholders as errors', async () => {
    const stdin = pod('hostPID: ${A}');
    for (const args of ['explain -f -', 'scc plan -f -', 'rollout plan -f -', 'report -f -']) {
      const { code, stderr } = await runProgram(args.split(' '), { stdin });
      assert.equal(stderr, `error: stdin:5:3: not rendered yet: spec.hostPID contains \${A}. ${ENVSUBST}\n`);
      assert.equal(code, 2);
    }
  });

  test('--skip-kind skips objects with placeholders', async () => {
    const stdin = 'apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: {template: {spec: {hostPID: "${B}"}}}\n';
    const { code } = await runProgram(['check', '-f', '-', '--skip-kind=Rollout.argoproj.io'], { stdin });
    assert.equal(code, 0);
  });

  test('--fix does not change an object with placeholders', async () => {
    const stdin = pod('hostPID: true\n  hostNetwork: ${A}');
    const { code, stdout } = await runProgram(['check', '-f', '-', '--fix'], { stdin });
    assert.deepEqual([code, stdout], [2, stdin]);
  });
});
