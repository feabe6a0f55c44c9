import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readDocuments } from '../../../src/config/yaml.ts';
import type { PolicyObject } from '../../../src/policy/psa/admission-policies.ts';
import { runProgram } from '../../support/memory-io.ts';

const GENERATE = ['policies', 'generate'];
const HINT = "See 'portcullis policies generate --help' for usage.\n";

/** Arguments, and the error. */
const MISTAKES: readonly (readonly [readonly string[], string])[] = [
  [
    ['--for-kubernetes', '1.29'],
    'invalid argument "1.29" for "--for-kubernetes" flag: must be a version of Kubernetes such as 1.36, and 1.30 or newer, because older API servers have no ValidatingAdmissionPolicy v1',
  ],
  [
    ['--for-kubernetes', 'latest'],
    'invalid argument "latest" for "--for-kubernetes" flag: must be a version of Kubernetes such as 1.36, and 1.30 or newer',
  ],
  [['--kubernetes-version', 'v1.30'], '--kubernetes-version requires --level'],
  [['--level', 'privileged'], 'invalid argument "privileged" for "--level" flag: must be one of baseline, restricted'],
  [
    ['--modes', 'enforce,deny'],
    'invalid argument "enforce,deny" for "--modes" flag: must be one of enforce, audit, warn',
  ],
];

describe('mistakes', () => {
  for (const [args, error] of MISTAKES) {
    test(args.join(' '), async () => {
      assert.deepEqual(await runProgram([...GENERATE, ...args]), {
        code: 2,
        stdout: '',
        stderr: `error: ${error}\n${HINT}`,
      });
    });
  }
});

const SETTINGS = 'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\nspec:\n';
const UPSTREAM = 'apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-policies-'));
});
after(() => rm(folder, { recursive: true }));

async function generate(settings: string, ...args: readonly string[]) {
  const file = join(folder, 'settings.yaml');
  await writeFile(file, settings);
  const outcome = await runProgram([...GENERATE, '--config', file, ...args]);
  return { ...outcome, stderr: outcome.stderr.replaceAll(file, 'settings.yaml') };
}

/** Settings, and the error. */
const INVALID: readonly (readonly [string, string])[] = [
  [
    `${SETTINGS}  podSecurity: { exemptions: { namespaces: [kube-system, a.b] } }\n`,
    'invalid configuration: spec.podSecurity.exemptions.namespaces[1]: Invalid value: "a.b": must match pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" (settings.yaml:4:58, spec.podSecurity.exemptions.namespaces[1])',
  ],
  [
    `${UPSTREAM}defaults: { enforce: strict }\n`,
    'configuration error: enforce: must be one of privileged, baseline, restricted (settings.yaml:3:13, defaults.enforce)',
  ],
];

describe('invalid settings are refused with path and reason', () => {
  for (const [settings, error] of INVALID) {
    test(error, async () => {
      assert.deepEqual(await generate(settings), { code: 2, stdout: '', stderr: `error: ${error}\n` });
    });
  }
});

function objects(stdout: string): readonly PolicyObject[] {
  return readDocuments(stdout, 'policies').documents.map(({ value }) => value as PolicyObject);
}

function names(stdout: string): readonly string[] {
  return objects(stdout).map(({ kind, metadata }) => `${kind.replace('ValidatingAdmission', '')} ${metadata.name}`);
}

test('the settings provide defaults and exemptions', async () => {
  const settings = `${UPSTREAM}defaults: { enforce: baseline, warn: restricted }\nexemptions: { usernames: [root], namespaces: [kube-system], runtimeClasses: [kata] }\n`;
  const { code, stdout, stderr } = await generate(settings);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.deepEqual(names(stdout), [
    'Policy enforce-baseline.psa.portcullis.dev',
    'PolicyBinding enforce-baseline.psa.portcullis.dev',
    'PolicyBinding enforce-baseline-unlabeled.psa.portcullis.dev',
    'Policy enforce-restricted.psa.portcullis.dev',
    'PolicyBinding enforce-restricted.psa.portcullis.dev',
    'Policy pod-security.kubernetes.io',
    'PolicyBinding pod-security.kubernetes.io',
    'Policy warn-baseline.psa.portcullis.dev',
    'PolicyBinding warn-baseline.psa.portcullis.dev',
    'Policy warn-restricted.psa.portcullis.dev',
    'PolicyBinding warn-restricted.psa.portcullis.dev',
    'PolicyBinding warn-restricted-unlabeled.psa.portcullis.dev',
  ]);
  const [policy] = objects(stdout);
  const { matchConditions, matchConstraints } = policy?.spec ?? {};
  assert.match(JSON.stringify(matchConstraints), /"operator":"NotIn","values":\["kube-system"\]/);
  assert.match(JSON.stringify(matchConditions), /request\.userInfo\.username in \[\\"root\\"\]/);
  assert.match(JSON.stringify(policy), /variables\.spec\.\?runtimeClassName\.orValue\(\\"\\"\) in \[\\"kata\\"\]/);
  assert.equal((await generate(settings)).stdout, stdout);
});

test('settings that policies cannot have are reported', async () => {
  const { code, stderr } = await generate(
    `${SETTINGS}  rollout: { phase: Evaluate }\n  podSecurity: { workloadResources: [{ group: argoproj.io, resource: rollouts }] }\n`,
  );
  const lines = ['spec.rollout: it changes the defaults at run time', 'spec.podSecurity.workloadResources'];
  assert.deepEqual(
    { code, stderr },
    { code: 0, stderr: lines.map((line) => `Not part of the policies: ${line}\n`).join('') },
  );
});

const UNEXEMPT =
  'The level baseline denies pods of the cluster itself in the namespace kube-system: exempt it in spec.podSecurity.exemptions.namespaces of --config\n';

describe('notes', () => {
  const enforce = (namespaces: string): string =>
    `${SETTINGS}  podSecurity: { defaults: { enforce: baseline }, exemptions: { namespaces: [${namespaces}] } }\n`;
  const NOTES: readonly (readonly [name: string, settings: string, args: readonly string[], stderr: string])[] = [
    [
      'a version without known checks',
      enforce('kube-system'),
      ['--for-kubernetes=1.99'],
      'Kubernetes 1.99 is newer than 1.37, the newest supported version: the checks of 1.37 apply\n',
    ],
    [
      'a default that denies pods of kube-system',
      enforce('a'),
      [],
      `${UNEXEMPT.trimEnd()}, or label it: kubectl label namespace kube-system pod-security.kubernetes.io/enforce=privileged\n`,
    ],
    ['kube-system is exempt', enforce('kube-system'), ['--level=restricted'], ''],
    ['no mode that denies', enforce(''), ['--level=restricted', '--modes=audit,warn'], ''],
  ];
  for (const [name, settings, args, stderr] of NOTES) {
    test(name, async () => {
      const outcome = await generate(settings, ...args);
      assert.deepEqual([outcome.code, outcome.stderr], [0, stderr]);
    });
  }
});

test('the defaults of pods', async () => {
  const settings = `${SETTINGS}  defaults: { mode: apply }\n`;
  const args = ['--modes', 'enforce', '--level', 'baseline', '--for-kubernetes'];
  const { code, stdout, stderr } = await generate(settings, ...args, '1.36');
  assert.deepEqual({ code, stderr }, { code: 0, stderr: UNEXEMPT });
  assert.deepEqual(names(stdout), [
    'Policy enforce-baseline.psa.portcullis.dev',
    'PolicyBinding enforce-baseline.psa.portcullis.dev',
    'MutatingAdmissionPolicy defaults.psa.portcullis.dev',
    'MutatingAdmissionPolicyBinding defaults.psa.portcullis.dev',
  ]);
  assert.match(stdout, /--prune-allowlist=admissionregistration\.k8s\.io\/v1\/MutatingAdmissionPolicyBinding\n/);
  for (const other of [
    [...args, '1.35'],
    [...args, '1.36', '--static'],
  ]) {
    const outcome = await generate(settings, ...other);
    assert.equal(names(outcome.stdout).length, 2);
    assert.equal(
      outcome.stderr,
      `Not part of the policies: spec.defaults: MutatingAdmissionPolicies require Kubernetes 1.36, and cannot be static\n${UNEXEMPT}`,
    );
  }
});

test('a fixed level in one mode', async () => {
  const args = [
    '--level',
    'baseline',
    '--kubernetes-version',
    'v1.36',
    '--modes',
    'enforce',
    '--for-kubernetes',
    'v1.33.2',
  ];
  const { stdout } = await runProgram([...GENERATE, ...args]);
  assert.deepEqual(names(stdout), [
    'Policy enforce-baseline.psa.portcullis.dev',
    'PolicyBinding enforce-baseline.psa.portcullis.dev',
  ]);
  const comment = stdout.split('\n').filter((line) => line.startsWith('#'));
  assert.deepEqual(comment.slice(0, 2), [
    '# Pod Security Standards in the API server: baseline:v1.36 in all namespaces.',
    '# Generated by portcullis v0.1.0 for Kubernetes 1.33 and newer.',
  ]);
  assert.match(stdout, /# - Before Kubernetes 1\.35, the values in messages \(/);
  assert.doesNotMatch(stdout, /namespaceObject|distinct\(\)/);
});

test('static policies have the names that API servers require', async () => {
  const { stdout } = await runProgram([...GENERATE, '--static', '--modes', 'audit']);
  assert.deepEqual(names(stdout), ['Policy pod-security.static.k8s.io', 'PolicyBinding pod-security.static.k8s.io']);
  assert.match(stdout, /# Write this file into the folder staticManifestsDir/);
});
