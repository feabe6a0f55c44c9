/** Tests the planned Pod Security labels of a namespace. */
import assert from 'node:assert/strict';
import { describe, suite, test } from 'node:test';
import { applyJsonPatch } from '../../../src/dev-cluster/json-patch.ts';
import { getMetadataOwners } from '../../../src/kube/managed-fields.ts';
import { finishSteps } from '../../../src/kube/steps.ts';
import type { Namespace } from '../../../src/kube/types.ts';
import {
  PREVIOUS_LABEL_SYNC_MANAGER,
  LABEL_SYNC_LABEL,
  LABEL_SYNC_MANAGER,
  SUFFICIENT_LEVEL_ANNOTATION,
} from '../../../src/kube/well-known.ts';
import { SYNCER_MODES, type SyncerMode } from '../../../src/policy/rollout/enforcement.ts';
import { planRunLevelZero } from '../../../src/policy/rollout/label-owners.ts';
import { type LabelSyncInput, planLabels } from '../../../src/policy/rollout/label-sync.ts';
import { createSccLevels } from '../../../src/policy/rollout/needed-level.ts';
import { isAwaitingLabel } from '../../../src/policy/rollout/sync-state.ts';
import { type Compatibility, STANDARD_SCCS } from '../../../src/policy/scc/index.ts';
import {
  applyAs,
  labelOwners,
  managedFieldsEntry,
  patchAs,
  syncUntilDone,
  updateLabelsAs,
} from '../../support/namespace-writes.ts';
import { accessBy, type Grant } from '../../support/scc.ts';

const plan = (input: LabelSyncInput) => finishSteps(planLabels(input));

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const ENFORCE_VERSION = 'pod-security.kubernetes.io/enforce-version';
const AUDIT = 'pod-security.kubernetes.io/audit';
const AUDIT_VERSION = 'pod-security.kubernetes.io/audit-version';
const WARN = 'pod-security.kubernetes.io/warn';
const WARN_VERSION = 'pod-security.kubernetes.io/warn-version';
const ALL = [ENFORCE, ENFORCE_VERSION, AUDIT, AUDIT_VERSION, WARN, WARN_VERSION];

const ALL_USERS: Grant = { group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] };
const SCC_LEVELS = createSccLevels(
  STANDARD_SCCS.map(({ scc }) => scc),
  { profile: 'accurate' },
);

interface Given {
  readonly grants?: readonly Grant[];
  readonly mode?: SyncerMode;
  readonly serviceAccounts?: readonly string[];
  /** Compatibility mode. If absent, all labels are set as on OpenShift. */
  readonly compatibility?: Compatibility;
}

function namespaceWith(labels: Readonly<Record<string, string>> = {}, name = 'demo'): Namespace {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      resourceVersion: '1',
      annotations: { 'openshift.io/sa.scc.uid-range': '1000660000/10000' },
      managedFields: [managedFieldsEntry({ manager: 'kubectl-create', operation: 'Update', labels: ['team'] })],
      labels: { team: 'a', ...labels },
    },
  };
}

function inputFor(
  namespace: Namespace,
  { grants = [], mode = 'Enforce', serviceAccounts, compatibility = 'openshift' }: Given = {},
): LabelSyncInput {
  return {
    namespace,
    serviceAccounts: serviceAccounts ?? ['builder', 'default', 'deployer'],
    sccLevels: SCC_LEVELS,
    access: accessBy([ALL_USERS, ...grants]),
    mode,
    settings: {
      exemptNamespaces: new Set(['kube-system']),
      scc: { mode: 'enforce', exemptNamespaces: [], compatibility, preferUserNamespaces: false },
    },
  };
}

function synced(namespace: Namespace, given: Given = {}): Namespace {
  return syncUntilDone(inputFor(namespace, given)).namespace;
}

/** Returns the Pod Security labels and the annotation that are set. */
function state({ metadata }: Namespace): Readonly<Record<string, string>> {
  const { labels = {}, annotations = {} } = metadata ?? {};
  const level = annotations[SUFFICIENT_LEVEL_ANNOTATION];
  return {
    ...Object.fromEntries(ALL.filter((key) => labels[key] !== undefined).map((key) => [key, labels[key] ?? ''])),
    ...(level === undefined ? {} : { level }),
  };
}

function labelsFor(level: string): Readonly<Record<string, string>> {
  const versions = [ENFORCE_VERSION, AUDIT_VERSION, WARN_VERSION].map((key) => [key, 'latest']);
  const levels = [ENFORCE, AUDIT, WARN].map((key) => [key, level]);
  return { ...Object.fromEntries([...levels, ...versions]), level } as Readonly<Record<string, string>>;
}

function without(
  members: Readonly<Record<string, string>>,
  ...keys: readonly string[]
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(members).filter(([key]) => !keys.includes(key)));
}

const ANYUID: Grant = { user: 'system:serviceaccount:demo:builder', sccs: ['anyuid'] };
const PRIVILEGED: Grant = { user: 'system:serviceaccount:demo:deployer', sccs: ['privileged'] };

suite('the warn label of namespaces where the webhook warns', () => {
  const WARNS = { compatibility: 'portcullis' } as const;
  const SILENT = { ...labelsFor('restricted'), [WARN]: 'privileged' };
  /** Returns a namespace with a label that belongs to a manager. */
  const owned = (manager: string, labels: Readonly<Record<string, string>>): Namespace => {
    const namespace = namespaceWith(labels);
    const owner = managedFieldsEntry({ manager, operation: 'Update', labels: Object.keys(labels) });
    return { ...namespace, metadata: { ...namespace.metadata, managedFields: [owner] } };
  };
  test('becomes privileged if an earlier version set it', () => {
    const before = synced(namespaceWith());
    assert.deepEqual(state(before), labelsFor('restricted'));
    for (const mode of SYNCER_MODES) {
      const expected = mode === 'Advise' ? without(SILENT, ENFORCE, ENFORCE_VERSION) : SILENT;
      assert.deepEqual(state(synced(before, { ...WARNS, mode })), expected, mode);
    }
    const former = owned(PREVIOUS_LABEL_SYNC_MANAGER, { [WARN]: 'baseline', [WARN_VERSION]: 'latest' });
    assert.deepEqual(state(synced(former, WARNS)), SILENT);
  });
  test('is kept, without an event, if a user set it', () => {
    const namespace = owned('kubectl', { [WARN]: 'baseline' });
    assert.deepEqual(state(synced(namespace, WARNS)), { ...SILENT, [WARN]: 'baseline' });
    assert.deepEqual(plan(inputFor(namespace, WARNS)).events, []);
  });
  test('keeps its level if SCCs are no longer enforced', () => {
    const { level, ...labels } = labelsFor('restricted');
    assert.equal(level, 'restricted');
    for (const changed of [
      { 'portcullis.dev/scc': 'off' },
      { 'portcullis.dev/scc': 'report' },
      { 'openshift.io/run-level': '1' },
      { 'security.openshift.io/disable-securitycontextconstraints': 'true' },
    ]) {
      const switched = updateLabelsAs('kubectl-label', synced(namespaceWith(), WARNS), changed);
      for (const mode of SYNCER_MODES) {
        const expected = mode === 'Advise' ? without(labels, ENFORCE, ENFORCE_VERSION) : labels;
        assert.deepEqual(state(synced(switched, { ...WARNS, mode })), expected, mode);
      }
    }
    const user = updateLabelsAs('kubectl', synced(namespaceWith(), WARNS), { [WARN]: 'baseline' });
    const kept = updateLabelsAs('kubectl', user, { 'portcullis.dev/scc': 'off' });
    assert.deepEqual(state(synced(kept, WARNS)), { ...labels, [WARN]: 'baseline' });
  });
  test('gets the required level if SCCs are not enforced from the start', () => {
    const namespace = namespaceWith({ 'portcullis.dev/scc': 'report', [LABEL_SYNC_LABEL]: 'true' });
    assert.deepEqual(state(synced(namespace, WARNS)), labelsFor('restricted'));
  });
});

suite('the labels of a managed namespace', () => {
  test('set the strictest level that admits the pods of all service accounts', () => {
    assert.deepEqual(state(synced(namespaceWith())), labelsFor('restricted'));
    assert.deepEqual(state(synced(namespaceWith(), { grants: [ANYUID] })), labelsFor('baseline'));
    assert.deepEqual(state(synced(namespaceWith(), { grants: [ANYUID, PRIVILEGED] })), labelsFor('privileged'));
  });

  test('are applied together, but only to the resource version that was read', () => {
    const { metadata, ...rest } = namespaceWith();
    const { apply: document } = plan(inputFor({ ...rest, metadata: { ...metadata, uid: 'u1' } }));
    const { level, ...labels } = labelsFor('restricted');
    assert.deepEqual(document, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: {
        name: 'demo',
        uid: 'u1',
        resourceVersion: '1',
        labels,
        annotations: { [SUFFICIENT_LEVEL_ANNOTATION]: level },
      },
    });
  });
});

suite('fields of other managers are kept, unless the namespace opts in:', () => {
  const cases: readonly (readonly [name: string, given: Namespace, expected: Readonly<Record<string, string>>])[] = [
    [
      'a user owns five of six labels, so the sixth and the annotation are added',
      updateLabelsAs('kubectl-label', namespaceWith(), {
        ...{ [ENFORCE]: 'privileged', [ENFORCE_VERSION]: 'v1.30', [AUDIT]: 'baseline' },
        ...{ [AUDIT_VERSION]: 'v1.30', [WARN]: 'baseline' },
      }),
      {
        ...{ [ENFORCE]: 'privileged', [ENFORCE_VERSION]: 'v1.30', [AUDIT]: 'baseline', [AUDIT_VERSION]: 'v1.30' },
        ...{ [WARN]: 'baseline', [WARN_VERSION]: 'latest', level: 'restricted' },
      },
    ],
    [
      'a user owns all six labels, so nothing is written',
      updateLabelsAs('gitops', namespaceWith(), Object.fromEntries(ALL.map((key) => [key, 'latest']))),
      Object.fromEntries(ALL.map((key) => [key, 'latest'])),
    ],
    ['an exempt namespace that opts in', namespaceWith({ [LABEL_SYNC_LABEL]: 'true' }, 'kube-system'), {}],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => assert.deepEqual(state(synced(given)), expected));
  }

  test('a label that the syncer and another manager own is kept when the level changes', () => {
    const shared = applyAs('gitops', synced(namespaceWith()), {
      metadata: { name: 'demo', labels: { [WARN]: 'restricted' } },
    });
    const after = synced(shared, { grants: [ANYUID] });
    assert.deepEqual(state(after), { ...labelsFor('baseline'), [WARN]: 'restricted' });
    assert.deepEqual(labelOwners(getMetadataOwners(after.metadata) ?? [], WARN), ['gitops/Apply']);
  });

  test('labels without an owner are kept if their values are valid but different', () => {
    const restored = namespaceWith({ [ENFORCE]: 'baseline', [WARN]: 'bogus', [AUDIT]: 'restricted' });
    const stripped = { ...restored, metadata: { ...restored.metadata, managedFields: [] } };
    const given: Given = { compatibility: 'portcullis' };
    const { namespace, plans } = syncUntilDone(inputFor(stripped, given));
    assert.deepEqual(state(namespace), { ...labelsFor('restricted'), [ENFORCE]: 'baseline', [WARN]: 'privileged' });
    assert.deepEqual(plans.at(-1)?.events, [
      {
        type: 'Normal',
        reason: 'LabelKept',
        message: `label ${ENFORCE}=baseline has no recorded owner and is kept, but the namespace needs restricted`,
      },
    ]);
    const adopted = state(synced(namespace, { ...given, grants: [ANYUID] }));
    assert.deepEqual(adopted, { ...labelsFor('baseline'), [WARN]: 'privileged' });
    assert.deepEqual(state(synced(stripped)), labelsFor('restricted'), 'OpenShift overwrites them');
  });

  test('a changed annotation is corrected without changes to the labels', () => {
    const before = synced(namespaceWith());
    const edited = patchAs('kubectl-edit', before, [
      { op: 'replace', path: `/metadata/annotations/${SUFFICIENT_LEVEL_ANNOTATION.replace('/', '~1')}`, value: 'x' },
    ]);
    const { namespace, writes } = syncUntilDone(inputFor(edited));
    assert.deepEqual(state(namespace), labelsFor('restricted'));
    assert.equal(writes.length, 1);
  });

  test('an outdated version label that the syncer owns is updated', () => {
    const { apply: document } = plan(inputFor(namespaceWith()));
    assert.ok(document);
    const labels = { ...document.metadata?.labels, [WARN_VERSION]: 'v1.24' };
    const early = applyAs(LABEL_SYNC_MANAGER, namespaceWith(), {
      ...document,
      metadata: { ...document.metadata, labels, resourceVersion: '1' },
    });
    assert.deepEqual(state(synced(early)), labelsFor('restricted'));
  });
});

suite('the label syncer mode determines which labels are set and removed:', () => {
  const enforced = synced(namespaceWith(), { grants: [ANYUID] });

  test('Advise removes enforce labels even if nothing else differs', () => {
    const rest = without(labelsFor('baseline'), ENFORCE, ENFORCE_VERSION);
    const { namespace, writes } = syncUntilDone(inputFor(enforced, { grants: [ANYUID], mode: 'Advise' }));
    assert.deepEqual(state(namespace), rest);
    assert.equal(writes.length, 1);
  });

  test('Hold keeps existing enforce labels and adds no others', () => {
    const held = synced(enforced, { mode: 'Hold' });
    assert.deepEqual(state(held), { ...labelsFor('restricted'), [ENFORCE]: 'baseline' });
    const rest = without(labelsFor('restricted'), ENFORCE, ENFORCE_VERSION);
    assert.deepEqual(state(synced(namespaceWith(), { mode: 'Hold' })), rest);
  });

  for (const mode of ['Enforce', 'Hold'] as const) {
    test(`${mode} keeps the labels of a namespace that opts out, and removes the annotation`, () => {
      const out = updateLabelsAs('kubectl-label', enforced, { [LABEL_SYNC_LABEL]: 'false' });
      const rest = without(labelsFor('baseline'), 'level');
      const { namespace, writes } = syncUntilDone(inputFor(out, { mode }));
      assert.deepEqual(state(namespace), rest);
      assert.equal(writes.length, 1);
    });
  }

  test('Advise removes the enforce labels of a namespace that opts out', () => {
    const out = updateLabelsAs('kubectl-label', enforced, { [LABEL_SYNC_LABEL]: 'false' });
    assert.deepEqual(state(synced(out, { mode: 'Advise' })), {
      ...{ [AUDIT]: 'baseline', [AUDIT_VERSION]: 'latest', [WARN]: 'baseline', [WARN_VERSION]: 'latest' },
    });
  });

  test('Advise removes the enforce labels of a namespace without a UID range, and other modes change nothing', () => {
    const { annotations, ...metadata } = enforced.metadata ?? {};
    const kept = { [SUFFICIENT_LEVEL_ANNOTATION]: annotations?.[SUFFICIENT_LEVEL_ANNOTATION] ?? '' };
    const lost = { ...enforced, metadata: { ...metadata, annotations: kept } };
    assert.equal(plan(inputFor(lost)).apply, undefined);
    assert.equal(state(synced(lost, { mode: 'Advise' }))[ENFORCE], undefined);
  });
});

suite('a namespace whose level is unknown does not change:', () => {
  const { metadata } = namespaceWith();
  const cases: readonly { readonly name: string; readonly namespace: Namespace; readonly given?: Given }[] = [
    { name: 'it has no UID range', namespace: { metadata: { ...metadata, annotations: {} } } },
    { name: 'it is terminating', namespace: { ...namespaceWith(), status: { phase: 'Terminating' } } },
    {
      name: 'its managed fields are malformed',
      namespace: { metadata: { ...metadata, managedFields: [{ manager: 'odd', fieldsV1: { 'f:metadata': 1 } }] } },
    },
  ];
  for (const { name, namespace, given } of cases) {
    test(name, () => {
      const { apply: document, patch, events } = plan(inputFor(namespace, given));
      assert.deepEqual([document, patch, events], [undefined, undefined, []]);
    });
  }

  test('an invalid UID range does not make the level unknown, but means that pods may run as root', () => {
    const annotations = { 'openshift.io/sa.scc.uid-range': 'odd' };
    assert.deepEqual(state(synced({ metadata: { ...metadata, annotations } })), labelsFor('baseline'));
  });

  describe('in OpenShift compatibility mode, a namespace gets labels only if the levels of all SCCs can be computed:', () => {
    const standard = ['restricted-v2', 'privileged'].map(
      (name) => STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name)?.scc ?? {},
    );
    const [restricted = {}] = standard;
    const unknown = { ...restricted, volumes: ['warp'] };
    const invalid = { metadata: { ...metadata, annotations: { 'openshift.io/sa.scc.uid-range': 'odd' } } };
    const levels: readonly (readonly [name: string, sccs: readonly object[], namespace: Namespace, level?: string])[] =
      [
        ['all SCCs have known values', [restricted], namespaceWith(), 'restricted'],
        ['an SCC has an unknown volume type', [restricted, unknown], namespaceWith()],
        ['the namespace has an invalid UID range', [restricted], invalid],
      ];
    for (const [name, sccs, namespace, level] of levels) {
      test(name, () => {
        const sccLevels = createSccLevels(sccs, { profile: 'upstream' });
        const { neededLevel: need } = plan({
          ...inputFor(namespace, { compatibility: 'openshift' }),
          sccLevels,
          access: { canUse: () => true },
        });
        assert.equal(need?.level, level);
      });
    }
  });
});

suite('an event is recorded for a namespace if', () => {
  test('no service account may use any SCC', () => {
    const input = (compatibility: Compatibility): LabelSyncInput => {
      return { ...inputFor(namespaceWith(), { compatibility }), access: { canUse: () => false } };
    };
    const { apply, events: none } = plan(input('openshift'));
    assert.deepEqual([apply, none], [undefined, []], 'OpenShift does not know the level');
    const { events, neededLevel: need } = plan(input('portcullis'));
    assert.deepEqual(need, { level: 'restricted' });
    assert.deepEqual(events, [
      {
        type: 'Warning',
        reason: 'NoUsableSCC',
        message: 'no service account in the namespace may use any SCC, so its level is restricted',
      },
    ]);
  });

  test('a label that another manager owns is overwritten in a namespace that opts in', () => {
    const given = updateLabelsAs('helm', namespaceWith({ [LABEL_SYNC_LABEL]: 'true' }), { [ENFORCE]: 'privileged' });
    assert.deepEqual(plan(inputFor(given)).events, [
      {
        type: 'Warning',
        reason: 'LabelForced',
        message: `label ${ENFORCE}=privileged belongs to "helm" and is changed to restricted because the namespace has label ${LABEL_SYNC_LABEL}=true`,
      },
    ]);
    assert.deepEqual(plan(inputFor(synced(given))).events, []);
  });

  test('a label that another manager owns is kept', () => {
    const given = updateLabelsAs('helm', namespaceWith(), { [ENFORCE]: 'privileged', [WARN]: 'restricted' });
    assert.deepEqual(plan(inputFor(given)).events, [
      {
        type: 'Normal',
        reason: 'LabelKept',
        message: `label ${ENFORCE}=privileged belongs to "helm" and is kept, but the namespace needs restricted`,
      },
    ]);
  });
});

suite('labels that early releases set', () => {
  /** The entry also owns another label. */
  const former = updateLabelsAs(
    PREVIOUS_LABEL_SYNC_MANAGER,
    namespaceWith(),
    Object.fromEntries([
      ...ALL.map((key): [string, string] => [key, key.endsWith('version') ? 'v1.24' : 'baseline']),
      ['other', '1'],
    ]),
  );

  test('are adopted without removing the enforce label', () => {
    const { namespace, writes } = syncUntilDone(inputFor(former));
    assert.deepEqual(state(namespace), labelsFor('restricted'));
    assert.deepEqual(
      writes.map((written) => state(written)[ENFORCE]),
      ['restricted', 'restricted'].slice(0, writes.length),
    );
    for (const key of ALL) {
      assert.deepEqual(labelOwners(getMetadataOwners(namespace.metadata) ?? [], key), [`${LABEL_SYNC_MANAGER}/Apply`]);
    }
    assert.deepEqual(labelOwners(getMetadataOwners(namespace.metadata) ?? [], 'other'), [
      `${PREVIOUS_LABEL_SYNC_MANAGER}/Update`,
    ]);
  });

  test('lose their old owner even if their values are already correct', () => {
    const values = Object.entries(labelsFor('restricted')).filter(([key]) => key !== 'level');
    const right = updateLabelsAs(PREVIOUS_LABEL_SYNC_MANAGER, namespaceWith(), Object.fromEntries(values));
    const { namespace, writes } = syncUntilDone(inputFor(right));
    assert.deepEqual(state(namespace), labelsFor('restricted'));
    assert.equal(writes.length, 2);
    assert.deepEqual(labelOwners(getMetadataOwners(namespace.metadata) ?? [], ENFORCE), [
      `${LABEL_SYNC_MANAGER}/Apply`,
    ]);
  });

  test('are removed in Advise mode', () => {
    const { namespace } = syncUntilDone(inputFor(former, { mode: 'Advise' }));
    const rest = without(labelsFor('restricted'), ENFORCE, ENFORCE_VERSION);
    assert.deepEqual(state(namespace), rest);
  });

  test('are not removed after a concurrent change, because the patch fails', () => {
    const { plans } = syncUntilDone(inputFor(former, { mode: 'Advise' }));
    const patch = plans.find((plan) => plan.patch)?.patch;
    assert.ok(patch);
    const [, version] = patch;
    assert.deepEqual(version, { op: 'replace', path: '/metadata/resourceVersion', value: '3' });
    assert.equal((applyJsonPatch(former, patch) as Namespace).metadata?.labels?.[ENFORCE], 'baseline');
  });
});

suite('planRunLevelZero', () => {
  const MANAGER = 'privileged-namespaces-psa-label-syncer';
  const by = (manager: string, ...labels: readonly string[]) =>
    managedFieldsEntry({ manager, operation: 'Apply', labels });
  type Case = readonly [name: string, labels: Record<string, string>, owners: object[], planned: readonly string[]];
  const cases: readonly Case[] = [
    ['sets all labels on a namespace without labels', { [WARN_VERSION]: 'v1.30' }, [], [ENFORCE, AUDIT, WARN]],
    [
      'keeps a label owned by another manager',
      { [ENFORCE]: 'restricted' },
      [by('kubectl-label', ENFORCE)],
      [AUDIT, WARN],
    ],
    ['keeps a label that has no owner', { [ENFORCE]: 'baseline' }, [], [AUDIT, WARN]],
    ['sets removed labels again', { [ENFORCE]: 'privileged' }, [by(MANAGER, ENFORCE)], [ENFORCE, AUDIT, WARN]],
    [
      'plans nothing if other managers own all labels',
      { [ENFORCE]: 'baseline', [AUDIT]: 'baseline', [WARN]: 'baseline' },
      [by('kubectl', ENFORCE, AUDIT), by('helm', WARN)],
      [],
    ],
    [
      'plans nothing if all labels are privileged',
      { [ENFORCE]: 'privileged', [AUDIT]: 'privileged', [WARN]: 'privileged' },
      [by(MANAGER, ENFORCE, AUDIT, WARN)],
      [],
    ],
    ['plans nothing if the namespace opts out', { [LABEL_SYNC_LABEL]: 'false' }, [], []],
  ];
  for (const [name, labels, managedFields, planned] of cases) {
    test(name, () => {
      const metadata = { name: 'kube-system', resourceVersion: '1', labels, managedFields };
      const document = planRunLevelZero({ metadata });
      const values = Object.fromEntries(planned.map((key) => [key, 'privileged']));
      const expected = { name: 'kube-system', resourceVersion: '1', labels: values };
      assert.deepEqual(document?.metadata, planned.length === 0 ? undefined : expected);
    });
  }

  test('plans nothing for a namespace without run level 0', () => {
    for (const name of ['default', 'kube-node-lease', 'demo']) {
      assert.equal(planRunLevelZero(namespaceWith({}, name)), undefined);
    }
  });
});

suite('a namespace whose level Portcullis enforces itself', () => {
  const own = { 'portcullis.dev/enforce': 'restricted' };
  const advised = without(labelsFor('restricted'), ENFORCE, ENFORCE_VERSION);
  const enforced = synced(namespaceWith());
  const cases: readonly (readonly [name: string, namespace: Namespace, expected: Readonly<Record<string, string>>])[] =
    [
      ['gets no enforce labels', namespaceWith(own), advised],
      ['loses the enforce labels of the syncer', updateLabelsAs('kubectl-label', enforced, own), advised],
      [
        'keeps the enforce label of an administrator',
        updateLabelsAs('kubectl-label', namespaceWith(), { ...own, [ENFORCE]: 'baseline' }),
        { ...advised, [ENFORCE]: 'baseline' },
      ],
      [
        'gets the enforce labels when the Portcullis label is removed',
        updateLabelsAs('kubectl-label', synced(namespaceWith(own)), { 'portcullis.dev/enforce': undefined }),
        labelsFor('restricted'),
      ],
    ];
  for (const [name, namespace, expected] of cases) {
    test(name, () => assert.deepEqual(state(synced(namespace)), expected));
  }
});

suite('raising the default level', () => {
  const nowMs = Date.parse('2026-01-01T00:01:00Z');
  const state = (namespace: Namespace, isManaged = true, serviceAccounts = ['default']) => ({
    namespace: {
      ...namespace,
      metadata: { creationTimestamp: '2026-01-01T00:00:00Z' as never, ...namespace.metadata },
    },
    isManaged,
    serviceAccounts,
  });
  const bare = namespaceWith();

  test('waits for the label of a managed namespace', () => assert.ok(isAwaitingLabel(state(bare), nowMs)));

  const cases: readonly (readonly [name: string, isAwaited: boolean])[] = [
    ['a namespace that is not managed', isAwaitingLabel(state(bare, false), nowMs)],
    ['a namespace without a service account', isAwaitingLabel(state(bare, true, []), nowMs)],
    ['a namespace without a range', isAwaitingLabel(state({ metadata: { ...bare.metadata, annotations: {} } }), nowMs)],
    ['a namespace with an enforce label', isAwaitingLabel(state(namespaceWith({ [ENFORCE]: 'baseline' })), nowMs)],
    [
      'a namespace with the Portcullis label',
      isAwaitingLabel(state(namespaceWith({ 'portcullis.dev/enforce': 'baseline' })), nowMs),
    ],
    ['a terminating namespace', isAwaitingLabel(state({ ...bare, status: { phase: 'Terminating' } }), nowMs)],
    ['a namespace that is younger than the grace period', isAwaitingLabel(state(bare), nowMs - 1)],
  ];
  for (const [name, isAwaited] of cases) test(`does not wait for ${name}`, () => assert.equal(isAwaited, false));
});
