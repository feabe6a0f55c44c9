import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { VERSION } from '../../../src/cli/command.ts';
import { type CheckedObject, printFindingTable } from '../../../src/cli/output/findings.ts';
import { dnsSubdomainErrors } from '../../../src/kube/names.ts';
import { readFixture } from '../../support/fixtures.ts';
import { runProgram } from '../../support/memory-io.ts';

const fixtures = join(import.meta.dirname, '../../fixtures/check');

const SHOP_ERRORS = [
  "error: stdin:61:1: did not find expected ',' or '}'\n",
  'error: stdin:69:1: not evaluated: no kind "Deployment" is registered for version "extensions/v1beta1"\n',
  'warning: stdin:47:5: key "runAsNonRoot" is repeated, and the last value applies\n',
].join('');
const SCC_ERRORS = [
  'error: stdin:54:1: not evaluated: no kind "SecurityContextConstraints" is registered for version "v1"\n',
  'error: stdin:59:1: not evaluated: no kind "securitycontextconstraints" is registered for version "security.openshift.io/v1": write "SecurityContextConstraints"\n',
].join('');

describe('check prints all findings', () => {
  for (const [manifests, errors] of [
    ['shop', SHOP_ERRORS],
    ['sccs', SCC_ERRORS],
  ] as const) {
    for (const format of ['table', 'json', 'yaml', 'sarif', 'junit', 'github']) {
      test(`in ${manifests} as ${format}`, async () => {
        const stdin = await readFile(join(fixtures, `${manifests}.yaml`), 'utf8');
        const expected = await readFile(join(fixtures, `expected/${manifests}.${format}.txt`), 'utf8');
        const { code, stdout, stderr } = await runProgram(['check', '-f', '-', '-o', format], { stdin });
        assert.equal(stdout.replace(`"semanticVersion": "${VERSION}"`, '"semanticVersion": "0.1.0"'), expected);
        assert.equal(stderr, format === 'table' ? errors : '');
        assert.equal(code, 2);
      });
    }
  }
});

const POD = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {hostPID: true, containers: [{name: c, image: i}]}
`;

type Labels = Readonly<Record<string, string>>;
/** Namespace names and their Pod Security labels. */
type Namespaces = readonly (readonly [name: string, labels: Labels])[];

function withPod(namespaces: Namespaces): string {
  const objects = namespaces.map(([name, labels]) => {
    const prefixed = Object.entries(labels).map(([key, value]) => [`pod-security.kubernetes.io/${key}`, value]);
    const metadata = { name, labels: Object.fromEntries(prefixed) as Labels };
    return `---\n${JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata })}\n`;
  });
  return POD + objects.join('');
}

const LABELED: Namespaces = [['default', { enforce: 'baseline' }]];
const OTHER: Namespaces = [['other', { enforce: 'privileged' }]];
const WARNED: Namespaces = [['default', { enforce: 'privileged', warn: 'baseline' }]];
const AUDITED: Namespaces = [['default', { enforce: 'privileged', audit: 'baseline' }]];
const ALL_MODES = { enforce: 'privileged', audit: 'restricted', warn: 'baseline' };
const TWICE: Namespaces = [
  ['default', { enforce: 'restricted' }],
  ['default', { enforce: 'privileged' }],
];
const LABEL = '--namespace-labels=pod-security.kubernetes.io';

/** The expected exit code, followed by each object with its number of findings by mode and policy. */
const policies: readonly (readonly [name: string, namespaces: Namespaces, args: string, expected: string])[] = [
  ['restricted is enforced by default', [], '', '1: p {enforce restricted:latest: 5}'],
  ['--level sets the enforced level', [], '--level=baseline', '1: p {enforce baseline:latest: 1}'],
  ['--level=privileged allows everything', [], '--level privileged', '0: p {}'],
  ['--kubernetes-version sets the version', [], '--kubernetes-version=v1.7', '1: p {enforce restricted:v1.7: 2}'],
  [
    '--kubernetes-version may be a future version',
    [],
    '--level=baseline --kubernetes-version v1.999',
    '1: p {enforce baseline:v1.999: 1}',
  ],
  [
    'labels in an option apply to namespaces that the manifests do not contain',
    [],
    `${LABEL}/enforce=privileged,pod-security.kubernetes.io/audit=baseline,a=b`,
    '0: p {audit baseline:latest: 1}',
  ],
  [
    'labels in repeated options are combined',
    [],
    `${LABEL}/enforce=baseline ${LABEL}/enforce-version=v1.5`,
    '1: p {enforce baseline:v1.5: 1}',
  ],
  ['the labels of the namespace apply', LABELED, '', '1: p {enforce baseline:latest: 1} default {}'],
  [
    'the labels of the namespace take precedence over the option',
    LABELED,
    `${LABEL}/enforce=privileged`,
    '1: p {enforce baseline:latest: 1} default {}',
  ],
  ['the labels of another namespace do not apply', OTHER, '', '1: p {enforce restricted:latest: 5} other {}'],
  ['--namespace sets the namespace of objects without one', OTHER, '-n other', '0: p {} other {}'],
  [
    '--level applies to a namespace without labels',
    [['default', {}]],
    '--level=baseline',
    '1: p {enforce baseline:latest: 1} default {}',
  ],
  [
    '--level applies if the labels do not set enforce',
    [['default', { warn: 'restricted' }]],
    '--level=baseline --kubernetes-version=v1.20',
    '1: p {enforce baseline:v1.20: 1, warn restricted:v1.20: 3} default {}',
  ],
  [
    'a finding is counted once, in the strongest mode',
    [['default', ALL_MODES]],
    '',
    '0: p {warn baseline:latest: 1, audit restricted:latest: 4} default {}',
  ],
  ['the last of two namespaces with the same name applies', TWICE, '', '0: p {} default {} default {}'],
  [
    'an invalid label is a violation',
    [['a', { enforce: 'Baseline', warn: 'x' }]],
    '--level=privileged',
    '1: p {} a {enforce labels: 2}',
  ],
  [
    '--fail-on=warn fails for a violation of the enforced level',
    [],
    '--fail-on=warn',
    '1: p {enforce restricted:latest: 5}',
  ],
  [
    '--fail-on=warn fails for a violation of the warn level',
    WARNED,
    '--fail-on=warn',
    '1: p {warn baseline:latest: 1} default {}',
  ],
  [
    '--fail-on=warn passes for a violation of only the audit level',
    AUDITED,
    '--fail-on=warn',
    '0: p {audit baseline:latest: 1} default {}',
  ],
  [
    '--fail-on=audit fails for a violation of the audit level',
    AUDITED,
    '--fail-on=audit',
    '1: p {audit baseline:latest: 1} default {}',
  ],
];

interface JsonReport {
  readonly summary: Readonly<Record<string, number>>;
  readonly objects: readonly Pick<CheckedObject, 'name' | 'findings'>[];
  readonly notEvaluated: readonly { readonly message: string }[];
}

async function report(args: readonly string[], stdin: string): Promise<JsonReport & { code: number }> {
  const { code, stdout } = await runProgram(['check', '-f', '-', '-o', 'json', ...args], { stdin });
  return { code, ...(JSON.parse(stdout) as JsonReport) };
}

describe('check determines the violations and the exit code:', () => {
  for (const [name, namespaces, args, expected] of policies) {
    test(name, async () => {
      const words = args.split(' ').filter((word) => word !== '');
      const { code, objects } = await report(words, withPod(namespaces));
      const printed = objects.map(({ name, findings }) => {
        const groups = Map.groupBy(findings, ({ mode, policy, check }) => `${mode} ${policy ?? check}`);
        return `${name} {${[...groups].map(([key, group]) => `${key}: ${group.length}`).join(', ')}}`;
      });
      assert.equal(`${code}: ${printed.join(' ')}`, expected);
    });
  }
});

const SPEC = '{"hostPID":true,"containers":[{"name":"c","image":"i"}]}';

const TEMPLATE = `{"template":{"metadata":{"labels":{"a":"b"}},"spec":${SPEC}}}`;
const WORKLOAD = `{"selector":{"matchLabels":{"a":"b"}},${TEMPLATE.slice(1)}`;
const JOB = TEMPLATE.replace('"hostPID"', '"restartPolicy":"Never","hostPID"');

/** The expected counter of the summary, or the message. */
const kinds: readonly (readonly [apiVersion: string, kind: string, body: string, expected: string])[] = [
  ['v1', 'Pod', `"spec":${SPEC}`, 'failed'],
  ['v1', 'PodTemplate', `"template":{"spec":${SPEC}}`, 'failed'],
  ['v1', 'ReplicationController', `"spec":${TEMPLATE}`, 'failed'],
  ['apps/v1', 'Deployment', `"spec":${WORKLOAD}`, 'failed'],
  ['apps/v1', 'ReplicaSet', `"spec":${WORKLOAD}`, 'failed'],
  ['apps/v1', 'StatefulSet', `"spec":${WORKLOAD}`, 'failed'],
  ['apps/v1', 'DaemonSet', `"spec":${WORKLOAD}`, 'failed'],
  ['batch/v1', 'Job', `"spec":${JOB}`, 'failed'],
  ['batch/v1', 'CronJob', `"spec":{"schedule":"@daily","jobTemplate":{"spec":${JOB}}}`, 'failed'],
  ['v1', 'Pod', '"spec":{"containers":null}', 'spec.containers: Required value'],
  ['v1', 'ConfigMap', '"data":{}', 'otherKinds'],
  ['batch.volcano.sh/v1alpha1', 'Job', `"spec":${TEMPLATE}`, 'failed'],
  ['argoproj.io/v1alpha1', 'Rollout', `"spec":${TEMPLATE}`, 'failed'],
  ['example.com/v1', 'Database', `"spec":{"members":[${TEMPLATE}]}`, 'failed'],
  ['serving.knative.dev/v1', 'Revision', `"spec":${SPEC}`, 'failed'],
  [
    'monitoring.coreos.com/v1',
    'Prometheus',
    '"spec":{"containers":[{"name":"a","args":[]}]}',
    'not evaluated: spec.containers contains containers outside the known pod templates of Prometheus.monitoring.coreos.com; to skip this kind, set --skip-kind=Prometheus.monitoring.coreos.com',
  ],
  ['example.com/v1', 'pod', '"spec":{}', 'otherKinds'],
  ['v1', 'Pod', '"spec":[]', 'spec: Invalid value: []: must be an object'],
  ['v1', 'Pod', '"spec":"","metadata":{}', 'spec: Invalid value: "": must be an object'],
  ['apps/v1', 'Deployment', '"spec":""', 'spec: Invalid value: "": must be an object'],
  ['apps/v1', 'Deployment', '"spec":{"template":[1]}', 'spec.template: Invalid value: [1]: must be an object'],
  ['batch/v1', 'CronJob', '"spec":{"jobTemplate":5}', 'spec.jobTemplate: Invalid value: 5: must be an object'],
  ...[
    ['extensions/v1beta1', 'DaemonSet'],
    ['apps/v1beta2', 'Deployment'],
    ['batch/v1beta1', 'CronJob'],
    ['v1', 'Deployment'],
    ['apps/v1', 'Pod'],
    ['v2', 'Pod'],
    ['v1', 'pod', 'Pod'],
    ['apps/v1', 'DEPLOYMENT', 'Deployment'],
    ['v1', 'namespace', 'Namespace'],
    ['v1', 'SecurityContextConstraints'],
  ].map(([apiVersion = '', kind = '', correct]) => {
    const hint = correct === undefined ? '' : `: write "${correct}"`;
    const message = `not evaluated: no kind "${kind}" is registered for version "${apiVersion}"${hint}`;
    return [apiVersion, kind, '"metadata":{}', message] as const;
  }),
];

describe('check evaluates pod fields of every kind with pods:', () => {
  for (const [apiVersion, kind, body, expected] of kinds) {
    test(`${apiVersion} ${kind} with ${body}: ${expected}`, async () => {
      const text = `{"apiVersion":"${apiVersion}","kind":"${kind}","metadata":{"name":"x"},${body}}`;
      const { code, summary, objects, notEvaluated } = await report(['--level=baseline'], text);
      const [finding] = objects.flatMap(({ findings }) => findings);
      const outcome = Object.entries(summary).find(([, count]) => count > 0)?.[0];
      assert.equal(
        notEvaluated[0]?.message ??
          (finding?.check === 'decode' || finding?.check === 'invalid' ? finding.detail : outcome),
        expected,
      );
      assert.equal(code, notEvaluated.length > 0 ? 2 : finding ? 1 : 0);
    });
  }

  const pod = (namespace: string) =>
    `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"${namespace}","labels":{"a":"b"}},"spec":${SPEC}}`;
  for (const [kind, body, expected] of [
    ['apps/v1 Deployment', `"selector":{"matchLabels":{"a":"b"}},"template":${pod('b')}`, 'a'],
    ['argoproj.io/v1alpha1 Rollout', `"template":${pod('b')}`, 'a'],
    ['example.com/v1 Objects', `"objects":[${pod('b')}]`, 'b'],
  ] as const) {
    test(`the namespace of the pods of a ${kind} is that of the innermost object`, async () => {
      const [apiVersion = '', name = ''] = kind.split(' ');
      const object = `{"apiVersion":"${apiVersion}","kind":"${name}","metadata":{"name":"x","namespace":"a"},"spec":{${body}}}`;
      const { stdout } = await runProgram(['check', '-f', '-', '-n', 'c', '--level=baseline'], { stdin: object });
      assert.match(stdout, new RegExp(`^${name} ${expected}/x .*violates PodSecurity "baseline:latest"$`, 'm'));
    });
  }

  test('the defaults of the API server apply', async () => {
    const spec =
      '{"hostNetwork":true,"restartPolicy":"Never","containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}],"volumes":[{"name":"v"}]}';
    const template = `{"template":{"spec":${spec}}}`;
    const { objects } = await report(
      [],
      `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":${template}}`,
    );
    const checks = objects.flatMap(({ findings }) => findings.map(({ check }) => check));
    assert.ok(checks.includes('hostPorts'));
    assert.ok(!checks.includes('restrictedVolumes'));
  });
});

interface InvalidObject {
  readonly name: string;
  readonly object: object;
  readonly errors: readonly string[];
  /** The distinct fixes. Absent if another case has the same fixes. */
  readonly fixes?: readonly string[];
}

describe('check reports the errors of API servers for', () => {
  for (const { name, object, errors, fixes } of readFixture<readonly InvalidObject[]>('invalid-objects.yaml')) {
    test(name, async () => {
      const { code, objects } = await report(['--level=privileged'], JSON.stringify(object));
      const findings = objects.flatMap((one) => one.findings);
      const details = findings.map(({ detail }) => detail);
      assert.deepEqual([code, details.sort()], [errors.length > 0 ? 1 : 0, errors.toSorted()]);
      if (fixes) assert.deepEqual(new Set(findings.map(({ fix }) => fix)), new Set(fixes));
    });
  }
});

const CUSTOM_TABLE = `Rollout shop/web (spec.template) violates PodSecurity "baseline:latest"
  stdin:17:9   hostNamespaces  host namespaces (hostNetwork=true)
                               Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.
  stdin:21:19  hostPorts       hostPort (container "web" uses hostPort 80)
                               Fix: Remove hostPort from the container ports, and expose them through a Service.

AdvancedCronJob shop/report (spec.template.jobTemplate.spec.template) is invalid
  stdin:37:9  decode  wrong type (spec.template.jobTemplate.spec.template: Invalid value: "text": must be an object)
                      Fix: Use a value of the required type.

AdvancedCronJob shop/report (spec.template.broadcastJobTemplate.spec.template) violates PodSecurity "baseline:latest"
  stdin:42:13  hostNamespaces  host namespaces (hostPID=true)
                               Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.

Pod shop/p violates PodSecurity "baseline:latest"
  stdin:52:5  hostNamespaces  host namespaces (hostIPC=true)
                              Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.

Evaluated pod templates of other API groups
  stdin:14:5  Rollout shop/web (spec.template)
  stdin:26:5  Service shop/hello (spec.template)
  stdin:37:9  AdvancedCronJob shop/report (spec.template.jobTemplate.spec.template)
  stdin:40:9  AdvancedCronJob shop/report (spec.template.broadcastJobTemplate.spec.template)

2 passed, 4 failed, `;

describe('check evaluates pod templates of other API groups', () => {
  const cases: readonly (readonly [args: readonly string[], code: number, counts: string, stderr: string])[] = [
    [
      [],
      2,
      '1 not evaluated, 1 of other kinds',
      'error: stdin:61:5: not evaluated: spec.templates[0].container contains containers outside the known pod templates of Runner.example.com; to skip this kind, set --skip-kind=Runner.example.com\n',
    ],
    [['--skip-kind', 'Runner.example.com'], 1, '2 of other kinds', ''],
  ];
  for (const [args, code, counts, stderr] of cases) {
    test(`with ${args.join(' ') || 'defaults'}`, async () => {
      const valid = await readFile(join(fixtures, 'custom.yaml'), 'utf8');
      const stdin = valid.replace(/template: \{.*name: c.*/, 'template: text');
      const result = await runProgram(['check', '-f', '-', ...args], { stdin });
      assert.equal(result.stdout, `${CUSTOM_TABLE}${counts}\n`);
      assert.equal(result.stderr, stderr);
      assert.equal(result.code, code);
    });
  }
  for (const [kind, problem] of [
    ['Deployment.apps', 'Deployment.apps is always checked'],
    ['Workflow', 'must be KIND.GROUP, such as Prometheus.monitoring.coreos.com'],
  ] as const) {
    test(`and --skip-kind rejects ${kind}`, async () => {
      const { code, stderr } = await runProgram(['check', '-f', '-', '--skip-kind', kind], { stdin: POD });
      assert.equal(stderr.split('\n')[0], `error: invalid argument "${kind}" for "--skip-kind" flag: ${problem}`);
      assert.equal(code, 2);
    });
  }
});

async function folderWith(context: TestContext, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-check-'));
  context.after(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

describe('check on a terminal', () => {
  test('shows the progress and clears it', async (context) => {
    const folder = await folderWith(context, { 'a.yaml': POD, 'b\u001b[2J.yaml': POD });
    const { stderr } = await runProgram(['check', '-f', folder], { terminals: ['stderr'] });
    const lines = [
      `Reading ${folder}/a.yaml (1 of 2): 0%`,
      `Reading ${folder}/a.yaml (1 of 2): 100%`,
      `Reading ${folder}/b\\u001b[2J.yaml (2 of 2): 0%`,
      `Reading ${folder}/b\\u001b[2J.yaml (2 of 2): 100%`,
      '',
    ];
    assert.equal(stderr, lines.map((line) => `\r\u001b[K${line}`).join(''));
  });

  const surroundings: readonly (readonly [name: string, env: Readonly<Record<string, string>>, isColored: boolean])[] =
    [
      ['prints colors', {}, true],
      ['prints no colors with NO_COLOR', { NO_COLOR: '1' }, false],
      ['prints colors with an empty NO_COLOR', { NO_COLOR: '' }, true],
      ['prints no colors with TERM=dumb', { TERM: 'dumb' }, false],
    ];
  for (const [name, env, isColored] of surroundings) {
    test(name, async () => {
      const { stdout } = await runProgram(['check', '-f', '-'], { stdin: POD, env, terminals: ['stdout'] });
      assert.equal(stdout.includes('\u001b[31mhostNamespaces'), isColored);
    });
  }
});

const CONTROL_CHARACTERS: readonly (readonly [name: string, shown: string])[] = [
  ['a\u001b[2Jb', 'a\\u001b[2Jb'],
  ['a\u009b2Jb', 'a\\u009b2Jb'],
  ['a\rb\u0000c\u007fd', 'a\\rb\\u0000c\\u007fd'],
  ['a\u202eb', 'a\\u202eb'],
  ['a\u0085b\u2028c\u2029d', 'a\\u0085b\\u2028c\\u2029d'],
  ['é\u00a0ж😀', 'é\u00a0ж😀'],
];

describe('check escapes control characters in names', () => {
  for (const [name, shown] of CONTROL_CHARACTERS) {
    test(shown, async () => {
      const stdin = `{"apiVersion":"v1","kind":"Pod","metadata":${JSON.stringify({ name })},"spec":${SPEC}}`;
      const { stdout } = await runProgram(['check', '--level=baseline', '-f', '-'], { stdin });
      assert.equal(stdout.split('\n')[0], `Pod default/${shown} is invalid`);
    });
    for (const format of ['github', 'junit', 'sarif', 'json', 'yaml']) {
      test(`${shown} in ${format}`, async () => {
        const stdin = `{"apiVersion":"v1","kind":"Pod","metadata":${JSON.stringify({ name })},"spec":${SPEC}}`;
        const { stdout } = await runProgram(['check', '--level=baseline', '-f', '-', '-o', format], { stdin });
        assert.doesNotMatch(stdout.replaceAll('\n', ''), /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
        if (format === 'github') assert.ok(stdout.includes(`::Pod default/${shown} is invalid`));
        if (format === 'json' || format === 'yaml') {
          assert.equal((parse(stdout) as { objects: { name: string }[] }).objects[0]?.name, name);
        }
      });
    }
  }
});

test('check prints a finding with 200,000 positions', () => {
  const fields = Array.from({ length: 200_000 }, (_, index) => ({ path: '', file: 'a.yaml', line: index, column: 1 }));
  const finding = { check: 'c', mode: 'enforce', policy: 'p', reason: 'r', detail: '', fix: 'Do.', fields } as const;
  const policies = { enforce: 'p', audit: 'p', warn: 'p' };
  const position = { file: 'a.yaml', line: 1, column: 1 };
  const object = {
    apiVersion: 'v1',
    kind: 'Pod',
    namespace: 'n',
    name: 'p',
    ...position,
    policies,
    findings: [finding],
  };
  const others = { otherKinds: 0, notEvaluated: [], warnings: [], errors: [], failOn: 'enforce' } as const;
  const report = { objects: [object], ...others };
  assert.equal(printFindingTable(report, (_tone, text) => text).split('\n').length, 200_004);
});

const SUBDOMAIN_RULE = dnsSubdomainErrors('-').join('');

test('names from manifests break neither XML nor workflow commands', async () => {
  const stdin =
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\\u0001]]><b>&\\n::set-output name=x::%0A"},"spec":{"hostPID":true,"containers":[{"name":"c","image":"i"}]}}';
  const junit = await runProgram(['check', '--level=baseline', '-f', '-', '-o=junit'], { stdin });
  assert.match(
    junit.stdout,
    /<testcase name="Pod default\/a\ufffd\]\]&gt;&lt;b&gt;&amp;&#10;::set-output name=x::%0A" classname/,
  );
  const github = await runProgram(['check', '--level=baseline', '-f', '-', '-o=github'], { stdin });
  assert.deepEqual(github.stdout.split('\n'), [
    '::error file=stdin,line=1,col=45,title=invalid::Pod default/a\\u0001]]><b>&%0A::set-output name=x::%250A is invalid: ' +
      `invalid field (metadata.name: Invalid value: "a\\x01]]><b>&\\n::set-output name=x::%250A": ${SUBDOMAIN_RULE})%0AFix: Use another name in metadata.name, such as "a-b-set-output-name-x-0a".`,
    '0 passed, 1 failed',
    '',
  ]);
});

test('check prints paths in SARIF as URIs', async (context) => {
  const folder = await folderWith(context, { 'a b/ü%.yaml': POD });
  const { stdout } = await runProgram(['check', '-f', folder, '-o', 'sarif']);
  assert.ok(stdout.includes(`"uri": "file://${folder}/a%20b/%C3%BC%25.yaml"`));
});

/** Texts that tools read differently, the exit code, and the warning. */
const AMBIGUOUS_TEXTS: readonly (readonly [name: string, text: string, code: number, warning: string])[] = [
  [
    'a merge key after the key',
    'securityContext: {privileged: false, <<: {privileged: true}}',
    1,
    'stdin:8:42: the merge key replaces "privileged", because kubectl applies the keys of an object in order. In kustomize, the explicit key applies: put the merge key before "privileged"',
  ],
  ['the last of two merge keys', 'securityContext: {<<: {privileged: true}, <<: {privileged: false}}', 0, ''],
  [
    'text after the end of a document',
    'tty: true\n...\nb: 2',
    0,
    'stdin:10:1: kubectl ignores the text from here to the next separator: put a line with --- before it',
  ],
];

test('check warns about text that kubectl before version 1.34 rejects', async () => {
  const object = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}';
  const warning =
    'kubectl before version 1.34 rejects this text, because it begins with a brace but is not JSON: correct the JSON, or put a line with --- before the brace';
  const cases = [
    [object.replace('}}', '},}'), `warning: stdin:1:1: ${warning}\n`],
    [`${object}\n---\n${object}`, `warning: stdin:2:1: ${warning}\n`],
    [`${object}\n${object}`, ''],
    [`---\n${object.replace('}}', '},}')}`, ''],
  ];
  for (const [stdin, stderr] of cases) {
    const outcome = await runProgram(['check', '-f', '-'], { stdin: stdin ?? '' });
    assert.deepEqual([outcome.code, outcome.stderr], [0, stderr]);
  }
});

for (const [name, text, code, warning] of AMBIGUOUS_TEXTS) {
  test(`check reads ${name} like kubectl, and warns if kustomize or a user would read it differently`, async () => {
    const lines = [
      'apiVersion: v1',
      'kind: Pod',
      'metadata: {name: p}',
      'spec:',
      '  containers:',
      '  - name: c',
      '    image: i',
      `    ${text}`,
    ];
    const read = await runProgram(['check', '--level=baseline', '-f', '-'], { stdin: `${lines.join('\n')}\n` });
    assert.deepEqual([read.code, read.stderr], [code, warning === '' ? '' : `warning: ${warning}\n`]);
  });
}

test('check rejects two options that both read standard input', async () => {
  const { code, stderr } = await runProgram(['check', '-f', '-', '--sccs', '-'], { stdin: POD });
  assert.deepEqual([code, stderr], [2, 'error: only one option can read standard input\n']);
});

test('check stops when its signal is aborted', async (context) => {
  const folder = await folderWith(context, { 'a.yaml': POD });
  await assert.rejects(runProgram(['check', '-f', folder], { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

describe('the process of check', () => {
  const main = join(import.meta.dirname, '../../../src/main.ts');
  const start = (args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    promisify(execFile)(process.execPath, [main, 'check', ...args]).then(
      (output) => ({ code: 0, ...output }),
      (error: unknown) => error as { code: number; stdout: string; stderr: string },
    );

  test('stops on a signal while it reads standard input', async () => {
    const child = spawn(process.execPath, [main, 'check', '-f', '-'], { stdio: ['pipe', 'ignore', 'pipe'] });
    // The program is completely loaded once it reads its input.
    await new Promise((resolve) => child.stdin.write(' '.repeat(1_000_000), resolve));
    child.kill('SIGINT');
    const code = await new Promise((resolve) => child.once('exit', resolve));
    assert.equal(code, 130);
  });

  test('stops on a signal while it reads a named pipe without a writer', { timeout: 20_000 }, async (context) => {
    const folder = await folderWith(context, { 'a.yaml': POD });
    const pipe = join(folder, 'pipe.yaml');
    await promisify(execFile)('mkfifo', [pipe]);
    const { code, stdout, stderr } = await start(['--level=privileged', '-f', pipe, '-f', join(folder, 'a.yaml')]);
    assert.deepEqual([code, stdout], [2, '1 passed, 0 failed, 1 unreadable\n']);
    assert.equal(stderr, `error: ${pipe}: not a regular file; use - to read standard input\n`);
  });

  test("resolves relative paths in the user's working directory if npm starts it", async () => {
    const npm = ['run', '-s', 'portcullis', '--', 'check', '../check/empty.yaml'];
    const outcome = promisify(execFile)('npm', npm, { cwd: fixtures });
    await assert.rejects(outcome, { stderr: 'error: no objects in ../check/empty.yaml\n', code: 2 });
  });

  test('exits with a code and writes findings and errors to separate streams', async (context) => {
    const folder = await folderWith(context, { 'good/a.yaml': POD, 'bad/b.yaml': 'kind: [' });
    const passed = await start(['--level=privileged', '-f', join(folder, 'good')]);
    assert.deepEqual(passed, { code: 0, stdout: '1 passed, 0 failed\n', stderr: '' });
    const { code, stdout } = await start(['--level=baseline', '-f', join(folder, 'good')]);
    assert.equal(code, 1);
    assert.match(stdout, /hostNamespaces {2}host namespaces \(hostPID=true\)\n[^]*\n0 passed, 1 failed\n$/);
    const broken = await start(['-f', join(folder, 'bad'), '-f', join(folder, 'good'), '--level=privileged']);
    assert.equal(broken.code, 2);
    assert.equal(broken.stdout, '1 passed, 0 failed, 1 unreadable\n');
    assert.equal(broken.stderr, `error: ${folder}/bad/b.yaml:1:9: did not find expected node content\n`);
  });
});

describe('exceptions among the manifests', () => {
  const exception = (expiresAt: string): string => `---
apiVersion: policy.portcullis.dev/v1alpha1
kind: PodSecurityException
metadata: {name: host}
spec:
  serviceAccountName: default
  allow: [{check: hostNamespaces, values: [hostPID]}]
  expiresAt: ${expiresAt}
  reason: SEC-123
`;
  const check = (stdin: string, ...args: readonly string[]) =>
    runProgram(['check', '--level', 'baseline', '-f', '-', ...args], { stdin });

  test('apply until they expire', async () => {
    const manifests = POD + exception('"2027-01-15T00:00:00Z"');
    const before = await check(manifests, '--at', '2027-01-14');
    assert.deepEqual([before.code, before.stderr], [0, '']);
    const after = await check(manifests, '--at', '2027-01-15');
    assert.equal(after.code, 1);
    assert.equal(
      after.stderr,
      'warning: stdin:12:3: the exception "host" expired at 2027-01-15T00:00:00Z and allows nothing\n',
    );
  });

  test('do not affect the PodSecurity plugin, which enforces the upstream label', async () => {
    const namespace = '---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {LABEL: baseline}}\n';
    const manifests = POD + exception('"2027-01-15T00:00:00Z"');
    const upstream = namespace.replace('LABEL', 'pod-security.kubernetes.io/enforce');
    const { code, stderr } = await check(manifests + upstream, '--at', '2027-01-14');
    assert.equal(code, 0);
    assert.equal(
      stderr,
      'warning: stdin:6:1: the exception "host": the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the baseline level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace default portcullis.dev/enforce=baseline pod-security.kubernetes.io/enforce=privileged --overwrite\n',
    );
    const own = namespace.replace('LABEL', 'portcullis.dev/enforce');
    assert.equal((await check(manifests + own, '--at', '2027-01-14')).stderr, '');
  });

  const shadowed: readonly (readonly [entry: string, upstream: string, left: string | undefined])[] = [
    ['check: restrictedVolumes, values: [nfs]', 'baseline', undefined],
    ['check: restrictedVolumes, values: [nfs, /data]', 'baseline', 'privileged'],
    ['check: restrictedVolumes, values: [nfs]', 'restricted', 'baseline'],
    ['check: capabilities_restricted, container: c, image: a.io/i, values: [CHOWN, nil]', 'baseline', undefined],
  ];
  for (const [entry, upstream, left] of shadowed) {
    test(`conflict with the upstream level ${upstream} only if it denies the values: ${entry}`, async () => {
      const namespace = `---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {pod-security.kubernetes.io/enforce: ${upstream}}}\n`;
      const own = exception('"2027-01-15T00:00:00Z"').replace('check: hostNamespaces, values: [hostPID]', entry);
      const { stderr } = await check(POD + own + namespace, '--at', '2027-01-14');
      const labels = `portcullis.dev/enforce=${upstream} pod-security.kubernetes.io/enforce=${left}`;
      assert.equal(
        stderr.split('\n').find((line) => line.includes('regardless of exceptions')),
        left &&
          `warning: stdin:6:1: the exception "host": the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the ${upstream} level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace default ${labels} --overwrite`,
      );
    });
  }

  test('apply only in their namespace', async () => {
    const manifests =
      POD + exception('"2027-01-15T00:00:00Z"').replace('{name: host}', '{name: host, namespace: other}');
    assert.equal((await check(manifests, '--at', '2027-01-14')).code, 1);
  });

  test('are reported as invalid if API servers reject them', async () => {
    const manifests = POD + exception('2027-01-15').replace('hostNamespaces', 'hostNamespace');
    const { code, stdout, stderr } = await check(manifests, '--at', '2027-01-14');
    assert.deepEqual([code, stderr], [1, '']);
    const [, report = ''] = stdout
      .replace(/values: "appArmorProfile".*"/, 'values: …')
      .split(/^(?=PodSecurityException)/m);
    assert.equal(
      report,
      `PodSecurityException default/host is invalid
  stdin:12:3   invalid  invalid field (spec.expiresAt: Invalid value: "2027-01-15": must be a time in RFC 3339)
                        Fix: Use a time such as "2027-01-31T00:00:00Z".
  stdin:11:12  invalid  invalid field (spec.allow[0].check: Unsupported value: "hostNamespace": supported values: …)
                        Fix: Write "hostNamespaces".

0 passed, 2 failed
`,
    );
    const planned = await runProgram(['rollout', 'plan', '-f', '-'], { stdin: manifests });
    assert.equal(planned.code, 2);
    assert.match(
      planned.stderr,
      /^error: stdin:12:3: spec\.expiresAt: Invalid value: .*\nstdin:11:12: spec\.allow\[0\]\.check: .*\. Write "hostNamespaces"\.\n$/,
    );
  });

  const noEffect = (index: number, account = 'default'): string =>
    `warning: stdin:11:${index === 0 ? 11 : 55}: the exception "host": spec.allow[${index}] has no effect, because it matches no violation of the baseline level in the pods of service account "${account}". Correct its check, container, image and values, or remove the entry. To print the required entries: portcullis exception create\n`;
  const impossible = (column: number, path: string, reason: string): string =>
    `warning: stdin:11:${column}: the exception "host": spec.allow[0]${path} has no effect, because ${reason}\n`;
  const entries: readonly (readonly [name: string, change: readonly [from: string, to: string], warnings: string])[] = [
    ['a value that no pod needs', ['[hostPID]', '[hostIPC]'], noEffect(0)],
    ['a check that no pod violates', ['hostNamespaces, values: [hostPID]', 'sysctls, values: [x]'], noEffect(0)],
    ['one of two entries is not needed', ['hostPID]}', 'hostPID]}, {check: sysctls, values: ["80"]}'], noEffect(1)],
    ['a service account without pods in the manifests', ['Name: default', 'Name: other'], ''],
    [
      'a container, for a field of the pod',
      ['{check', '{container: c, image: r.io/i, check'],
      impossible(11, '', 'hostNamespaces checks only fields of the pod: remove container and image'),
    ],
    [
      'no container, for a field of containers, and no pods',
      [
        'Name: default\n  allow: [{check: hostNamespaces, values: [hostPID]}',
        'Name: other\n  allow: [{check: privileged}',
      ],
      impossible(11, '', 'privileged checks only fields of containers: set container and image'),
    ],
    [
      'a value that no field has',
      ['[hostPID]', '[hostpid, hostPID]'],
      impossible(44, '.values[0]', 'the values of hostNamespaces are hostNetwork, hostPID, hostIPC'),
    ],
    [
      'a port that does not exist',
      [
        '{check: hostNamespaces, values: [hostPID]',
        '{container: c, image: r.io/i, check: hostPorts, values: ["99999"]',
      ],
      impossible(68, '.values[0]', 'the values of hostPorts are port numbers from 1 to 65535'),
    ],
  ];
  for (const [name, [from, to], warnings] of entries) {
    test(`cause a warning for an entry that has no effect: ${name}`, async () => {
      const manifests = POD + exception('"2027-01-15T00:00:00Z"').replace(from, to);
      assert.equal((await check(manifests, '--at', '2027-01-14')).stderr, warnings);
    });
  }

  test('cause no warning if several of them together cover a violation', async () => {
    const container = (name: string): string => `{name: ${name}, image: i, securityContext: {privileged: true}}`;
    const pod = POD.replace('hostPID: true, ', '').replace(/\{name: c.*?\}/, `${container('a')}, ${container('b')}`);
    const covering = (name: string): string =>
      exception('"2027-01-15T00:00:00Z"')
        .replace('name: host', `name: host-${name}`)
        .replace('hostNamespaces, values: [hostPID]', `privileged, container: ${name}, image: docker.io/library/i`);
    const { stdout, stderr } = await check(pod + covering('a') + covering('b'), '--at', '2027-01-14');
    assert.deepEqual([stdout, stderr], ['1 passed, 0 failed, 2 of other kinds\n', '']);
  });

  test('are not evaluated, and check fails, if the value of --at is invalid', async () => {
    const { code, stderr } = await check(POD, '--at', 'tomorrow');
    assert.equal(code, 2);
    assert.match(stderr, /must be a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z/);
  });
});
