/** Tests OpenShift Templates, whose objects are evaluated with the values of the parameters. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CheckedObject } from '../../../src/cli/output/findings.ts';
import type { ManifestError } from '../../../src/config/yaml.ts';
import { runProgram } from '../../support/memory-io.ts';

interface Report {
  readonly objects: readonly CheckedObject[];
  readonly notEvaluated: readonly ManifestError[];
  readonly errors: readonly ManifestError[];
}

const PARAMETERS = `parameters:
- {name: TEXT, value: text}
- {name: FLAG, value: "true"}
- {name: NUMBER, value: "0"}
- {name: LIST, value: '["SYS_ADMIN"]'}
- {name: EMPTY, value: ""}
- {name: REQUIRED, required: true}
- {name: SECRET, generate: expression, from: "[a-z]{8}"}
- {name: GIVEN, generate: expression, from: "[a-z]{8}", value: given}
- {name: KIND, value: Pod}
`;

function template(objects: string, metadata = '{name: web}'): string {
  return `apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: ${metadata}\n${PARAMETERS}objects:\n${objects}`;
}

function pod(spec: string): string {
  return template(`- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: ${spec}}\n`);
}

function container(fields: string): string {
  return pod(`{containers: [{name: a, ${fields}, image: i}]}`);
}

const PROCESS = (path: string, reference: string, name: string): string =>
  `not rendered yet: ${path} contains ${reference}. The parameter has no value, so process the template first: oc process -f - -p ${name}=VALUE | portcullis check -f -`;

/** Templates and their results, which are the names of objects with their checks, or errors. */
const CASES: readonly (readonly [name: string, text: string, code: number, results: readonly string[]])[] = [
  [
    'a typed reference',
    pod('{hostNetwork: "${{FLAG}}", containers: [{ name: c, image: i }]}'),
    1,
    ['Pod default/a: hostNamespaces'],
  ],
  [
    'an unquoted reference',
    template(
      '- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    hostNetwork: ${{FLAG}}\n    containers: [{name: c, image: i}]\n',
    ),
    1,
    ['Pod default/a: hostNamespaces'],
  ],
  [
    'a list',
    container('securityContext: {capabilities: {add: "${{LIST}}"}}'),
    1,
    ['Pod default/a: capabilities_baseline'],
  ],
  ['a typed reference to text', container('image: "${{TEXT}}"'), 0, ['Pod default/a: ']],
  ['a text reference in a typed field', pod('{hostNetwork: "${FLAG}"}'), 1, ['Pod default/a: decode']],
  [
    'a typed reference in text',
    pod('{hostNetwork: "a${{FLAG}}"}'),
    2,
    [PROCESS('spec.hostNetwork', '${{FLAG}}', 'FLAG')],
  ],
  [
    'names, kinds and keys',
    template(
      '- {apiVersion: v1, kind: "${KIND}", metadata: {name: "x-${TEXT}-${GIVEN}"}, spec: {"host${NO}": 1, containers: [{ name: c, image: i }]}}\n',
    ),
    0,
    ['Pod default/x-text-given: unknownField'],
  ],
  [
    'labels, which are added to all objects',
    template(
      '- {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {pod-security.kubernetes.io/enforce: privileged}}}\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostPID: true, containers: [{ name: c, image: i }]}}\n',
    ).replace(
      'objects:',
      'labels: {"pod-security.kubernetes.io/${TEXT}": a, pod-security.kubernetes.io/enforce: "x-${TEXT}"}\nobjects:',
    ),
    1,
    ['Namespace /team: labels,labels', 'Pod default/a: hostNamespaces,labels,labels'],
  ],
  ['a typed number', container('securityContext: {runAsUser: "${{NUMBER}}"}'), 0, ['Pod default/a: ']],
  [
    'a parameter without a value',
    pod('{hostNetwork: "${{REQUIRED}}"}'),
    2,
    [PROCESS('spec.hostNetwork', '${{REQUIRED}}', 'REQUIRED')],
  ],
  [
    'a parameter with an empty value',
    pod('{hostNetwork: "${{EMPTY}}"}'),
    2,
    [PROCESS('spec.hostNetwork', '${{EMPTY}}', 'EMPTY')],
  ],
  [
    'a generated value',
    container('securityContext: {procMount: "${SECRET}"}'),
    2,
    [PROCESS('spec.containers[0].securityContext.procMount', '${SECRET}', 'SECRET')],
  ],
  [
    'parameters without values in fields that no policy reads',
    container('image: "${REQUIRED}", env: [{name: A, value: "${SECRET}"}]'),
    0,
    ['Pod default/a: '],
  ],
  [
    'a template without parameters',
    'apiVersion: v1\nkind: Template\nobjects: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostPID: true, containers: [{ name: c, image: i }]}}]\n',
    1,
    ['Pod default/a: hostNamespaces'],
  ],
  [
    'templates in a list',
    `apiVersion: v1\nkind: List\nitems:\n- {apiVersion: template.openshift.io/v1, kind: Template, parameters: [{name: A, value: "true"}], objects: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostPID: "\${{A}}", containers: [{ name: c, image: i }]}}]}\n`,
    1,
    ['Pod default/a: hostNamespaces'],
  ],
  [
    'lists and all built-in kinds',
    template(
      '- {apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: "${{TEXT}}"}}]}\n- {apiVersion: apps/v1beta9, kind: Deployment}\n',
    ),
    2,
    ['Deployment default/a: decode', 'not evaluated: no kind "Deployment" is registered for version "apps/v1beta9"'],
  ],
  [
    'namespaces that oc process replaces',
    template(
      '- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: other}, spec: {containers: [{ name: c, image: i }]}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: "${TEXT}"}, spec: {containers: [{ name: c, image: i }]}}\n',
      '{name: web, namespace: shop}',
    ),
    0,
    ['Pod shop/a: ', 'Pod text/b: '],
  ],
  ['a value that is not an object', template('- text\n'), 2, ['expected an object with apiVersion and kind']],
  [
    'a Template of another group',
    'apiVersion: example.com/v1\nkind: Template\nparameters: [{name: A, value: "true"}]\nobjects: [{apiVersion: v1, kind: Pod, spec: {hostPID: true, containers: [{ name: c, image: i }]}}]\n',
    1,
    ['Template default/: hostNamespaces'],
  ],
];

describe('check evaluates the objects in OpenShift Templates', () => {
  for (const [name, stdin, code, results] of CASES) {
    test(`with ${name}`, async () => {
      const result = await runProgram(['check', '-f', '-', '--level=baseline', '-o', 'json'], { stdin });
      const { objects, notEvaluated, errors } = JSON.parse(result.stdout) as Report;
      const found = objects.map(
        (one) => `${one.kind} ${one.namespace ?? ''}/${one.name}: ${one.findings.map(({ check }) => check).join()}`,
      );
      assert.deepEqual([...found, ...[...notEvaluated, ...errors].map(({ message }) => message)], results);
      assert.equal(result.code, code);
    });
  }

  test('and reports the positions of the objects in the template', async () => {
    const stdin = template(
      '- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    hostNetwork: ${{FLAG}}\n    containers: [{name: c, image: i}]\n',
    );
    const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline'], { stdin });
    assert.match(stdout, /^ {2}stdin:19:5 {2}hostNamespaces /m);
  });

  test('but --fix changes only objects without parameter references', async () => {
    const objects = `- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostPID: true, containers: [{ name: c, image: i }]}}
- {apiVersion: v1, kind: Pod, metadata: {name: "\${TEXT}"}, spec: {hostPID: true, containers: [{ name: c, image: i }]}}
`;
    const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], {
      stdin: template(objects),
    });
    assert.equal(stdout, template(objects.replace('hostPID: true', 'hostPID: false')));
    assert.match(
      stderr,
      /^not fixed: stdin:16:\d+: hostNamespaces: not set to false: change it in the template, because its parameters have been substituted$/m,
    );
  });

  for (const [name, metadata] of [
    ['without labels', '{name: a}'],
    ['with empty metadata', '{}'],
    ['with other labels', '{name: a, labels: {app: own, tier: web}}'],
    ['without metadata', 'null'],
  ]) {
    test(`--fix does not write the labels of the template into an object ${name}`, async () => {
      const stdin = template(
        `- {apiVersion: v1, kind: Pod, metadata: ${metadata}, spec: {hostPID: true, containers: [{name: c, image: i}]}}\n`,
      ).replace('objects:', 'labels: {app: shop}\nobjects:');
      const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
      assert.equal(stdout, stdin.replace('hostPID: true', 'hostPID: false'));
    });
  }

  for (const [moved, labels, expected] of [
    ['labels: {app: own}, metadata: {name: a}, spec: {}', '', 'metadata: {name: a, labels: {app: own}}, spec: {}'],
    ['name: a, spec: {}', 'labels: {app: shop}\n', 'spec: {}, metadata: {name: a}'],
  ] as const) {
    test(`--fix keeps the fields that it moves to the metadata of an object: ${moved}`, async () => {
      const stdin = template(`- {apiVersion: v1, kind: Pod, ${moved}}\n`).replace('objects:', `${labels}objects:`);
      const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
      assert.equal(stdout, stdin.replace(moved, expected));
    });
  }

  test('--fix removes the only metadata of an object in a template with labels', async () => {
    const annotation = 'container.apparmor.security.beta.kubernetes.io/c';
    const stdin = template(
      `- {apiVersion: v1, kind: Pod, metadata: {annotations: {${annotation}: unconfined}}, spec: {containers: [{name: c, image: i}]}}\n`,
    ).replace('objects:', 'labels: {app: shop}\nobjects:');
    const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
    assert.equal(stdout, stdin.replace(`{annotations: {${annotation}: unconfined}}`, '{}'));
  });

  test('as other commands do', async () => {
    const stdin = pod('{hostNetwork: "${{FLAG}}", containers: [{name: a, image: i}]}');
    const { stdout } = await runProgram(['explain', '-f', '-', '--offline'], { stdin });
    assert.match(stdout, /^Pod default\/a: /);
  });
});
