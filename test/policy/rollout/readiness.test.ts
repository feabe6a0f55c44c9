import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Condition } from '../../../src/kube/conditions.ts';
import type { ViolatingNamespace } from '../../../src/kube/psa-enforcement-config.ts';
import { finishSteps } from '../../../src/kube/steps.ts';
import type { JsonObject, Namespace, Pod } from '../../../src/kube/types.ts';
import { LABEL_SYNC_MANAGER, SUFFICIENT_LEVEL_ANNOTATION } from '../../../src/kube/well-known.ts';
import { decodePod } from '../../../src/policy/pod/index.ts';
import { createExemptions, DEFAULT_FIELDS } from '../../../src/policy/psa/index.ts';
import {
  evaluateStepwise,
  type NamespaceEvaluation,
  type NamespaceInput,
} from '../../../src/policy/rollout/evaluation.ts';
import { predictLevel } from '../../../src/policy/rollout/preview.ts';
import { scheduleSweep } from '../../../src/policy/rollout/readiness-schedule.ts';
import {
  countFindings,
  decideReadiness,
  mergeReadinessConditions,
  nextViolatingNamespaces,
  readinessCondition,
} from '../../../src/policy/rollout/readiness.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../../src/policy/rollout/settings.ts';
import { admitTemplatePod, getTemplatePod, type TemplatePod } from '../../../src/policy/rollout/template-pod.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/index.ts';
import { readFixture } from '../../support/fixtures.ts';
import { managedFieldsEntry } from '../../support/namespace-writes.ts';
import { accessBy } from '../../support/scc.ts';

const DEMO: Namespace = {
  metadata: {
    name: 'demo',
    annotations: { 'openshift.io/sa.scc.uid-range': '1000660000/10000', 'openshift.io/sa.scc.mcs': 's0:c26,c5' },
  },
};

const RESTRICTED = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

const FIX = /^Remove hostNetwork, hostPID and hostIPC/;

interface PodGiven {
  readonly name?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly owner?: { readonly kind: string; readonly name: string };
  readonly phase?: string;
  readonly spec?: JsonObject;
}

/** Builds a restricted pod with the given changes. */
function buildPod({ name = 'web', annotations, owner, phase = 'Running', spec = {} }: PodGiven): Pod {
  const reference = owner && { ...owner, apiVersion: 'v1', uid: owner.name, controller: true };
  return {
    metadata: {
      name,
      namespace: 'demo',
      ...(annotations ? { annotations } : {}),
      ...(reference ? { ownerReferences: [reference] } : {}),
    },
    spec: { containers: [{ name: 'app', image: 'app:1', securityContext: RESTRICTED }], ...spec },
    status: { phase },
  };
}

const HOST = { hostNetwork: true };
const SUBJECT_TYPE = 'security.openshift.io/validated-scc-subject-type';
const USER = { [SUBJECT_TYPE]: 'user', 'openshift.io/scc': 'hostnetwork-v2' };

function getTemplate(name: string, spec: JsonObject = {}): TemplatePod {
  return { kind: 'Deployment', name, path: 'spec.template', pod: decodePod(buildPod({ spec })) };
}

const PRIVILEGED = { level: 'privileged', version: 'latest' } as const;
const RESTRICTED_POLICY = { level: 'restricted', version: 'latest' } as const;

function inputFor(given: Partial<NamespaceInput>): NamespaceInput {
  return {
    namespace: DEMO,
    isSelected: true,
    current: PRIVILEGED,
    planned: RESTRICTED_POLICY,
    complete: (pod) => pod,
    pods: [],
    templates: [],
    exemptions: createExemptions({ usernames: [], namespaces: [], runtimeClasses: ['kata'] }),
    exists: () => false,
    sccMode: 'enforce',
    mayUse: () => false,
    ...given,
  };
}

function evaluate(given: Partial<NamespaceInput>): NamespaceEvaluation {
  return finishSteps(evaluateStepwise(inputFor(given)));
}

/** Formats the verdict, the categories, and each workload as `kind/name pods causes checks`. */
function told({ verdict, categories, workloads }: NamespaceEvaluation): unknown {
  const printed = workloads.map(
    ({ kind, name, pods, causes, violations }) =>
      `${kind}/${name} ${pods} ${causes.join('+')} ${violations.map(({ check }) => check).join()}`,
  );
  return [verdict, ...categories, ...printed];
}

suite('the evaluation of a namespace', () => {
  const ofSet = { owner: { kind: 'ReplicaSet', name: 'web-5d4f' } };
  const cases: readonly (readonly [name: string, given: Partial<NamespaceInput>, expected: unknown])[] = [
    ['a namespace without pods', {}, ['clean']],
    ['a restricted pod', { pods: [buildPod({})] }, ['clean']],
    [
      'a violating pod',
      { pods: [buildPod({ spec: HOST })] },
      ['violating', 'unknown', 'Pod/web 1 serviceAccount hostNamespaces'],
    ],
    [
      'a namespace with completed pods',
      { pods: ['Succeeded', 'Failed'].map((phase) => buildPod({ phase, spec: HOST })) },
      ['clean'],
    ],
    [
      'a pod with an exempt runtime class',
      { pods: [buildPod({ spec: { ...HOST, runtimeClassName: 'kata' } })] },
      ['clean'],
    ],
    ['a pod at a level without checks', { planned: PRIVILEGED, pods: [buildPod({ spec: HOST })] }, ['clean']],
    [
      'several pods of one controller',
      {
        pods: ['web-5d4f-a', 'web-5d4f-b'].map((name) => buildPod({ name, ...ofSet, spec: HOST })),
        exists: (kind, name) => kind === 'Deployment' && name === 'web',
      },
      ['violating', 'unknown', 'Deployment/web 2 serviceAccount hostNamespaces'],
    ],
    [
      'a pod of a controller that does not exist',
      { pods: [buildPod({ ...ofSet, spec: HOST })] },
      ['violating', 'unknown', 'ReplicaSet/web-5d4f 1 serviceAccount hostNamespaces'],
    ],
    [
      'a workload without pods',
      { templates: [getTemplate('idle', HOST), getTemplate('fine')] },
      ['violating', 'unknown', 'Deployment/idle 0 serviceAccount hostNamespaces'],
    ],
    [
      'a pod whose creator may use its SCC, but not its service account',
      { pods: [buildPod({ annotations: USER, spec: HOST })] },
      ['violating', 'userSCC', 'Pod/web 1 user hostNamespaces'],
    ],
    [
      'such a pod in a namespace without SCC admission',
      { pods: [buildPod({ annotations: USER, spec: HOST })], sccMode: 'off' },
      ['violating', 'unknown', 'Pod/web 1 serviceAccount hostNamespaces'],
    ],
    [
      'a pod whose creator and service account may use its SCC',
      {
        pods: [buildPod({ annotations: USER, spec: HOST })],
        mayUse: (account, scc) => account === 'default' && scc === 'hostnetwork-v2',
      },
      ['violating', 'unknown', 'Pod/web 1 serviceAccount hostNamespaces'],
    ],
    [
      'a pod whose SCC is unknown',
      { pods: [buildPod({ annotations: { ...USER, 'openshift.io/scc': '' }, spec: HOST })], mayUse: () => true },
      ['violating', 'userSCC', 'Pod/web 1 user hostNamespaces'],
    ],
    [
      'a controller with pods that were admitted because of users and because of service accounts',
      {
        pods: [{ annotations: USER }, {}].map((pod) =>
          buildPod({ ...pod, owner: { kind: 'DaemonSet', name: 'net' }, spec: HOST }),
        ),
      },
      ['violating', 'userSCC', 'unknown', 'DaemonSet/net 2 serviceAccount+user hostNamespaces'],
    ],
    [
      'a template whose pods were admitted because of users',
      {
        templates: [getTemplate('web', HOST)],
        pods: [buildPod({ annotations: USER, owner: { kind: 'Deployment', name: 'web' } })],
      },
      ['violating', 'userSCC', 'Deployment/web 0 user hostNamespaces'],
    ],
    ['a namespace with an unknown level', { planned: undefined }, ['inconclusive']],
    [
      'a namespace whose name resembles that of a platform namespace',
      { namespace: { metadata: { name: 'openshiftfoo' } }, pods: [buildPod({ spec: HOST })] },
      ['violating', 'unknown', 'Pod/web 1 serviceAccount hostNamespaces'],
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(`returns the verdict for ${name}`, () => assert.deepEqual(told(evaluate(given)), expected));
  }

  test('reports the fields, the reason and the fix of a violation', () => {
    const [workload] = evaluate({ templates: [getTemplate('web', HOST)] }).workloads;
    const [violation] = workload?.violations ?? [];
    assert.match(violation?.fix ?? '', FIX);
    assert.deepEqual(
      { ...violation, fix: '' },
      {
        check: 'hostNamespaces',
        reason: 'host namespaces',
        detail: 'hostNetwork=true',
        fields: ['spec.template.spec.hostNetwork'],
        fix: '',
      },
    );
  });

  test('limits the details and fields for callers that keep the result', () => {
    const templates = Array.from({ length: 30 }, (_, index) => {
      const containers = Array.from({ length: 200 }, (_unused, at) => ({ name: `container-${at}`, image: 'app:1' }));
      return { ...getTemplate(`web-${10 + index}`), pod: decodePod({ spec: { containers } }) };
    });
    const { workloads } = finishSteps(evaluateStepwise({ ...inputFor({ templates }), detailCharacters: 20_000 }));
    assert.equal(workloads.length, 30);
    const violations = workloads.flatMap((workload) => workload.violations);
    const size = violations.reduce((sum, { detail, fields }) => sum + detail.length + fields.join('').length, 0);
    assert.ok(size > 10_000 && size <= 20_000, `${size} characters`);
    assert.ok(violations.every(({ detail, fields }) => detail.length <= 1025 && fields.length <= 20));
    assert.notEqual(workloads[0]?.violations[0]?.detail, '');
    assert.deepEqual(workloads[29]?.violations[0]?.fields, []);
    const [complete] = finishSteps(evaluateStepwise(inputFor({ templates }))).workloads;
    assert.equal(complete?.violations[0]?.fields.length, 200);
  });

  test('can pause after each template, pod and workload', () => {
    const steps = [
      ...evaluateStepwise(inputFor({ pods: [buildPod({}), buildPod({})], templates: [getTemplate('a')] })),
    ];
    assert.equal(steps.length, 5);
  });
});

suite('the verdict for a workload depends on its template and its pods:', () => {
  const BASELINE = { level: 'baseline', version: 'latest' } as const;
  const OWN_LABEL = { isSelected: false, current: RESTRICTED_POLICY };
  const PLAIN = { containers: [{ name: 'app', image: 'app:1' }] };
  const DEBUGGED = {
    ephemeralContainers: [{ name: 'debugger-x', image: 'sh', securityContext: { privileged: true } }],
  };
  const SIDECAR = [...PLAIN.containers, { name: 'proxy', image: 'p', securityContext: { privileged: true } }];
  const ofWeb = (spec: JsonObject, annotations = {}): Pod =>
    buildPod({ name: 'web-5d4f-a', owner: { kind: 'StatefulSet', name: 'web' }, spec, annotations });
  const template: TemplatePod = { ...getTemplate('web'), kind: 'StatefulSet' };
  const surroundings = {
    namespace: DEMO,
    sccMode: 'enforce',
    sccs: STANDARD_SCCS.map(({ scc }) => scc),
    access: accessBy([{ group: 'system:authenticated', sccs: ['restricted-v2'] }]),
  } as const;
  const complete: NamespaceInput['complete'] = (pod) => admitTemplatePod(pod, surroundings);
  /** The expected workloads are formatted as `kind/name verdict level pods`. */
  const cases: readonly (readonly [name: string, given: Partial<NamespaceInput>, expected: readonly string[]])[] = [
    [
      'the level in force denies the pods',
      { ...OWN_LABEL, pods: [buildPod({ spec: HOST })], templates: [getTemplate('idle', HOST)] },
      ['deniedNow', 'Deployment/idle deniedNow restricted 0', 'Pod/web deniedNow restricted 1'],
    ],
    [
      'a weaker level is in force and also denies the pods',
      { current: BASELINE, pods: [buildPod({ spec: HOST }), ofWeb(PLAIN)] },
      ['violating', 'unknown', 'Pod/web deniedNow restricted 1', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'only the level in force denies the pods',
      { current: RESTRICTED_POLICY, planned: PRIVILEGED, pods: [buildPod({ spec: HOST })] },
      ['deniedNow', 'Pod/web deniedNow restricted 1'],
    ],
    [
      'the version in force does not deny the pods',
      {
        current: { level: 'baseline', version: 'v1.33' },
        planned: BASELINE,
        templates: [getTemplate('web', { containers: [{ name: 'app', livenessProbe: { tcpSocket: { host: 'h' } } }] })],
      },
      ['violating', 'unknown', 'Deployment/web wouldBeDenied baseline 0'],
    ],
    [
      'pods are older than SCC enforcement',
      { complete, pods: [ofWeb(PLAIN), ofWeb(PLAIN)], templates: [template] },
      ['restart', 'StatefulSet/web restart restricted 2'],
    ],
    [
      'pods are older than SCC enforcement, and the level is in force',
      { ...OWN_LABEL, complete, pods: [ofWeb(PLAIN)], templates: [template] },
      ['restart', 'StatefulSet/web restart restricted 1'],
    ],
    [
      'a pod without a controller is older than SCC enforcement',
      { complete, pods: [buildPod({ spec: PLAIN })] },
      ['restart', 'Pod/web restart restricted 1'],
    ],
    [
      'no SCC admits the pods',
      { complete, pods: [ofWeb({ ...PLAIN, ...HOST })] },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'the template also violates the level',
      { complete, pods: [ofWeb(PLAIN)], templates: [{ ...getTemplate('web', HOST), kind: 'StatefulSet' }] },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'only enforcement denies the template, but the level in force denies an older pod',
      {
        current: BASELINE,
        pods: [ofWeb({ ...PLAIN, ...HOST })],
        templates: [{ ...getTemplate('web', PLAIN), kind: 'StatefulSet' }],
      },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'one of its pods cannot be replaced',
      {
        complete,
        pods: [ofWeb(PLAIN), ofWeb({ ...PLAIN, ...HOST, ...{ volumes: [{ name: 'v' }] } })],
        templates: [template],
      },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 2'],
    ],
    [
      'the pods have an older template',
      { pods: [ofWeb(HOST)], templates: [template] },
      ['restart', 'StatefulSet/web restart restricted 1'],
    ],
    [
      'a pod has a debug container',
      { pods: [ofWeb(DEBUGGED)], templates: [template] },
      ['restart', 'StatefulSet/web restart restricted 1'],
    ],
    [
      'a webhook adds a container',
      { complete, pods: [ofWeb({ containers: SIDECAR })], templates: [template] },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'a webhook adds a volume',
      { complete, pods: [ofWeb({ volumes: [{ name: 'apm', hostPath: { path: '/run' } }] })], templates: [template] },
      ['violating', 'unknown', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
    [
      'the pods were admitted because of their creator',
      { complete, pods: [ofWeb(PLAIN, USER)], templates: [template] },
      ['violating', 'userSCC', 'StatefulSet/web wouldBeDenied restricted 1'],
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => {
      const { verdict, categories, workloads } = evaluate(given);
      const printed = workloads.map((one) => `${one.kind}/${one.name} ${one.verdict} ${one.level} ${one.pods}`);
      assert.deepEqual([verdict, ...categories, ...printed], expected);
    });
  }
});

suite('the pod that a template leads to', () => {
  const sccs = STANDARD_SCCS.map(({ scc }) => scc);
  const surroundings = {
    namespace: DEMO,
    sccMode: 'enforce',
    sccs,
    access: accessBy([{ group: 'system:authenticated', sccs: ['restricted-v2'] }]),
  } as const;
  const deployment = (spec: JsonObject) => ({
    metadata: { name: 'web', namespace: 'demo' },
    spec: { template: { spec: { containers: [{ name: 'app', image: 'app:1' }], ...spec } } },
  });
  const levelAfter = (spec: JsonObject, change: Partial<Parameters<typeof getTemplatePod>[1]> = {}): unknown => {
    const template = getTemplatePod({ kind: 'Deployment', object: deployment(spec) }, { ...surroundings, ...change });
    assert.ok(template);
    return evaluate({ templates: [template] }).verdict;
  };

  test('is defaulted by SCC admission in enforce mode', () => assert.equal(levelAfter({}), 'clean'));
  test('is unchanged without SCC enforcement and pod defaults', () =>
    assert.equal(levelAfter({}, { sccMode: 'off' }), 'violating'));
  test('gets pod defaults without SCC enforcement', () => {
    const scc = { mode: 'off', exemptNamespaces: [] } as const;
    const defaults = { mode: 'apply', fields: DEFAULT_FIELDS, namespaceSelector: {}, exemptNamespaces: [] } as const;
    assert.equal(levelAfter({}, { sccMode: 'off', defaults: { defaults, scc } }), 'clean');
    assert.equal(levelAfter(HOST, { sccMode: 'off', defaults: { defaults, scc } }), 'violating');
    const exempt = { ...defaults, exemptNamespaces: ['demo'] };
    assert.equal(levelAfter({}, { sccMode: 'off', defaults: { defaults: exempt, scc } }), 'violating');
  });
  test('is unchanged if no SCC admits it', () => assert.equal(levelAfter(HOST), 'violating'));

  test('is unchanged if a broken SCC denies every pod, as on OpenShift', () => {
    const broken = { ...sccs[0], metadata: { name: 'broken' }, runAsUser: { type: 'MustRunAs' } };
    const change = { sccs: [...sccs, broken], compatibility: 'openshift' } as const;
    assert.equal(levelAfter({}, change), 'violating');
  });

  test('has the path of its template', () => {
    const job = {
      metadata: { name: 'backup' },
      spec: { jobTemplate: { spec: { template: { spec: { containers: [] } } } } },
    };
    const template = getTemplatePod({ kind: 'CronJob', object: job }, surroundings);
    assert.deepEqual(
      [template?.kind, template?.name, template?.path],
      ['CronJob', 'backup', 'spec.jobTemplate.spec.template'],
    );
  });

  test('does not exist if the workload has no template', () => {
    assert.equal(
      getTemplatePod({ kind: 'Deployment', object: { metadata: { name: 'odd' } } }, surroundings),
      undefined,
    );
    assert.equal(getTemplatePod({ kind: 'Secret', object: { metadata: { name: 'odd' } } }, surroundings), undefined);
  });
});

test('the level that the readiness controller predicts is the level that the label syncer sets', () => {
  const annotations = { [SUFFICIENT_LEVEL_ANNOTATION]: 'privileged' };
  const owner = managedFieldsEntry({ manager: LABEL_SYNC_MANAGER, annotations: Object.keys(annotations) });
  const given: Namespace = { metadata: { name: 'demo', annotations, managedFields: [owner] } };
  assert.equal(predictLevel(given, { isManaged: true, neededLevel: { level: 'baseline' } }), 'baseline');
  assert.equal(predictLevel(given, { isManaged: false }), 'restricted');
  assert.equal(predictLevel(given, { isManaged: true }), 'privileged');
});

function found(
  name: string,
  verdict: NamespaceEvaluation['verdict'] = 'violating',
  category = 'unknown',
): NamespaceEvaluation {
  const categories = verdict === 'violating' ? [category as 'unknown'] : [];
  const versions = { currentVersion: 'latest', version: 'latest' } as const;
  const levels = { current: 'privileged', level: 'restricted', ...versions, isSelected: true } as const;
  return { name, ...levels, verdict, categories, workloads: [], excepted: [] };
}

suite('the list of violating namespaces', () => {
  const OLD = '2026-01-01T00:00:00Z';
  const NOW = '2026-01-02T00:00:00Z';
  const entry = (state: 'Current' | 'Previous', name = 'a'): ViolatingNamespace => ({
    name,
    state,
    lastTransitionTime: OLD,
  });
  const since = { old: OLD, new: NOW };
  /** Entries formatted as `name state time`, followed by the reason, if any. */
  const print = ({ name, state, lastTransitionTime, reason = '' }: ViolatingNamespace): string =>
    `${name} ${state} ${lastTransitionTime === OLD ? 'old' : 'new'} ${reason}`.trim();
  const cases: readonly {
    readonly name: string;
    readonly before?: readonly ViolatingNamespace[];
    readonly evaluations?: readonly NamespaceEvaluation[];
    /** Creation times of the namespaces. Absent for deleted namespaces. */
    readonly created?: keyof typeof since | undefined;
    readonly expected: readonly string[];
  }[] = [
    { name: 'lists a newly violating namespace as current', evaluations: [found('a')], expected: ['a Current new'] },
    {
      name: 'keeps a namespace that is violating for another reason as current',
      before: [entry('Current')],
      evaluations: [found('a', 'violating', 'userSCC')],
      expected: ['a Current old PSALabel: ServiceAccount with insufficient SCCs'],
    },
    {
      name: 'lists a namespace that is violating again as current',
      before: [entry('Previous')],
      evaluations: [found('a')],
      expected: ['a Current new'],
    },
    {
      name: 'lists a namespace that is now clean as previous',
      before: [entry('Current')],
      evaluations: [found('a', 'clean')],
      expected: ['a Previous new'],
    },
    {
      name: 'lists a namespace that is no longer selected as previous',
      before: [entry('Current')],
      expected: ['a Previous new'],
    },
    {
      name: 'keeps a namespace that is still clean as previous',
      before: [entry('Previous')],
      evaluations: [found('a', 'clean')],
      expected: ['a Previous old'],
    },
    {
      name: 'keeps a namespace whose evaluation is inconclusive',
      before: [entry('Current')],
      evaluations: [found('a', 'inconclusive')],
      expected: ['a Current old'],
    },
    { name: 'drops a deleted namespace', before: [entry('Current')], created: undefined, expected: [] },
    {
      name: 'drops a namespace that was deleted and created again',
      before: [entry('Current')],
      created: 'new',
      expected: [],
    },
    {
      name: 'lists a namespace that was deleted and created again with violations as current',
      before: [entry('Current')],
      evaluations: [found('a')],
      created: 'new',
      expected: ['a Current new'],
    },
    {
      name: 'contains current entries first, sorted by name',
      before: [entry('Previous', 'a'), entry('Current', 'c')],
      evaluations: [found('d'), found('c'), found('b')],
      expected: ['b Current new', 'c Current old', 'd Current new', 'a Previous old'],
    },
  ];
  for (const one of cases) {
    test(one.name, () => {
      const { before = [], evaluations = [], created, expected } = { created: 'old' as const, ...one };
      const namespace = created && { metadata: { creationTimestamp: since[created] as never } };
      const entries = nextViolatingNamespaces(before, { evaluations, endMs: Date.parse(NOW) }, () => namespace);
      assert.deepEqual(entries.map(print), expected);
    });
  }

  test('is shortened by dropping its oldest previous entries', () => {
    const violating = Array.from({ length: 998 }, (_, index) => found(`v${index}`));
    const before = [0, 1, 2, 3].map((day) => ({
      ...entry('Previous', `p${day}`),
      lastTransitionTime: `2025-12-0${day + 1}T00:00:00Z`,
    }));
    const entries = nextViolatingNamespaces(before, { evaluations: violating, endMs: Date.parse(NOW) }, () => ({}));
    assert.equal(entries.length, 1000);
    assert.deepEqual(
      entries.slice(998).map(({ name }) => name),
      ['p2', 'p3'],
    );
  });

  test('is complete only if every namespace was evaluated', () => {
    const decide = (evaluations: readonly NamespaceEvaluation[]) => {
      const { status } = decideReadiness({
        object: { spec: {}, status: { lastEvaluationTime: OLD } },
        settings: { ...DEFAULT_ROLLOUT, phase: 'Evaluate' },
        gate: false,
        published: 'privileged',
        sweep: { evaluations, startMs: Date.parse(OLD), endMs: Date.parse(NOW) },
        findNamespace: () => ({}),
        nowMs: Date.parse(NOW),
        isSpecRejected: false,
      });
      return [status.lastEvaluationTime, ...(status.violatingNamespaces ?? []).map(print)];
    };
    const incomplete = [found('a'), found('b', 'inconclusive')];
    assert.deepEqual(decide(incomplete), [OLD, 'a Current new']);
    assert.deepEqual(decide([found('a', 'clean')]), [NOW]);
  });
});

interface MergeCase {
  readonly name: string;
  readonly members: readonly Condition[];
  readonly expected: Omit<Condition, 'type'>;
}

suite('the merged condition combines the conditions of all namespaces:', () => {
  const NOW = '2026-01-03T00:00:00Z';
  for (const { name, members, expected } of readFixture<readonly MergeCase[]>('rollout/merged-condition.yaml')) {
    test(name, () => {
      const merged = mergeReadinessConditions(members, { now: NOW });
      assert.deepEqual(merged, { type: 'EvaluationConditionsDetected', ...expected });
    });
  }

  test('the transition time is kept if there are no conditions', () => {
    const first = mergeReadinessConditions([], { now: '2026-01-01T00:00:00Z' });
    assert.deepEqual(mergeReadinessConditions([], { before: first, now: NOW }), first);
  });

  test('a message with many namespaces is truncated', () => {
    const namespaces = Array.from({ length: 5000 }, (_, index) => `namespace-${index + 10_000}`);
    const { message } = readinessCondition({ type: 'A', reason: 'PSViolationsDetected', namespaces });
    assert.ok(message.length <= 32 * 1024);
    assert.match(message, /^Violations detected in namespaces: \[namespace-10000 .*\] and \d+ more$/);
    const shown = message.slice(message.indexOf('[') + 1, message.indexOf(']')).split(' ').length;
    assert.equal(shown + Number(/(\d+) more$/.exec(message)?.[1]), 5000);
  });
});

test('the rollout metrics count namespaces and workloads by state', () => {
  const violated = { level: 'restricted', version: 'latest', violations: [] } as const;
  const counted = { kind: 'Pod', name: 'a', ...violated, pods: 1, causes: ['user'] } as const;
  const workload = { ...counted, verdict: 'wouldBeDenied' } as const;
  const restart = { ...counted, verdict: 'restart' } as const;
  const deniedNow = { ...counted, verdict: 'deniedNow' } as const;
  const measures = countFindings([
    { ...found('a', 'violating', 'userSCC'), workloads: [workload] },
    { ...found('b'), workloads: [workload, workload] },
    found('c', 'clean'),
    { ...found('e', 'deniedNow'), isSelected: false, workloads: [deniedNow, restart, deniedNow] },
    found('d', 'inconclusive'),
  ]);
  assert.deepEqual(measures, {
    states: { clean: 1, restart: 0, deniedNow: 1, violating: 2, inconclusive: 1 },
    classes: { runLevelZero: 0, openshift: 0, disabledSyncer: 0, userSCC: 1, customer: 1, inconclusive: 1 },
    workloads: { deniedNow: 2, wouldBeDenied: 3, restart: 1 },
    detailed: [
      { namespace: 'e', verdict: 'deniedNow', count: 2 },
      { namespace: 'e', verdict: 'restart', count: 1 },
      { namespace: 'b', verdict: 'wouldBeDenied', count: 2 },
      { namespace: 'a', verdict: 'wouldBeDenied', count: 1 },
    ],
  });
  const many = countFindings(
    Array.from({ length: 150 }, (_, index) => ({ ...found(`n${index}`), workloads: [workload] })),
  );
  assert.deepEqual([many.detailed.length, many.workloads.wouldBeDenied, many.states.violating], [100, 150, 150]);
});

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = 1000 * HOUR;

suite('scheduleSweep determines the time of the next evaluation:', () => {
  interface Given {
    readonly storedMs?: number;
    /** Start of the last sweep of this process. */
    readonly sweptMs?: number;
    readonly failures?: number;
    readonly requestedMs?: number;
    readonly changedSinceMs?: number;
    readonly jitter?: number;
    readonly settings?: Partial<RolloutSettings>;
  }
  const daily = { evaluationIntervalMs: 24 * HOUR } as const;
  const cases: readonly (readonly [name: string, given: Given, expected: number])[] = [
    ['the first evaluation is due immediately', {}, 0],
    ['the interval starts at the stored time', { storedMs: NOW - HOUR }, 3 * HOUR],
    ['the interval starts at the end of the last sweep', { storedMs: NOW - 5 * HOUR, sweptMs: NOW - HOUR }, 3 * HOUR],
    ['an overdue evaluation is due immediately', { storedMs: NOW - 5 * HOUR }, 0],
    ['jitter extends the interval', { storedMs: NOW, jitter: 0.1 }, 4.4 * HOUR],
    ['an incomplete evaluation is repeated after a minute', { sweptMs: NOW, failures: 1 }, MINUTE],
    ['the delay of repeated evaluations doubles', { sweptMs: NOW, failures: 3, storedMs: NOW - HOUR }, 4 * MINUTE],
    ['the delay of repeated evaluations has a maximum', { sweptMs: NOW - MINUTE, failures: 100 }, 29 * MINUTE],
    ['a requested evaluation is due immediately', { storedMs: NOW - HOUR, requestedMs: NOW - MINUTE }, 0],
    [
      'a request that is older than the last request is ignored',
      { storedMs: NOW - HOUR, requestedMs: NOW - 2 * HOUR },
      3 * HOUR,
    ],
    [
      'an evaluation is due immediately if the result that enforcement awaits is too old',
      { storedMs: NOW - 9 * HOUR, settings: { ...daily, phase: 'Enforce' } },
      0,
    ],
    [
      'the interval applies to an old result that enforcement does not await',
      { storedMs: NOW - 9 * HOUR, settings: daily },
      15 * HOUR,
    ],
    ['a stored time in the future is ignored', { storedMs: NOW + HOUR }, 0],
    [
      'a namespace whose verdict changed is evaluated again after a minute',
      { sweptMs: NOW, changedSinceMs: NOW },
      MINUTE,
    ],
    [
      'a namespace whose verdict changed is evaluated again after five seconds while enforcement awaits it',
      { sweptMs: NOW, changedSinceMs: NOW, settings: { phase: 'Enforce' } },
      5_000,
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => {
      const { storedMs, sweptMs, failures = 0, requestedMs, changedSinceMs, jitter = 0, settings } = given;
      const lastEvaluationTime = storedMs === undefined ? null : new Date(storedMs).toISOString();
      const delayMs = scheduleSweep({
        object: { spec: {}, status: { lastEvaluationTime } },
        settings: { ...DEFAULT_ROLLOUT, phase: 'Evaluate', ...settings },
        sweep: sweptMs === undefined ? undefined : { evaluations: [], startMs: sweptMs, endMs: sweptMs },
        nowMs: NOW,
        changedSinceMs,
        settleMs: 0,
        failures,
        requestedMs,
        jitter,
      });
      assert.ok(Math.abs(delayMs - expected) < 1);
    });
  }
});
