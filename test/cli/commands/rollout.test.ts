import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram, type Outcome } from '../../support/memory-io.ts';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { rolloutOutlook } from '../../../src/cli/commands/rollout-status.ts';
import type { NamespaceCounts, RolloutState } from '../../../src/cli/rollout.ts';

const CLUSTER = 'test/fixtures/rollout/cluster.yaml';
const cluster = await readFile(CLUSTER, 'utf8');

const run = (command: string, ...args: readonly string[]): Promise<Outcome> =>
  runProgram(['rollout', command, '-f', '-', ...args], { stdin: cluster });

/** Runs a command with a changed cluster. */
const runWith = (change: (text: string) => string, command: string, ...args: readonly string[]): Promise<Outcome> =>
  runProgram(['rollout', command, '-f', '-', ...args], { stdin: change(cluster) });

const ASSUMED =
  'Assumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; service accounts: apart/default, desk/default, portcullis/default, shop/default; UID ranges of namespaces: agents, apart, desk, exempt, portcullis and 1 more.\n';
const APART = `apart (restricted)
  Pod tool
    hostNamespaces: host namespaces (hostNetwork=true)
      spec.hostNetwork
      Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.
  Next: Its labels are not managed: enable label management with kubectl label namespace/apart security.openshift.io/scc.podSecurityLabelSync-; or set a level: kubectl label namespace/apart pod-security.kubernetes.io/enforce=LEVEL (LEVEL: baseline or privileged).
`;

describe('the rollout commands reject', () => {
  const CASES: readonly (readonly [args: readonly string[], stderr: string])[] = [
    [['plan', '-f', CLUSTER, '-n', 'gone'], 'error: namespace "gone" not found\n'],
    [
      ['simulate', '-f', CLUSTER, '--mode=restricted'],
      'error: invalid argument "restricted" for "--mode" flag: must be one of Restricted, Legacy, \'\'\n' +
        "See 'portcullis rollout simulate --help' for usage.\n",
    ],
    [
      ['simulate', '-f', CLUSTER, '--phase=enforce'],
      'error: invalid argument "enforce" for "--phase" flag: must be one of Disabled, Evaluate, Enforce\n' +
        "See 'portcullis rollout simulate --help' for usage.\n",
    ],
    [
      ['status', 'shop'],
      `error: too many arguments for 'status'. Expected 0 arguments but got 1: shop.\nSee 'portcullis rollout status --help' for usage.\n`,
    ],
    [['status', '-f', CLUSTER, '--config', 'nowhere.yaml'], 'error: cannot read nowhere.yaml: there is no such file\n'],
    [
      ['status', '-f', CLUSTER, '--kubeconfig', 'x'],
      'error: --filename reads manifests instead of a cluster: remove --kubeconfig and --context\n',
    ],
  ];
  for (const [args, stderr] of CASES) {
    test(args.join(' '), async () => {
      assert.deepEqual(await runProgram(['rollout', ...args]), { code: 2, stdout: '', stderr });
    });
  }

  test('an invalid configuration in the cluster', async () => {
    const outcome = await runWith((text) => text.replace('phase: Evaluate', 'phase: evaluate'), 'status');
    assert.deepEqual(outcome, {
      code: 2,
      stdout: '',
      stderr:
        'error: invalid configuration: rollout.phase: Invalid value: "evaluate": must be one of Disabled, Evaluate, Enforce (configmaps/portcullis-configuration configuration.yaml:3:11, rollout.phase)\n',
    });
  });
});

describe('plan', () => {
  test('prints a table, violations and next steps', async () => {
    const { code, stdout, stderr } = await run('plan');
    assert.deepEqual([code, stderr], [1, '']);
    assert.equal(
      stdout.slice(0, stdout.indexOf('\ndesk (')),
      `${ASSUMED}
NAMESPACE    CURRENT                  PLANNED      VERDICT           REFUSED   REASON
agents       privileged (default)     privileged   no violations
apart        privileged (default)     restricted   violating         1         PSAConfig: PSA label syncer disabled
desk         privileged (default)     restricted   violating         1         PSALabel: ServiceAccount with insufficient SCCs
exempt       privileged (exemption)   privileged   exempt
portcullis   restricted (label)       restricted   labeled already
shop         privileged (default)     restricted   violating         1

${APART}`,
    );
    assert.match(stdout, /\n {2}Pod debug, admitted only because of its creator's permissions\n/);
    assert.match(stdout, /\n {2}Deployment web\n {4}hostNamespaces: .*\n {6}spec\.template\.spec\.hostNetwork\n/);
    assert.match(
      stdout,
      /\n\n6 namespaces: 1 no violations, 3 violating, 1 labeled already, 1 exempt; 3 workloads \(2 running pods\) would be refused\n$/,
    );
  });

  test('prints one namespace without violations', async () => {
    const { code, stdout } = await run('plan', '-n', 'agents', '-o', 'json');
    const { namespaces, summary } = JSON.parse(stdout) as { namespaces: object[]; summary: object };
    assert.equal(code, 0);
    assert.deepEqual(namespaces, [
      {
        name: 'agents',
        categories: [],
        workloads: [],
        steps: [],
        current: 'privileged',
        currentSource: 'default',
        planned: 'privileged',
        verdict: 'clean',
      },
    ]);
    assert.deepEqual(summary, {
      namespaces: 1,
      clean: 1,
      violating: 0,
      inconclusive: 0,
      labeled: 0,
      exempt: 0,
      workloads: 0,
      pods: 0,
    });
  });

  test('plans a new label in place of a managed label', async () => {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    const fieldsV1 = { 'f:metadata': { 'f:labels': { 'f:pod-security.kubernetes.io/enforce': {} } } };
    const manager = 'pod-security-admission-label-synchronization-controller';
    const metadata = { name: 'agents', labels, managedFields: [{ manager, operation: 'Apply', fieldsV1 }] };
    const { stdout } = await runWith(
      (text) => text.replace('metadata: {name: agents}', `metadata: ${JSON.stringify(metadata)}`),
      'plan',
    );
    assert.match(stdout, /\nagents +restricted \(label\) +privileged +labeled already\n/);
  });

  test('escapes control characters in names', async () => {
    const { stdout } = await runWith((text) => text.replaceAll('name: tool', 'name: "to\\e[2Jol"'), 'plan');
    assert.match(stdout, /\n {2}Pod to\\u001b\[2Jol\n/);
    assert.ok(!stdout.includes('\u001b'));
  });
});

describe('status', () => {
  test('prints the state, blockers and next steps', async () => {
    const { code, stdout, stderr } = await run('status');
    assert.deepEqual([code, stderr], [0, '']);
    assert.equal(
      stdout.slice(0, stdout.indexOf('\ndesk (')),
      `${ASSUMED}
Phase        Evaluate, enforcement announced for 2027-01-31
Requested    Legacy, proposed by Portcullis
Decided      nothing
Evaluated    2026-11-21T17:00:00Z
Default      privileged, generation 1
Labels       warn and audit managed, enforce not yet
Enforcing    False, PhaseNotEnforcing: phase Evaluate enforces nothing
Progressing  False, AsExpected

${APART}`,
    );
    assert.equal(
      stdout.slice(stdout.indexOf('\nBlocked by:')),
      `
Blocked by:
  3 workloads in 3 namespaces would be refused
  spec.enforcementMode requests Legacy, as proposed by Portcullis
  phase Evaluate enforces nothing

Next:
  Follow the next steps of each namespace.
  Clear the request: kubectl patch psaenforcementconfig cluster --type=merge -p '{"spec":{"enforcementMode":""}}'.
  Set rollout.phase to Enforce in the configuration file; replicas reload it.
`,
    );
  });

  test('prints data', async () => {
    const { stdout } = await run('status', '-o', 'json');
    const { namespaces, ...rest } = JSON.parse(stdout) as { namespaces: { name: string }[] } & Record<string, unknown>;
    assert.deepEqual(
      namespaces.map(({ name }) => name),
      ['apart', 'desk', 'shop'],
    );
    assert.deepEqual(Object.keys(rest), [
      'phase',
      'enforcementDate',
      'gate',
      'requested',
      'requestedBy',
      'decided',
      'lastEvaluationTime',
      'enforce',
      'published',
      'generation',
      'syncer',
      'raiseSettleMs',
      'conditions',
      'unlabeled',
      'blockers',
      'next',
      'summary',
      'assumptions',
    ]);
  });

  test('reports assumptions without an installation', async () => {
    const { stdout } = await runProgram(['rollout', 'status', '-f', '-'], {
      stdin: 'apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n',
    });
    assert.match(
      stdout,
      /; rollout\.phase Evaluate \(set --config\); SCC mode report \(set --scc-mode\)\.\n\nPhase {6}Evaluate\nRequested {2}no PSAEnforcementConfig\nDecided {4}nothing\nEvaluated {2}never\nDefault {4}privileged, not published\n/,
    );
  });

  test('reports enforcement', async () => {
    const enforced = (text: string): string =>
      text
        .replace('phase: Evaluate,', 'phase: Enforce,')
        .replace(
          'spec: {enforcementMode: Legacy}\nstatus:',
          "spec: {enforcementMode: ''}\nstatus:\n  enforcementMode: Restricted",
        )
        .replace('pod-security-default: privileged', 'pod-security-default: restricted')
        .replaceAll('hostNetwork: true', 'hostNetwork: false')
        .replace('privileged: true, runAsUser: 0', 'privileged: false')
        .replace('validated-scc-subject-type: user', 'validated-scc-subject-type: serviceaccount');
    const { stdout } = await runWith(enforced, 'status');
    assert.match(
      stdout,
      /\nFeature {6}OpenShiftPodSecurityAdmission on\nRequested {4}nothing\nDecided {6}Restricted\n/,
    );
    assert.match(stdout, /\nDefault {6}restricted, generation 1\n/);
    assert.doesNotMatch(stdout, /Blocked by/);
  });
});

describe('simulate', () => {
  const eventsOf = async (change: (text: string) => string, ...args: readonly string[]) => {
    const { code, stdout } = await runWith(change, 'simulate', '-o', 'json', ...args);
    const { events, denying } = JSON.parse(stdout) as { events: string[]; denying: { name: string }[] };
    return { code, events, denying: denying.map(({ name }) => name) };
  };
  const asItIs = (text: string): string => text;
  const ownLabel = (text: string): string => {
    const fieldsV1 = { 'f:metadata': { 'f:labels': { 'f:pod-security.kubernetes.io/enforce': {} } } };
    const manager = 'pod-security-admission-label-synchronization-controller';
    const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
    const metadata = { name: 'agents', labels, managedFields: [{ manager, operation: 'Apply', fieldsV1 }] };
    return text
      .replace('metadata: {name: agents}', `metadata: ${JSON.stringify(metadata)}`)
      .replace('pod-security-default: privileged', 'pod-security-default: restricted');
  };
  const CASES: readonly (readonly [
    name: string,
    change: (text: string) => string,
    args: readonly string[],
    expected: { code: number; events: readonly string[]; denying: readonly string[] },
  ])[] = [
    [
      'Restricted',
      asItIs,
      ['--mode=Restricted'],
      {
        code: 1,
        events: [
          'status.enforcementMode becomes "Restricted".',
          '3 namespaces are labeled: 1 privileged, 2 restricted.',
          'The default becomes restricted after all labels have existed for 30s.',
          '1 namespace without a label gets the default: apart.',
        ],
        denying: ['apart', 'desk', 'shop'],
      },
    ],
    [
      'Restricted while the feature is off',
      asItIs,
      ['--feature-gate=false'],
      {
        code: 0,
        events: [
          'status.enforcementMode becomes "Restricted".',
          'The feature OpenShiftPodSecurityAdmission is off: nothing is enforced.',
          'The default remains privileged.',
        ],
        denying: [],
      },
    ],
    [
      'no mode: the evaluation decides',
      asItIs,
      ['--mode='],
      {
        code: 0,
        events: [
          'All namespaces are evaluated: 3 violating, 0 inconclusive.',
          'spec.enforcementMode becomes "Legacy".',
          'status.enforcementMode becomes "Legacy".',
          'The default remains privileged.',
        ],
        denying: [],
      },
    ],
    [
      'Legacy while the cluster enforces',
      ownLabel,
      ['--mode=Legacy'],
      {
        code: 0,
        events: [
          'status.enforcementMode becomes "Legacy".',
          'The default becomes privileged at once in every replica.',
          '1 namespace loses the label that Portcullis set: agents.',
        ],
        denying: [],
      },
    ],
    [
      'the phase Evaluate',
      asItIs,
      ['--phase=Evaluate'],
      { code: 0, events: ['status.enforcementMode remains "".', 'The default remains privileged.'], denying: [] },
    ],
  ];
  for (const [name, change, args, expected] of CASES) {
    test(name, async () => assert.deepEqual(await eventsOf(change, ...args), expected));
  }

  test('prints events and the result', async () => {
    const { code, stdout } = await run('simulate', '--mode=Legacy');
    assert.equal(code, 0);
    assert.equal(
      stdout,
      `${ASSUMED}
With spec.enforcementMode "Legacy" in phase Enforce:
  1. status.enforcementMode becomes "Legacy".
  2. The default remains privileged.

No workload would be refused: enforcement is off
`,
    );
  });
});

describe('on a cluster', () => {
  let live: TestCluster;
  let kubeconfig: string;
  before(async () => {
    live = await startCluster();
    await installStandardSccs(live.cluster);
    kubeconfig = await live.kubeconfig();
    const post = async (path: string, object: object): Promise<void> => {
      const { status, text } = await live.admin.send('POST', path, object);
      assert.equal(status, 201, text);
    };
    const namespaces = '/api/v1/namespaces';
    await post(namespaces, { metadata: { name: 'portcullis' } });
    await post(namespaces, { metadata: { name: 'shop', annotations: RANGES } });
    const data = {
      'c.yaml':
        'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\nrollout: {phase: Enforce}\n',
    };
    await post(`${namespaces}/portcullis/configmaps`, { metadata: { name: 'conf' }, data });
    const args = ['serve', '--config', '/c/c.yaml', '--scc-mode', 'enforce'];
    const container = { name: 'p', image: 'p', args, volumeMounts: [{ name: 'c', mountPath: '/c' }] };
    const deployment = (name: string, spec: object) => {
      const labels = { app: name };
      const template = { metadata: { labels }, spec };
      return { metadata: { name }, spec: { selector: { matchLabels: labels }, template } };
    };
    const inApps = (namespace: string): string => `/apis/apps/v1/namespaces/${namespace}/deployments`;
    const volumes = [{ name: 'c', configMap: { name: 'conf' } }];
    await post(inApps('portcullis'), deployment('portcullis', { containers: [container], volumes }));
    await post(inApps('shop'), deployment('web', { hostNetwork: true, containers: [{ name: 'web', image: 'web' }] }));
    await post('/apis/config.openshift.io/v1alpha1/psaenforcementconfigs', {
      apiVersion: 'config.openshift.io/v1alpha1',
      kind: 'PSAEnforcementConfig',
      metadata: { name: 'cluster' },
      spec: { enforcementMode: 'Restricted' },
    });
  });
  after(() => live.stop());

  test('settings come from the installation, and nothing is written', async () => {
    const list = async (): Promise<string> => (await live.admin.send('GET', '/api/v1/namespaces')).text;
    const earlier = await list();
    const { stdout, stderr } = await runProgram(['rollout', 'status', '--kubeconfig', kubeconfig, '-o', 'json']);
    assert.equal(stderr, '');
    const { phase, requested, requestedBy, generation, namespaces } = JSON.parse(stdout) as Record<string, unknown>;
    const shop = (namespaces as { name: string; verdict: string }[]).find(({ name }) => name === 'shop');
    assert.deepEqual(
      { phase, requested, requestedBy, generation, verdict: shop?.verdict },
      { phase: 'Enforce', requested: 'Restricted', requestedBy: 'others', generation: 0, verdict: 'violating' },
    );
    const simulated = await runProgram(['rollout', 'simulate', '--kubeconfig', kubeconfig]);
    assert.equal(simulated.code, 1);
    assert.match(simulated.stdout, /\nshop \(restricted\)\n {2}Deployment web\n/);
    assert.equal(await list(), earlier);
    assert.deepEqual(live.errors, []);
  });
});

const STATE: RolloutState = {
  phase: 'Enforce',
  gate: true,
  requested: '',
  decided: '',
  enforce: 'privileged',
  published: 'privileged',
  generation: 1,
  syncer: 'Advise',
  raiseSettleMs: 30_000,
  conditions: [],
  unlabeled: [],
};
const COUNTS: NamespaceCounts = {
  namespaces: 3,
  clean: 3,
  violating: 0,
  inconclusive: 0,
  labeled: 0,
  exempt: 0,
  workloads: 0,
  pods: 0,
};
const VIOLATING = { violating: 1, workloads: 2, pods: 5 };

const FEATURE_OFF = 'the feature OpenShiftPodSecurityAdmission is off';
const REFUSED = '2 workloads in 1 namespace would be refused';
const LISTED = 'Follow the next steps of each namespace.';
const CLEAR = `Clear the request: kubectl patch psaenforcementconfig cluster --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const TO_ENFORCE = 'Set rollout.phase to Enforce in the configuration file; replicas reload it.';

interface Case {
  readonly name: string;
  readonly state?: Partial<RolloutState>;
  readonly counts?: Partial<NamespaceCounts>;
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CASES: readonly Case[] = [
  {
    name: 'invalid mode',
    state: { requested: 'Privileged' },
    counts: VIOLATING,
    blockers: ['spec.enforcementMode is "Privileged", which is invalid'],
    next: ['Set it to one of "", "Restricted", "Legacy".'],
  },
  {
    name: 'disabled',
    state: { phase: 'Disabled' },
    blockers: ['the rollout is disabled: nothing is evaluated'],
    next: ['Set rollout.phase to Evaluate in the configuration file, and restart the replicas.'],
  },
  {
    name: 'evaluated, without blockers',
    state: { phase: 'Evaluate' },
    blockers: ['phase Evaluate enforces nothing'],
    next: [TO_ENFORCE],
  },
  {
    name: 'evaluated, violations, Legacy as proposed, feature off',
    state: { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'rollout', gate: false },
    counts: VIOLATING,
    blockers: [
      REFUSED,
      'spec.enforcementMode requests Legacy, as proposed by Portcullis',
      'phase Evaluate enforces nothing',
    ],
    next: [LISTED, CLEAR, TO_ENFORCE],
  },
  {
    name: 'inconclusive',
    counts: { inconclusive: 2 },
    blockers: ['2 namespaces cannot be evaluated'],
    next: ['Resolve the errors of the namespaces that cannot be evaluated.'],
  },
  {
    name: 'not decided',
    blockers: ['no complete evaluation of all namespaces exists'],
    next: [
      'Evaluate all namespaces: kubectl annotate psaenforcementconfig cluster --overwrite portcullis.dev/evaluate=$(date -u +%Y-%m-%dT%H:%M:%SZ).',
    ],
  },
  {
    name: 'Legacy by decision, without violations',
    state: { requested: '', decided: 'Legacy' },
    blockers: ['spec.enforcementMode requests Legacy'],
    next: [CLEAR],
  },
  {
    name: 'Legacy, and the feature is off',
    state: { requested: 'Legacy', requestedBy: 'others', decided: 'Legacy', gate: false },
    blockers: ['spec.enforcementMode requests Legacy', FEATURE_OFF],
    next: [CLEAR],
  },
  {
    name: 'decided, but the feature is off',
    state: { decided: 'Restricted', gate: false },
    blockers: [FEATURE_OFF],
    next: ['Enable the feature OpenShiftPodSecurityAdmission.'],
  },
  {
    name: 'decided, missing labels',
    state: { decided: 'Restricted', unlabeled: ['b', 'a'] },
    blockers: ['2 namespaces without a label: a, b'],
    next: ['Wait for the labels. Events of the namespaces report errors.'],
  },
  {
    name: 'decided, complete labels',
    state: { decided: 'Restricted' },
    blockers: ['the labels are new'],
    next: ['Wait: the default becomes restricted after all labels have existed for 30s, at most once within 5m.'],
  },
  {
    name: 'in effect',
    state: { decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    blockers: [],
    next: [],
  },
  {
    name: 'in effect on request',
    state: { requested: 'Restricted', decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    counts: VIOLATING,
    blockers: [],
    next: [LISTED],
  },
];

for (const { name, state, counts, ...expected } of CASES) {
  test(name, () => assert.deepEqual(rolloutOutlook({ ...STATE, ...state }, { ...COUNTS, ...counts }), expected));
}
