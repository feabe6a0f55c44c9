import assert from 'node:assert/strict';
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  parsePodSecurity,
  readPodSecurity,
  readPodSecuritySource,
  parseConfiguration,
} from '../../src/config/configuration.ts';
import { childNode, firstDocument } from '../../src/config/document.ts';
import { UserError } from '../../src/config/files.ts';
import { MODES, printPolicy } from '../../src/policy/psa/policy.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/settings.ts';

const HEAD = 'apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n';
const WRAPPER = 'apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n';

interface ValidCase {
  readonly name: string;
  readonly text: string;
  /** enforce, audit, warn */
  readonly policies: readonly [string, string, string];
}

const PRIVILEGED = ['privileged:latest', 'privileged:latest', 'privileged:latest'] as const;

const VALID: readonly ValidCase[] = [
  { name: 'nothing', text: '', policies: PRIVILEGED },
  { name: 'kind only', text: HEAD, policies: PRIVILEGED },
  { name: 'v1beta1', text: HEAD.replace('/v1', '/v1beta1'), policies: PRIVILEGED },
  { name: 'v1alpha1', text: HEAD.replace('/v1', '/v1alpha1'), policies: PRIVILEGED },
  {
    name: 'all defaults',
    text: `${HEAD}defaults:\n  enforce: baseline\n  enforce-version: v1.30\n  audit: restricted\n  warn: restricted\n  warn-version: v1.999\n`,
    policies: ['baseline:v1.30', 'restricted:latest', 'restricted:v1.999'],
  },
  {
    name: 'null and empty strings count as absent',
    text: `${HEAD}defaults: {enforce: "", audit: null}\nexemptions: null\n`,
    policies: PRIVILEGED,
  },
  {
    name: 'JSON',
    text: '{"kind":"PodSecurityConfiguration","apiVersion":"pod-security.admission.config.k8s.io/v1","defaults":{"enforce":"baseline"}}',
    policies: ['baseline:latest', 'privileged:latest', 'privileged:latest'],
  },
  {
    name: 'documents after the first are ignored, even with errors',
    text: `---\n${HEAD}defaults: {enforce: baseline}\n---\n{:\n---\n${HEAD}defaults: {enforce: restricted}\n`,
    policies: ['baseline:latest', 'privileged:latest', 'privileged:latest'],
  },
  {
    name: 'in an AdmissionConfiguration with other plugins',
    text: `${WRAPPER}plugins:\n- name: EventRateLimit\n  path: x.yaml\n- name: PodSecurity\n  configuration:\n    ${HEAD.trim().replace('\n', '\n    ')}\n    defaults: {audit: baseline}\n`,
    policies: ['privileged:latest', 'baseline:latest', 'privileged:latest'],
  },
  {
    name: 'an AdmissionConfiguration without configuration of the plugin',
    text: `${WRAPPER}plugins:\n- name: PodSecurity\n`,
    policies: PRIVILEGED,
  },
];

suite('a valid configuration', () => {
  for (const { name, text, policies } of VALID) {
    test(name, () => {
      const { defaults } = parsePodSecurity({ file: 'config.yaml', text });
      assert.deepEqual(
        MODES.map((mode) => printPolicy(defaults[mode])),
        policies,
      );
    });
  }
});

test('exemptions', () => {
  const lists =
    '{usernames: [bob, "system:serviceaccount:a:b"], namespaces: [kube-system], runtimeClasses: [kata.example]}';
  const { exemptions } = parsePodSecurity({ file: 'config.yaml', text: `${HEAD}exemptions: ${lists}\n` });
  const matches = [
    exemptions.user('bob'),
    exemptions.user('system:serviceaccount:a:b'),
    exemptions.namespace('kube-system'),
    exemptions.runtimeClass('kata.example'),
  ];
  assert.deepEqual(matches, [true, true, true, true]);
  const others = [exemptions.user('kube-system'), exemptions.namespace(undefined), exemptions.runtimeClass('kata')];
  assert.deepEqual(others, [false, false, false]);
});

interface InvalidCase {
  readonly name: string;
  readonly text: string;
  readonly expected: string;
}

const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const INVALID: readonly InvalidCase[] = [
  {
    name: 'white space only',
    text: '\n  \n',
    expected: "Object 'Kind' is missing in 'null' (config.yaml:1:1)",
  },
  {
    name: 'no kind',
    text: 'apiVersion: pod-security.admission.config.k8s.io/v1\n',
    expected: `Object 'Kind' is missing in '{"apiVersion":"pod-security.admission.config.k8s.io/v1"}' (config.yaml:1:1)`,
  },
  {
    name: 'no apiVersion',
    text: '\nkind: PodSecurityConfiguration\n',
    expected: `Object 'apiVersion' is missing in '{"kind":"PodSecurityConfiguration"}' (config.yaml:2:1)`,
  },
  {
    name: 'an unknown version',
    text: HEAD.replace('/v1', '/v99'),
    expected:
      'no kind "PodSecurityConfiguration" is registered for version "pod-security.admission.config.k8s.io/v99" (config.yaml:1:1, apiVersion)',
  },
  {
    name: 'another kind',
    text: 'kind: Pod\napiVersion: v1\n',
    expected: 'no kind "Pod" is registered for version "v1" (config.yaml:1:1, kind)',
  },
  {
    name: 'a list',
    text: '- a\n',
    expected:
      "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type TypeMeta (config.yaml:1:1)",
  },
  {
    name: 'unknown fields',
    text: `${HEAD}deflaults: {}\ndefaults:\n  enforce: baseline\n  enforceVersion: v1.2\nexemptions:\n  groups: [a]\n`,
    expected: [
      'strict decoding error: unknown field "deflaults" (config.yaml:3:1, deflaults)',
      'strict decoding error: unknown field "defaults.enforceVersion" (config.yaml:6:3, defaults.enforceVersion)',
      'strict decoding error: unknown field "exemptions.groups" (config.yaml:8:3, exemptions.groups)',
    ].join('\n'),
  },
  {
    name: 'names are case-sensitive; names of Object.prototype are unknown',
    text: `${HEAD}Defaults: {}\n__proto__: {}\nconstructor: {}\n`,
    expected: [
      'strict decoding error: unknown field "Defaults" (config.yaml:3:1, Defaults)',
      'strict decoding error: unknown field "__proto__" (config.yaml:4:1, __proto__)',
      'strict decoding error: unknown field "constructor" (config.yaml:5:1, constructor)',
    ].join('\n'),
  },
  {
    name: 'a duplicate key',
    text: `${HEAD}defaults:\n  enforce: baseline\n  enforce: restricted\n`,
    expected: 'strict decoding error: key "enforce" already set in map (config.yaml:5:3, defaults.enforce)',
  },
  {
    name: 'wrong types',
    text: `${HEAD}defaults:\n  enforce: true\nexemptions:\n  usernames: bob\n  namespaces:\n  - a\n  - 7\n`,
    expected: [
      'json: cannot unmarshal bool into Go struct field PodSecurityDefaults.defaults.enforce of type string (config.yaml:4:3, defaults.enforce)',
      'json: cannot unmarshal string into Go struct field PodSecurityExemptions.exemptions.usernames of type []string (config.yaml:6:3, exemptions.usernames)',
      'json: cannot unmarshal number into Go struct field PodSecurityExemptions.exemptions.namespaces of type string (config.yaml:9:5, exemptions.namespaces[1])',
    ].join('\n'),
  },
  {
    name: 'a section that is a string',
    text: `${HEAD}defaults: baseline\n`,
    expected:
      'json: cannot unmarshal string into Go struct field PodSecurityConfiguration.defaults of type PodSecurityDefaults (config.yaml:3:1, defaults)',
  },
  {
    name: 'invalid levels and versions',
    text: `${HEAD}defaults:\n  warn: why\n  audit-version: v2.1\n  enforce: Baseline\n`,
    expected: [
      'configuration error: enforce: must be one of privileged, baseline, restricted (config.yaml:6:3, defaults.enforce)',
      'configuration error: audit-version: must be "latest" or "v1.x" (config.yaml:5:3, defaults.audit-version)',
      'configuration error: warn: must be one of privileged, baseline, restricted (config.yaml:4:3, defaults.warn)',
    ].join('\n'),
  },
  {
    name: 'invalid and duplicate exemptions',
    text: `${HEAD}exemptions:\n  usernames: ["", a, a]\n  runtimeClasses: [ok]\n  namespaces:\n  - a.b\n  - kube-*\n`,
    expected: [
      'invalid configuration: exemptions.namespaces[0]: Invalid value: "a.b": must not contain dots (config.yaml:7:5, exemptions.namespaces[0])',
      `invalid configuration: exemptions.namespaces[1]: Invalid value: "kube-*": ${LABEL_RULE} (config.yaml:8:5, exemptions.namespaces[1])`,
      'invalid configuration: exemptions.usernames[0]: Invalid value: "": username must not be empty (config.yaml:4:15, exemptions.usernames[0])',
      'invalid configuration: exemptions.usernames[2]: Duplicate value: "a" (config.yaml:4:22, exemptions.usernames[2])',
    ].join('\n'),
  },
  {
    name: 'in an AdmissionConfiguration: an invalid level',
    text: `${WRAPPER}plugins:\n- name: PodSecurity\n  configuration:\n    ${HEAD.trim().replace('\n', '\n    ')}\n    defaults:\n      enforce: none\n`,
    expected:
      'configuration error: enforce: must be one of privileged, baseline, restricted (config.yaml:9:7, plugins[0].configuration.defaults.enforce)',
  },
  {
    name: 'in an AdmissionConfiguration: an unknown field',
    text: `${WRAPPER}plugins:\n- name: PodSecurity\n  configuration:\n    ${HEAD.trim().replace('\n', '\n    ')}\n    default: {}\n`,
    expected: 'strict decoding error: unknown field "default" (config.yaml:8:5, plugins[0].configuration.default)',
  },
  {
    name: 'in an AdmissionConfiguration: no kind',
    text: `${WRAPPER}plugins:\n- name: PodSecurity\n  configuration: {}\n`,
    expected: "Object 'Kind' is missing in '{}' (config.yaml:5:3, plugins[0].configuration)",
  },
  {
    name: 'an unknown field of an AdmissionConfiguration',
    text: `${WRAPPER}plugins:\n- name: PodSecurity\n  config: {}\n`,
    expected: 'strict decoding error: unknown field "plugins[0].config" (config.yaml:5:3, plugins[0].config)',
  },
  {
    name: 'an AdmissionConfiguration of another version',
    text: WRAPPER.replace('/v1', '/v1beta1'),
    expected:
      'no kind "AdmissionConfiguration" is registered for version "apiserver.config.k8s.io/v1beta1" (config.yaml:1:1, apiVersion)',
  },
  {
    name: 'an AdmissionConfiguration without the plugin',
    text: `${WRAPPER}plugins:\n- name: EventRateLimit\n`,
    expected: 'no plugin "PodSecurity" in the AdmissionConfiguration (config.yaml:3:1, plugins)',
  },
];

suite('an invalid configuration', () => {
  for (const { name, text, expected } of INVALID) {
    test(name, () => {
      assert.throws(
        () => parsePodSecurity({ file: 'config.yaml', text }),
        (error) => {
          assert.ok(error instanceof UserError);
          assert.equal(error.message, expected);
          return true;
        },
      );
    });
  }
});

test('a syntax error', () => {
  assert.throws(
    () => parsePodSecurity({ file: 'config.yaml', text: `${HEAD}defaults: {\n` }),
    /^UserError: error converting YAML to JSON: yaml: .+ \(config\.yaml:\d+:\d+\)$/,
  );
});

test('apiVersion and kind are optional in another document', () => {
  const text = 'podSecurity:\n  defaults:\n    enforce: baseline\n';
  const part = childNode(firstDocument({ file: 'config.yaml', text }), ['podSecurity']);
  assert.equal(readPodSecurity(part).defaults.enforce.level, 'baseline');
  const wrong = childNode(firstDocument({ file: 'config.yaml', text: `${text}    a: b\n` }), ['podSecurity']);
  assert.throws(() => readPodSecurity(wrong), {
    message: 'strict decoding error: unknown field "defaults.a" (config.yaml:4:5, podSecurity.defaults.a)',
  });
  const other = childNode(firstDocument({ file: 'config.yaml', text: 'podSecurity: {kind: Pod, apiVersion: v1}' }), [
    'podSecurity',
  ]);
  assert.throws(() => readPodSecurity(other), {
    message: 'no kind "Pod" is registered for version "v1" (config.yaml:1:15, podSecurity.kind)',
  });
});

suite('reading from disk', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    await mkdir(join(folder, 'plugins'));
    await writeFile(join(folder, 'plugins', 'psa.yaml'), `${HEAD}defaults: {enforce: baseline}\n`);
    await writeFile(join(folder, 'plain.yaml'), HEAD);
  });
  after(() => rm(folder, { recursive: true }));

  const write = async (plugin: string): Promise<string> => {
    const file = join(folder, 'admission.yaml');
    await writeFile(file, `${WRAPPER}plugins:\n- name: PodSecurity\n  ${plugin}\n`);
    return file;
  };

  test('a plain file', async () => {
    const file = join(folder, 'plain.yaml');
    assert.deepEqual(await readPodSecuritySource(file), { file, text: HEAD });
  });

  test('the path in an AdmissionConfiguration is relative to that file', async () => {
    const source = await readPodSecuritySource(await write('path: plugins/psa.yaml'));
    assert.equal(source.file, join(folder, 'plugins', 'psa.yaml'));
    assert.equal(parsePodSecurity(source).defaults.enforce.level, 'baseline');
  });

  test('an inline configuration precedes a path', async () => {
    const file = await write('path: plugins/psa.yaml\n  configuration: {a: b}');
    assert.equal((await readPodSecuritySource(file)).file, file);
  });

  test('missing files', async () => {
    await assert.rejects(readPodSecuritySource(join(folder, 'none.yaml')), {
      name: 'UserError',
      message: `cannot read ${join(folder, 'none.yaml')}: there is no such file`,
    });
    await assert.rejects(readPodSecuritySource(await write('path: none.yaml')), {
      name: 'UserError',
      message: `cannot read ${join(folder, 'none.yaml')}: there is no such file`,
    });
  });

  test('an AdmissionConfiguration with a path and an unknown field', async () => {
    const file = await write('path: plugins/psa.yaml\n  nme: x');
    await assert.rejects(readPodSecuritySource(file), {
      name: 'UserError',
      message: `strict decoding error: unknown field "plugins[0].nme" (${file}:6:3, plugins[0].nme)`,
    });
  });
});

function read(text: string): RolloutSettings {
  const head = 'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n';
  return parseConfiguration({ file: 'c.yaml', text: head + text }, []).rollout;
}

suite('rollout settings', () => {
  const CASES: readonly (readonly [name: string, text: string, expected: Partial<RolloutSettings>])[] = [
    ['nothing', '', {}],
    ['null', 'rollout:\nfeatureGates:\n', {}],
    ['a phase', 'rollout: {phase: Evaluate}\n', { phase: 'Evaluate' }],
    [
      'all settings',
      `rollout:
  phase: Enforce
  enforcementDate: 2028-02-29
  evaluationInterval: 30m
  maxEvaluationAge: 1h30m
  recheckBeforeEnforce: false
  inconclusivePolicy: Ignore
  raiseSettleSeconds: 0
  evaluator: DryRun
  clientQPS: 0.5
  clientBurst: 10
featureGates:
  OpenShiftPodSecurityAdmission: false
`,
      {
        phase: 'Enforce',
        enforcementDate: '2028-02-29',
        evaluationIntervalMs: 1_800_000,
        maxEvaluationAgeMs: 5_400_000,
        recheckBeforeEnforce: false,
        inconclusivePolicy: 'Ignore',
        raiseSettleMs: 0,
        evaluator: 'DryRun',
        clientQps: 0.5,
        clientBurst: 10,
        featureGates: new Map([['OpenShiftPodSecurityAdmission', false]]),
      },
    ],
    [
      'exemptions during a rollout',
      'rollout: {phase: Enforce}\npodSecurity: {exemptions: {namespaces: [a]}}\n',
      { phase: 'Enforce' },
    ],
    ['defaults without a rollout', 'rollout: {phase: Disabled}\npodSecurity: {defaults: {warn: baseline}}\n', {}],
  ];
  for (const [name, text, expected] of CASES) {
    test(name, () => assert.deepEqual(read(text), { ...DEFAULT_ROLLOUT, ...expected }));
  }
});

suite('invalid settings are errors', () => {
  const CASES: readonly (readonly [text: string, message: string])[] = [
    [
      'rollout: {phase: enforce}\n',
      'invalid configuration: rollout.phase: Invalid value: "enforce": must be one of Disabled, Evaluate, Enforce (c.yaml:3:11, rollout.phase)',
    ],
    [
      'rollout: {enforcementDate: 2027-02-29}\n',
      'invalid configuration: rollout.enforcementDate: Invalid value: "2027-02-29": must be a date such as 2027-01-31 (c.yaml:3:11, rollout.enforcementDate)',
    ],
    [
      'rollout: {enforcementDate: soon}\n',
      'invalid configuration: rollout.enforcementDate: Invalid value: "soon": must be a date such as 2027-01-31 (c.yaml:3:11, rollout.enforcementDate)',
    ],
    ['rollout: {fase: Enforce}\n', 'strict decoding error: unknown field "fase" (c.yaml:3:11, rollout.fase)'],
    [
      'rollout: {recheckBeforeEnforce: "yes"}\n',
      'json: cannot unmarshal string into Go struct field RolloutConfiguration.recheckBeforeEnforce of type bool (c.yaml:3:11, rollout.recheckBeforeEnforce)',
    ],
    [
      'rollout: {evaluationInterval: 5s, raiseSettleSeconds: -1, clientQPS: 0}\n',
      `invalid configuration: rollout.evaluationInterval: Invalid value: "5s": must be a duration of at least 1m, such as 4h or 1h30m (c.yaml:3:11, rollout.evaluationInterval)
invalid configuration: rollout.raiseSettleSeconds: Invalid value: -1: must be a number from 0 to 3600 (c.yaml:3:35, rollout.raiseSettleSeconds)
invalid configuration: rollout.clientQPS: Invalid value: 0: must be greater than 0 (c.yaml:3:59, rollout.clientQPS)`,
    ],
    [
      'rollout: {maxEvaluationAge: 1h}\n',
      'invalid configuration: rollout.maxEvaluationAge: must not be less than evaluationInterval, because results would expire before the next evaluation (c.yaml:3:11, rollout.maxEvaluationAge)',
    ],
    [
      'featureGates: {Other: true}\n',
      'unknown feature "Other"; the known features are OpenShiftPodSecurityAdmission (c.yaml:3:16, featureGates.Other)',
    ],
    [
      'featureGates: {OpenShiftPodSecurityAdmission: "true"}\n',
      'must be true or false (c.yaml:3:16, featureGates.OpenShiftPodSecurityAdmission)',
    ],
    [
      'rollout: {phase: Evaluate}\npodSecurity: {defaults: {enforce: baseline}}\n',
      'invalid configuration: podSecurity.defaults and rollout.phase Evaluate exclude each other: the rollout manages the defaults (c.yaml:4:15, podSecurity.defaults)',
    ],
  ];
  for (const [text, message] of CASES) {
    test(text, () => {
      assert.throws(
        () => read(text),
        (error) => {
          assert.ok(error instanceof UserError);
          assert.equal(error.message, message);
          return true;
        },
      );
    });
  }
});
