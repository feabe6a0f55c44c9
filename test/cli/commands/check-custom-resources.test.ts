/** Tests custom resources whose pod fields are spread over the object, and security fields of unknown kinds. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CheckedObject } from '../../../src/cli/output/findings.ts';
import type { ManifestError } from '../../../src/config/yaml.ts';
import { readFixture } from '../../support/fixtures.ts';
import { runProgram } from '../../support/memory-io.ts';

interface Case {
  readonly name: string;
  readonly group: string;
  /** `FIELD: CHECK` for each violating field. */
  readonly findings?: readonly string[];
  /** The security-relevant fields that are not evaluated. */
  readonly problems?: readonly string[];
}

interface Report {
  readonly objects: readonly CheckedObject[];
  readonly notEvaluated: readonly ManifestError[];
}

const CASES = readFixture<readonly Case[]>('custom-pods.yaml');

describe('check evaluates the pods in the custom resource', () => {
  for (const [index, { name, group, findings = [], problems = [], ...body }] of CASES.entries()) {
    test(`${name}.${group} (${index})`, async () => {
      const stdin = JSON.stringify({ apiVersion: group, kind: name, metadata: { name: 'a' }, ...body });
      const result = await runProgram(['check', '-f', '-', '--level=baseline', '-o', 'json'], { stdin });
      const { objects, notEvaluated } = JSON.parse(result.stdout) as Report;
      const found = objects.flatMap((object) =>
        object.findings.flatMap(({ check, fields }) => fields.map(({ path }) => `${path}: ${check}`)),
      );
      assert.deepEqual(found, findings);
      const kind = `${name}.${group.split('/')[0]}`;
      const skip = `outside the known pod templates of ${kind}; to skip this kind, set --skip-kind=${kind}`;
      assert.deepEqual(
        notEvaluated.map(({ message }) => message),
        problems.map((problem) => `not evaluated: ${problem} ${skip}`),
      );
      assert.equal(result.code, problems.length > 0 ? 2 : findings.length > 0 ? 1 : 0);
    });
  }
});

const TASK = `apiVersion: tekton.dev/v1
kind: Task
metadata: {name: build, namespace: ci}
spec:
  stepTemplate:
    securityContext: {privileged: true}
  steps:
  - image: a
    securityContext: {runAsUser: "\${UID}"}
`;

describe('pods composed from a custom resource', () => {
  const evaluated = TASK.replace('"${UID}"', '1');

  test('cause findings at positions in the custom resource', async () => {
    const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline'], { stdin: evaluated });
    assert.equal(
      stdout,
      `Task ci/build (spec) violates PodSecurity "baseline:latest"
  stdin:6:23  privileged  privileged (container "steps[0]" must not set securityContext.privileged=true)
                          Fix: Remove securityContext.privileged from the containers, or set it to false.

Evaluated pod templates of other API groups
  stdin:4:1  Task ci/build (spec)

0 passed, 1 failed
`,
    );
  });

  test('are not changed by --fix', async () => {
    const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], {
      stdin: evaluated,
    });
    assert.equal(stdout, evaluated);
    assert.equal(
      stderr.split('\n')[0],
      'not fixed: stdin:6:23: privileged: container "steps[0]" must not set securityContext.privileged=true: change the Task, whose controller creates the pod',
    );
  });

  test('cause an error if they contain placeholders', async () => {
    const { code, stderr } = await runProgram(['check', '-f', '-'], { stdin: TASK });
    assert.equal(
      stderr,
      'error: stdin:9:23: not rendered yet: spec.steps[0].securityContext.runAsUser contains ${UID}. Render it first: envsubst < FILE | portcullis check -f -\n',
    );
    assert.equal(code, 2);
  });

  test('are reviewed by SCC admission', async () => {
    const args = ['check', '-f', '-', '--platform=openshift'];
    const { code, stdout } = await runProgram(args, { stdin: evaluated });
    assert.equal(code, 1);
    assert.match(stdout, /^Task ci\/build \(spec\) is denied, no SCC admits it\n {2}stdin:9:23 +scc-admission /);
  });

  test('are evaluated by other commands', async () => {
    const explained = await runProgram(['explain', '-f', '-', '--offline'], { stdin: evaluated });
    assert.match(explained.stdout, /^Task ci\/build \(spec\): /);
    const plan = await runProgram(['rollout', 'plan', '-f', '-', '-o', 'json'], { stdin: evaluated });
    assert.match(plan.stdout, /"spec\.stepTemplate\.securityContext\.privileged"/);
  });

  test('exclude security fields outside known pod templates, which rollout plan lists', async () => {
    const stdin = 'apiVersion: example.com/v1\nkind: Agent\nmetadata: {name: a}\nspec: {hostNetwork: true}\n';
    const { stdout } = await runProgram(['rollout', 'plan', '-f', '-'], { stdin });
    assert.match(stdout, /no pods for security fields outside pod templates: Agent default\/a \(spec\.hostNetwork\)/);
  });
});
