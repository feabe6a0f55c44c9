/** Tests the exact text of fixed manifests in each form of YAML and JSON, and properties of all fixed pods. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { build } from 'esbuild';
import fc from 'fast-check';
import { stringify } from 'yaml';
import type { FixedText } from '../../src/config/fix.ts';
import { readPod } from '../../src/config/objects.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { diff, escapeKey } from '../../src/kube/json-patch.ts';
import { printFieldPath } from '../../src/policy/pod/index.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { fixManifests } from '../../src/web/evaluate.ts';
import { pods, versions } from '../policy/pss/arbitrary.ts';

const RESTRICTED = { level: 'restricted', version: 'latest' } as const;
const BASELINE = { level: 'baseline', version: 'latest' } as const;
const HEAD = 'apiVersion: v1\nkind: Pod\n';

function printUnfixed({ unfixed }: FixedText): readonly string[] {
  return unfixed.map(({ check, field, detail, choices }) => {
    return `${check} ${printFieldPath(field)}: ${detail}: ${choices.join(' | ')}`;
  });
}

describe('fixManifests lists values that it cannot fix, with a reason:', () => {
  const shared = 'is also used for other fields: replace its aliases with copies';
  const cases: readonly (readonly [name: string, text: string, ...unfixed: string[]])[] = [
    [
      'an anchor and its alias',
      `${HEAD}spec:\n  initContainers:\n  - &c\n    name: a\n    securityContext: {privileged: true}\n  containers:\n  - *c\n`,
      `privileged spec.initContainers[0].securityContext.privileged: not set to false: the anchor "c" on line 5 ${shared}`,
      `privileged spec.containers[0].securityContext.privileged: not set to false: the anchor "c" on line 5 ${shared}`,
    ],
    [
      'an anchor whose name is the beginning of the name of another anchor',
      `${HEAD}spec:\n  containers:\n  - &c\n    securityContext: {privileged: true}\n    command: &c-2 [x]\n  - *c\n`,
      `privileged spec.containers[0].securityContext.privileged: not set to false: the anchor "c" on line 5 ${shared}`,
      `privileged spec.containers[1].securityContext.privileged: not set to false: the anchor "c" on line 5 ${shared}`,
    ],
    [
      'a merged field',
      `x: &x {hostPID: true}\n${HEAD}spec:\n  <<: *x\n  containers: []\n`,
      'unknownField x: unknown field "x": correct the name, or remove the field',
      'hostNamespaces spec.hostPID: not set to false: the field is merged from the anchor "x" on line 1, which other fields also use: replace the merge key with a copy',
    ],
    [
      'a hostPath volume',
      `${HEAD}spec: {containers: [], volumes: [{name: v, hostPath: {path: /}}]}\n`,
      'hostPathVolumes spec.volumes[0].hostPath: volume "v": use a persistentVolumeClaim for data that must outlive the pod | use an emptyDir for the data of a single pod | use a configMap, secret, downwardAPI or projected volume for files from the cluster | keep the volume, and move the pod to a separate namespace that enforces a less strict level',
    ],
    [
      'a field with the wrong type',
      `${HEAD}spec: {hostPID: "true"}\n`,
      'decode spec.hostPID: spec.hostPID: Invalid value: "true": must be a boolean: Remove the quotes.',
    ],
  ];
  for (const [name, text, ...unfixed] of cases) {
    test(name, () => {
      const fixed = fixManifests(text, BASELINE);
      assert.deepEqual(printUnfixed(fixed), unfixed);
      assert.equal(fixed.text, text);
    });
  }
});

describe('fixManifests reports and does not change text that cannot be read:', () => {
  const command = 'Render it first: helm template CHART | portcullis check -f -';
  const cases: readonly (readonly [name: string, text: string, message: string])[] = [
    [
      'a template expression in a value',
      `${HEAD}spec:\n  hostPID: {{ .Values.hostPID }}\n`,
      `a key must be a string, not rendered yet: {{ .Values.hostPID }}. ${command}`,
    ],
    [
      'a template expression on a separate line',
      `${HEAD}{{- if .Values.x }}\nspec: {}\n{{- end }}\n`,
      `could not find expected ':', not rendered yet: {{- if .Values.x }}. ${command}`,
    ],
    ['a text without an object', '- a\n', 'expected an object with apiVersion and kind'],
    ['a text with an unreadable document', 'a: [\n', 'did not find expected node content'],
  ];
  for (const [name, text, message] of cases) {
    test(name, () => {
      const other = `${HEAD}spec:\n  hostPID: true\n`;
      const fixed = fixManifests(`${text}---\n${other}`, BASELINE);
      assert.deepEqual(
        fixed.errors.map((error) => error.message),
        [message],
      );
      assert.equal(fixed.text, `${text}---\n${other.replace('true', 'false')}`);
    });
  }
});

describe('fixManifests preserves the layout of', () => {
  const container = 'allowPrivilegeEscalation: false';
  const pod = 'runAsNonRoot: true';
  const cases: readonly (readonly [name: string, before: string, after: string])[] = [
    [
      'block YAML with comments, CRLF, four spaces, and no final newline',
      `${HEAD}spec:\n    # c1\n    containers:\n      - securityContext:\n            privileged: true # why\n        name: a # tail\nmetadata:\n    name: p`,
      `${HEAD}spec:\n    # c1\n    containers:\n      - securityContext:\n            privileged: false # why\n            ${container}\n            capabilities:\n                drop: ["ALL"]\n        name: a # tail\n    securityContext:\n        ${pod}\n        seccompProfile:\n            type: RuntimeDefault\nmetadata:\n    name: p`,
    ],
    [
      'a text that ends with a spec without a final newline',
      `${HEAD}spec:\n  containers:\n  - name: a\n    securityContext:`,
      `${HEAD}spec:\n  containers:\n  - name: a\n    securityContext:\n      ${container}\n      capabilities:\n        drop: ["ALL"]\n  securityContext:\n    ${pod}\n    seccompProfile:\n      type: RuntimeDefault`,
    ],
    [
      'a text from which fields, list items and empty parents are removed',
      `${HEAD}spec:\n  containers:\n  - name: a\n    ports:\n    - hostPort: 80\n      containerPort: 80\n    - containerPort: 81\n      hostPort: 81 # x\n    securityContext: {runAsUser: 0, capabilities: {add: [NET_ADMIN, 'NET_BIND_SERVICE'], drop: ['x']}, ${container}}\n  securityContext:\n    ${pod}\n    seccompProfile: {type: Unconfined}\n    sysctls:\n    - name: kernel.x\n      value: "1"\n    # next\n    - {name: net.ipv4.tcp_syncookies, value: "1"}\n    - name: kernel.y\n    seLinuxOptions:\n      user: a\n`,
      `${HEAD}spec:\n  containers:\n  - name: a\n    ports:\n    - containerPort: 80\n    - containerPort: 81\n    securityContext: {capabilities: {add: ['NET_BIND_SERVICE'], drop: ['x', 'ALL']}, ${container}}\n  securityContext:\n    ${pod}\n    seccompProfile: {type: RuntimeDefault}\n    sysctls:\n    # next\n    - {name: net.ipv4.tcp_syncookies, value: "1"}\n`,
    ],
    [
      'a block map whose only field is replaced by other fields',
      `${HEAD}spec:\n  containers:\n  - securityContext:\n      runAsUser: 0\n    name: a\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n`,
      `${HEAD}spec:\n  containers:\n  - securityContext:\n      ${container}\n      capabilities:\n        drop: ["ALL"]\n    name: a\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n`,
    ],
    [
      'a text with an annotation, and with a block scalar before a new field',
      `${HEAD}metadata:\n  annotations:\n    container.apparmor.security.beta.kubernetes.io/a: unconfined\nspec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    securityContext: {capabilities: {drop: [ALL]}}\n  - args:\n    - |+\n      x\n\n---\na: b\n`,
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    securityContext: {capabilities: {drop: [ALL]}, ${container}}\n  - args:\n    - |+\n      x\n\n    securityContext:\n      ${container}\n      capabilities:\n        drop: ["ALL"]\n---\na: b\n`,
    ],
    [
      'block lists whose items begin on a later line than their hyphens',
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  -\n    name: a\n    ports:\n    - # web\n      hostPort: 80\n      containerPort: 80\n    securityContext:\n      ${container}\n      capabilities:\n        drop:\n        - # raw\n          NET_RAW\n        add:\n        -\n          NET_BIND_SERVICE\n        # clock\n        - # time\n\n          SYS_TIME\n`,
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  -\n    name: a\n    ports:\n    - # web\n      containerPort: 80\n    securityContext:\n      ${container}\n      capabilities:\n        drop:\n        - # raw\n          NET_RAW\n        - ALL\n        add:\n        -\n          NET_BIND_SERVICE\n        # clock\n`,
    ],
    [
      'a list item whose first field is removed, with a comment before its second field',
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    ports:\n    - hostPort: 80 # removed\n\n      # kept\n      containerPort: 80 # c\n    securityContext: {${container}, capabilities: {drop: [ALL]}}\n`,
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    ports:\n    - # kept\n      containerPort: 80 # c\n    securityContext: {${container}, capabilities: {drop: [ALL]}}\n`,
    ],
    [
      'flow collections with comments',
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    securityContext: {\n      # c1\n      ${container}, # c2\n      capabilities: {\n        drop: [ALL], # c3\n        add: [\n          SYS_TIME, # removed\n          # c4\n          NET_BIND_SERVICE, # c5\n          NET_RAW, SYS_ADMIN # c6\n        ]\n      }, # c7\n      # c8\n      runAsUser: 0, # removed\n    }\n`,
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    securityContext: {\n      # c1\n      ${container}, # c2\n      capabilities: {\n        drop: [ALL], # c3\n        add: [\n          # c4\n          NET_BIND_SERVICE # c5\n           # c6\n        ]\n      }, # c7\n      # c8\n    }\n`,
    ],
    [
      'YAML in flow style, which is not JSON',
      '{apiVersion: v1, kind: Pod, spec: {hostPID: true, containers: [{name: a}]}}\n',
      `{apiVersion: v1, kind: Pod, spec: {hostPID: false, containers: [{name: a, securityContext: {${container}, capabilities: {drop: ["ALL"]}}}], securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}}}\n`,
    ],
    [
      'a moved field whose value is an empty map',
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    seLinuxOptions: {}\n`,
      `${HEAD}spec:\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: a\n    securityContext:\n      seLinuxOptions: {}\n      ${container}\n      capabilities:\n        drop: ["ALL"]\n`,
    ],
    [
      'renamed fields',
      `${HEAD}spec:\n  'securitycontext':\n    # c1\n    ${pod} # c2\n    seccompProfile: {"type": RuntimeDefault} # c3\n  containers:\n  - imagePullpolicy: Always # c4\n    volumeMount: # c5\n    # c6\n    - {name: a, mountPath: /a}\n    name: a\n    securityContext: {allowPrivilegeescalation: true, Capabilities: {drop: [ALL]}}\n`,
      `${HEAD}spec:\n  'securityContext':\n    # c1\n    ${pod} # c2\n    seccompProfile: {"type": RuntimeDefault} # c3\n  containers:\n  - imagePullPolicy: Always # c4\n    volumeMounts: # c5\n    # c6\n    - {name: a, mountPath: /a}\n    name: a\n    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n`,
    ],
    [
      'a map with a merged key, which an explicit key overrides',
      `${HEAD}spec:\n  nodeSelector: &x {image: a}\n  containers:\n  - <<: *x\n    image: b\n    securityContext: {${container}, capabilities: {drop: [ALL]}}\n  securityContext: {${pod}}\n`,
      `${HEAD}spec:\n  nodeSelector: &x {image: a}\n  containers:\n  - <<: *x\n    image: b\n    securityContext: {${container}, capabilities: {drop: [ALL]}}\n  securityContext: {${pod}, seccompProfile: {type: RuntimeDefault}}\n`,
    ],
    [
      'JSON with tabs',
      '{\n\t"apiVersion": "v1",\n\t"kind": "Pod",\n\t"spec": {\n\t\t"containers": [\n\t\t\t{"name": "c"}\n\t\t],\n\t\t"hostIPC": true\n\t}\n}\n',
      '{\n\t"apiVersion": "v1",\n\t"kind": "Pod",\n\t"spec": {\n\t\t"containers": [\n\t\t\t{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}\n\t\t],\n\t\t"hostIPC": false,\n\t\t"securityContext": {\n\t\t\t"runAsNonRoot": true,\n\t\t\t"seccompProfile": {\n\t\t\t\t"type": "RuntimeDefault"\n\t\t\t}\n\t\t}\n\t}\n}\n',
    ],
    [
      'a sequence of JSON objects on one line',
      '{"apiVersion":"v1","kind":"Pod","spec":{"hostPID":true}}{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{}]}}]}',
      '{"apiVersion":"v1","kind":"Pod","spec":{"hostPID":false}}{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}}}]}',
    ],
  ];
  for (const [name, before, after] of cases) {
    for (const eol of ['\n', '\r\n']) {
      test(`${name} (${JSON.stringify(eol)})`, () => {
        const [text, expected] = [before, after].map((one) => one.replaceAll('\n', eol));
        const fixed = fixManifests(text ?? '', RESTRICTED);
        assert.deepEqual(printUnfixed(fixed), []);
        assert.equal(fixed.text, expected);
      });
    }
  }
});

/** A pod with a violation that cannot be fixed because of the merge key, and a pod with one that can. */
const SHARED_POD = '- {apiVersion: v1, kind: Pod, spec: {hostPID: false, <<: *x}}\n';
const PLAIN_POD = '- {apiVersion: v1, kind: Pod, spec: {hostPID: true}}\n';

function fixList(pods: string): FixedText {
  return fixManifests(`x: &x {hostPID: true}\napiVersion: v1\nkind: List\nitems:\n${pods}`, BASELINE);
}

test('fixManifests fixes the other objects of a list if some of its objects cannot be fixed', () => {
  const pods = [PLAIN_POD.repeat(20), SHARED_POD, PLAIN_POD.repeat(10), SHARED_POD, PLAIN_POD].join('');
  const { text, changes, unfixed } = fixList(pods);
  assert.equal(text, fixList(pods.replaceAll('true', 'false')).text);
  assert.equal(changes.length, 31);
  assert.deepEqual(
    unfixed.map(({ object, choices }) => `${object.line}: ${choices.join()}`),
    [25, 36].map((line) => `${line}: the YAML does not allow this change without changing other fields`),
  );
});

test('fixManifests takes linear time if no object of a list can be fixed', () => {
  const measure = (pods: string): number => {
    const startMs = performance.now();
    fixList(pods);
    return performance.now() - startMs;
  };
  measure(PLAIN_POD.repeat(300));
  const [fixedMs, unfixedMs] = [PLAIN_POD, SHARED_POD].map((pod) => measure(pod.repeat(600))) as [number, number];
  assert.ok(unfixedMs < 50 * fixedMs, `${unfixedMs} ms for objects that cannot be fixed, ${fixedMs} ms for others`);
});

test('fixManifests runs in a browser', async () => {
  const { warnings } = await build({
    entryPoints: ['src/config/fix.ts'],
    bundle: true,
    format: 'esm',
    platform: 'browser',
    write: false,
  });
  assert.deepEqual(warnings, []);
});

/** Prints a value in the style with the given number, with a comment at the end of each YAML line. */
function printStyled(value: object, style: number): string {
  if (style % 3 === 0) return `${JSON.stringify(value, undefined, [0, 2, '\t'][(style % 4) % 3])}\n`;
  const yaml = stringify(value, {
    indent: 2 + (style % 2) * 2,
    indentSeq: style % 4 < 2,
    collectionStyle: style % 5 === 0 ? 'flow' : 'any',
    lineWidth: 0,
  });
  return style % 5 === 0 ? yaml : yaml.replaceAll(/$(?=\n)/gm, () => ' # comment');
}

/**
 * Checks that all lines keep their order, except lines with the name of a changed field and lines in items of a changed
 * list.
 */
function assertLinesKept(before: string, after: string, { changes }: FixedText): void {
  const names = new Set(changes.flatMap(({ field }) => field.map(String)));
  const lines = after.split('\n');
  let position = -1;
  for (const line of before.split('\n')) {
    if ([...names].some((name) => line.includes(name)) || /- (?:name: \w+\.|[A-Z])|type:|value:/.test(line)) continue;
    position = lines.indexOf(line, position + 1);
    assert.ok(position >= 0, `${line} of ${before} in ${after}`);
  }
}

test('after fixManifests, the checks pass and no other field has changed', () => {
  let changed = 0;
  const other = '# other\na:   {b: "c"}  # d\n\n';
  fc.assert(
    fc.property(pods(), versions(), fc.nat(59), (pod, version, style) => {
      const policy = { level: style % 2 === 0 ? 'baseline' : 'restricted', version } as const;
      const text = printStyled({ apiVersion: 'v1', kind: 'Pod', ...pod }, style);
      const fixed = fixManifests(`${other}---\n${text}---\n${other}`, policy);
      const result = fixed.text.slice(other.length + 4, -other.length - 4);
      assert.equal(fixed.text, `${other}---\n${result}---\n${other}`);
      const unfixed = new Set(fixed.unfixed.map(({ check }) => check));
      const [before, after] = [text, result].map((one) => readDocuments(one, '').documents[0]?.value);
      const left = evaluatePod(readPod(after, []).pod, policy).violations.map(({ check }) => check);
      assert.deepEqual(left, [...unfixed], result);
      const isUnfixable = /olumes: | API servers re(?:ject|quire) /;
      for (const { check, choices } of fixed.unfixed) assert.match(`${check}: ${choices.join('; ')}`, isUnfixable);
      const pointers = fixed.changes.map(({ field }) => `/${field.map((step) => escapeKey(String(step))).join('/')}`);
      for (const { path } of diff(before, after)) {
        assert.ok(
          pointers.some((one) => one.startsWith(path) || path.startsWith(one)),
          `${path} of ${text}`,
        );
      }
      if (text.includes('# comment')) assertLinesKept(text, result, fixed);
      assert.equal(fixManifests(fixed.text, policy).text, fixed.text);
      if (fixed.changes.length > 0) changed++;
    }),
    { numRuns: 400 },
  );
  assert.ok(changed > 100, String(changed));
});
