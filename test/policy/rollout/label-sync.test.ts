import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { applyJsonPatch } from '../../../src/dev-cluster/json-patch.ts';
import {
  FORMER_LABEL_SYNC_MANAGER,
  LABEL_SYNC_LABEL,
  LABEL_SYNC_MANAGER,
  SUFFICIENT_LEVEL_ANNOTATION,
} from '../../../src/kube/well-known.ts';
import { getMetadataOwners } from '../../../src/kube/managed-fields.ts';
import type { Namespace } from '../../../src/kube/types.ts';
import type { SyncerMode } from '../../../src/policy/rollout/enforcement.ts';
import {
  createSccLevels,
  isAwaitingLabel,
  getNeededLevel,
  planLabels,
  planRunLevelZero,
  type LabelSyncInput,
} from '../../../src/policy/rollout/label-sync.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { applyAs, entryOf, ownersOf, patchAs, relabelAs, syncUntilDone } from '../../support/namespace-writes.ts';
import { canUseBy, laxScc, type Grant } from '../../support/scc.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const ENFORCE_VERSION = 'pod-security.kubernetes.io/enforce-version';
const AUDIT = 'pod-security.kubernetes.io/audit';
const AUDIT_VERSION = 'pod-security.kubernetes.io/audit-version';
const WARN = 'pod-security.kubernetes.io/warn';
const WARN_VERSION = 'pod-security.kubernetes.io/warn-version';
const ALL = [ENFORCE, ENFORCE_VERSION, AUDIT, AUDIT_VERSION, WARN, WARN_VERSION];

const EVERYBODY: Grant = { group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] };
const SCC_LEVELS = createSccLevels(
  STANDARD_SCCS.map(({ scc }) => scc),
  { profile: 'accurate' },
);

interface Given {
  readonly grants?: readonly Grant[];
  readonly mode?: SyncerMode;
  readonly serviceAccounts?: readonly string[];
}

function namespaceWith(labels: Readonly<Record<string, string>> = {}, name = 'demo'): Namespace {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      resourceVersion: '1',
      annotations: { 'openshift.io/sa.scc.uid-range': '1000660000/10000' },
      managedFields: [entryOf({ manager: 'kubectl-create', operation: 'Update', labels: ['team'] })],
      labels: { team: 'a', ...labels },
    },
  };
}

function inputFor(
  namespace: Namespace,
  { grants = [], mode = 'Enforce', serviceAccounts }: Given = {},
): LabelSyncInput {
  return {
    namespace,
    serviceAccounts: serviceAccounts ?? ['builder', 'default', 'deployer'],
    sccLevels: SCC_LEVELS,
    canUse: canUseBy([EVERYBODY, ...grants]),
    mode,
    settings: { exemptNamespaces: new Set(['kube-system']), scc: { mode: 'enforce', exemptNamespaces: [] } },
  };
}

function synced(namespace: Namespace, given: Given = {}): Namespace {
  return syncUntilDone(inputFor(namespace, given)).namespace;
}

/** The six labels and the annotation; those that are absent are left out. */
function told({ metadata }: Namespace): Readonly<Record<string, string>> {
  const { labels = {}, annotations = {} } = metadata ?? {};
  const level = annotations[SUFFICIENT_LEVEL_ANNOTATION];
  return {
    ...Object.fromEntries(ALL.filter((key) => labels[key] !== undefined).map((key) => [key, labels[key] ?? ''])),
    ...(level === undefined ? {} : { level }),
  };
}

function levelled(level: string): Readonly<Record<string, string>> {
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

suite('the labels of a managed namespace', () => {
  test('say the strictest level that all service accounts can do with', () => {
    assert.deepEqual(told(synced(namespaceWith())), levelled('restricted'));
    assert.deepEqual(told(synced(namespaceWith(), { grants: [ANYUID] })), levelled('baseline'));
    assert.deepEqual(told(synced(namespaceWith(), { grants: [ANYUID, PRIVILEGED] })), levelled('privileged'));
  });

  test('follow the grants both ways, and nothing is written that is right', () => {
    const privileged = synced(namespaceWith(), { grants: [PRIVILEGED] });
    const { namespace, writes } = syncUntilDone(inputFor(privileged));
    assert.deepEqual(told(namespace), levelled('restricted'));
    assert.equal(writes.length, 1);
    assert.equal(planLabels(inputFor(namespace)).apply, undefined);
  });

  test('are applied as a whole, to the object that was read and to no other', () => {
    const { metadata, ...rest } = namespaceWith();
    const { apply: document } = planLabels(inputFor({ ...rest, metadata: { ...metadata, uid: 'u1' } }));
    const { level, ...labels } = levelled('restricted');
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

  test('a grant in another namespace, or to somebody else, is nothing', () => {
    const grants = [
      { ...PRIVILEGED, namespace: 'elsewhere' },
      { user: 'alice', sccs: ['privileged'] },
    ];
    assert.deepEqual(told(synced(namespaceWith(), { grants })), levelled('restricted'));
  });

  test('groups of all service accounts count, also by the lists of the SCC itself', () => {
    for (const group of ['system:authenticated', 'system:serviceaccounts', 'system:serviceaccounts:demo']) {
      assert.equal(
        getNeededLevel(inputFor(namespaceWith(), { grants: [{ group, sccs: ['anyuid'] }] }))?.level,
        'baseline',
      );
      const sccLevels = createSccLevels([laxScc({ name: 'own', groups: [group] })], { profile: 'accurate' });
      assert.equal(
        getNeededLevel({ ...inputFor(namespaceWith()), sccLevels, canUse: () => false })?.level,
        'privileged',
      );
    }
  });

  test('name the account and the SCC for which they are not stricter', () => {
    assert.deepEqual(getNeededLevel(inputFor(namespaceWith(), { grants: [PRIVILEGED] })), {
      level: 'privileged',
      cause: { serviceAccount: 'deployer', scc: 'privileged' },
    });
  });
});

suite('what belongs to others', () => {
  const cases: readonly {
    readonly name: string;
    readonly given: Namespace;
    readonly expected: Readonly<Record<string, string>>;
  }[] = [
    {
      name: 'only the level: it stays, and all else is added',
      given: relabelAs('kubectl-label', namespaceWith(), { [ENFORCE]: 'privileged' }),
      expected: { ...levelled('restricted'), [ENFORCE]: 'privileged' },
    },
    {
      name: 'five of six: the sixth and the annotation are added',
      given: relabelAs('kubectl-label', namespaceWith(), {
        ...{ [ENFORCE]: 'privileged', [ENFORCE_VERSION]: 'v1.30', [AUDIT]: 'baseline' },
        ...{ [AUDIT_VERSION]: 'v1.30', [WARN]: 'baseline' },
      }),
      expected: {
        ...{ [ENFORCE]: 'privileged', [ENFORCE_VERSION]: 'v1.30', [AUDIT]: 'baseline', [AUDIT_VERSION]: 'v1.30' },
        ...{ [WARN]: 'baseline', [WARN_VERSION]: 'latest', level: 'restricted' },
      },
    },
    {
      name: 'all six: nothing is written',
      given: relabelAs('gitops', namespaceWith(), Object.fromEntries(ALL.map((key) => [key, 'latest']))),
      expected: Object.fromEntries(ALL.map((key) => [key, 'latest'])),
    },
    {
      name: 'all six, and it is asked for: everything is taken over',
      given: relabelAs('gitops', namespaceWith({ [LABEL_SYNC_LABEL]: 'true' }), {
        ...Object.fromEntries(ALL.map((key) => [key, 'latest'])),
      }),
      expected: levelled('restricted'),
    },
    {
      name: 'the namespace opts out: nothing is written',
      given: namespaceWith({ [LABEL_SYNC_LABEL]: 'false' }),
      expected: {},
    },
    {
      name: 'a value that is neither says nothing',
      given: namespaceWith({ [LABEL_SYNC_LABEL]: 'True' }),
      expected: levelled('restricted'),
    },
    { name: 'a namespace of the platform', given: namespaceWith({}, 'openshift-operators'), expected: {} },
    {
      name: 'one that only sounds like it',
      given: namespaceWith({}, 'openshiftfoo'),
      expected: levelled('restricted'),
    },
    {
      name: 'an exempt one, whatever it asks for',
      given: namespaceWith({ [LABEL_SYNC_LABEL]: 'true' }, 'kube-system'),
      expected: {},
    },
    {
      name: 'SCCs are switched off there',
      given: namespaceWith({ 'security.openshift.io/disable-securitycontextconstraints': 'true' }),
      expected: {},
    },
    {
      name: 'SCCs are switched off there, and it is asked for',
      given: namespaceWith({ 'openshift.io/run-level': '1', [LABEL_SYNC_LABEL]: 'true' }),
      expected: levelled('restricted'),
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(told(synced(given)), expected));
  }

  test('a label that somebody shares with the syncer stays when the level changes', () => {
    const shared = applyAs('gitops', synced(namespaceWith()), {
      metadata: { name: 'demo', labels: { [WARN]: 'restricted' } },
    });
    const after = synced(shared, { grants: [ANYUID] });
    assert.deepEqual(told(after), { ...levelled('baseline'), [WARN]: 'restricted' });
    assert.deepEqual(ownersOf(getMetadataOwners(after.metadata) ?? [], WARN), ['gitops/Apply']);
  });

  test('labels without any owner, as after a restore, stay if they are valid and differ', () => {
    const restored = namespaceWith({ [ENFORCE]: 'baseline', [WARN]: 'bogus', [AUDIT]: 'restricted' });
    const stripped = { ...restored, metadata: { ...restored.metadata, managedFields: [] } };
    const { namespace, plans } = syncUntilDone(inputFor(stripped));
    assert.deepEqual(told(namespace), { ...levelled('restricted'), [ENFORCE]: 'baseline' });
    assert.deepEqual(plans.at(-1)?.events, [
      {
        type: 'Normal',
        reason: 'LabelKept',
        message: `label ${ENFORCE}=baseline has no recorded owner and is kept; the namespace needs restricted`,
      },
    ]);
    assert.deepEqual(told(synced(namespace, { grants: [ANYUID] })), levelled('baseline'));
  });

  test('an annotation that somebody changed is put right, and no label is lost', () => {
    const before = synced(namespaceWith());
    const edited = patchAs('kubectl-edit', before, [
      { op: 'replace', path: `/metadata/annotations/${SUFFICIENT_LEVEL_ANNOTATION.replace('/', '~1')}`, value: 'x' },
    ]);
    const { namespace, writes } = syncUntilDone(inputFor(edited));
    assert.deepEqual(told(namespace), levelled('restricted'));
    assert.equal(writes.length, 1);
  });

  test('a label of ours that somebody deleted comes back', () => {
    const deleted = relabelAs('kubectl-label', synced(namespaceWith()), { [WARN]: undefined });
    assert.deepEqual(told(synced(deleted)), levelled('restricted'));
  });

  test('a version of ours from an early release is brought up to date', () => {
    const { apply: document } = planLabels(inputFor(namespaceWith()));
    assert.ok(document);
    const labels = { ...document.metadata?.labels, [WARN_VERSION]: 'v1.24' };
    const early = applyAs(LABEL_SYNC_MANAGER, namespaceWith(), {
      ...document,
      metadata: { ...document.metadata, labels, resourceVersion: '1' },
    });
    assert.deepEqual(told(synced(early)), levelled('restricted'));
  });
});

suite('modes', () => {
  const enforced = synced(namespaceWith(), { grants: [ANYUID] });

  test('advice enforces nothing', () => {
    const rest = without(levelled('restricted'), ENFORCE, ENFORCE_VERSION);
    assert.deepEqual(told(synced(namespaceWith(), { mode: 'Advise' })), rest);
  });

  test('labels that enforce are given up although nothing else differs', () => {
    const rest = without(levelled('baseline'), ENFORCE, ENFORCE_VERSION);
    const { namespace, writes } = syncUntilDone(inputFor(enforced, { grants: [ANYUID], mode: 'Advise' }));
    assert.deepEqual(told(namespace), rest);
    assert.equal(writes.length, 1);
  });

  test('to hold is to leave them exactly as they are', () => {
    const held = synced(enforced, { mode: 'Hold' });
    assert.deepEqual(told(held), { ...levelled('restricted'), [ENFORCE]: 'baseline' });
    const rest = without(levelled('restricted'), ENFORCE, ENFORCE_VERSION);
    assert.deepEqual(told(synced(namespaceWith(), { mode: 'Hold' })), rest);
  });

  test('a label that enforces and is shared with its user stays when it is given up', () => {
    const shared = applyAs('gitops', enforced, { metadata: { name: 'demo', labels: { [ENFORCE]: 'baseline' } } });
    assert.equal(told(synced(shared, { mode: 'Advise' }))[ENFORCE], 'baseline');
  });

  for (const mode of ['Enforce', 'Hold'] as const) {
    test(`who opts out keeps the labels and loses the annotation: ${mode}`, () => {
      const out = relabelAs('kubectl-label', enforced, { [LABEL_SYNC_LABEL]: 'false' });
      const rest = without(levelled('baseline'), 'level');
      const { namespace, writes } = syncUntilDone(inputFor(out, { mode }));
      assert.deepEqual(told(namespace), rest);
      assert.equal(writes.length, 1);
    });
  }

  test('who opts out is not held to anything of ours where nothing is enforced', () => {
    const out = relabelAs('kubectl-label', enforced, { [LABEL_SYNC_LABEL]: 'false' });
    assert.deepEqual(told(synced(out, { mode: 'Advise' })), {
      ...{ [AUDIT]: 'baseline', [AUDIT_VERSION]: 'latest', [WARN]: 'baseline', [WARN_VERSION]: 'latest' },
    });
  });

  test('a namespace that has lost its range keeps everything, but for what enforces where nothing does', () => {
    const { annotations, ...metadata } = enforced.metadata ?? {};
    const kept = { [SUFFICIENT_LEVEL_ANNOTATION]: annotations?.[SUFFICIENT_LEVEL_ANNOTATION] ?? '' };
    const lost = { ...enforced, metadata: { ...metadata, annotations: kept } };
    assert.equal(planLabels(inputFor(lost)).apply, undefined);
    assert.equal(told(synced(lost, { mode: 'Advise' }))[ENFORCE], undefined);
  });
});

suite('namespaces of which nothing is known yet', () => {
  const { metadata } = namespaceWith();
  const cases: readonly { readonly name: string; readonly namespace: Namespace; readonly given?: Given }[] = [
    { name: 'no range', namespace: { metadata: { ...metadata, annotations: {} } } },
    { name: 'no service account', namespace: namespaceWith(), given: { serviceAccounts: [] } },
    { name: 'on its way out', namespace: { ...namespaceWith(), status: { phase: 'Terminating' } } },
    {
      name: 'owners that cannot be read',
      namespace: { metadata: { ...metadata, managedFields: [{ manager: 'odd', fieldsV1: { 'f:metadata': 1 } }] } },
    },
  ];
  for (const { name, namespace, given } of cases) {
    test(name, () => {
      const { apply: document, patch, events } = planLabels(inputFor(namespace, given));
      assert.deepEqual([document, patch, events], [undefined, undefined, []]);
    });
  }

  test('a range that cannot be read counts as one with root', () => {
    const annotations = { 'openshift.io/sa.scc.uid-range': 'odd' };
    assert.deepEqual(told(synced({ metadata: { ...metadata, annotations } })), levelled('baseline'));
  });
});

suite('events', () => {
  test('no account may use any SCC', () => {
    const { events, need } = planLabels({ ...inputFor(namespaceWith()), canUse: () => false });
    assert.deepEqual(need, { level: 'restricted' });
    assert.deepEqual(events, [
      {
        type: 'Warning',
        reason: 'NoUsableSCC',
        message: 'no service account of the namespace may use any SCC: its level is restricted',
      },
    ]);
  });

  test('the level drops to privileged', () => {
    const given = { grants: [PRIVILEGED] };
    assert.deepEqual(planLabels(inputFor(namespaceWith(), given)).events, []);
    assert.deepEqual(planLabels(inputFor(synced(namespaceWith()), given)).events, [
      {
        type: 'Warning',
        reason: 'LevelPrivileged',
        message: 'the level changes to privileged, because service account "deployer" may use SCC "privileged"',
      },
    ]);
  });

  test('a label of somebody is overwritten, since it was asked for', () => {
    const given = relabelAs('helm', namespaceWith({ [LABEL_SYNC_LABEL]: 'true' }), { [ENFORCE]: 'privileged' });
    assert.deepEqual(planLabels(inputFor(given)).events, [
      {
        type: 'Warning',
        reason: 'LabelForced',
        message: `label ${ENFORCE}=privileged belongs to "helm" and is changed to restricted, because the namespace has label ${LABEL_SYNC_LABEL}=true`,
      },
    ]);
    assert.deepEqual(planLabels(inputFor(synced(given))).events, []);
  });

  test('a label of somebody stays', () => {
    const given = relabelAs('helm', namespaceWith(), { [ENFORCE]: 'privileged', [WARN]: 'restricted' });
    assert.deepEqual(planLabels(inputFor(given)).events, [
      {
        type: 'Normal',
        reason: 'LabelKept',
        message: `label ${ENFORCE}=privileged belongs to "helm" and is kept; the namespace needs restricted`,
      },
    ]);
  });
});

suite('what early releases wrote', () => {
  /** With an entry that owns something else as well. */
  const former = relabelAs(
    FORMER_LABEL_SYNC_MANAGER,
    namespaceWith(),
    Object.fromEntries([
      ...ALL.map((key): [string, string] => [key, key.endsWith('version') ? 'v1.24' : 'baseline']),
      ['other', '1'],
    ]),
  );

  test('is taken over without a moment in which nothing is enforced', () => {
    const { namespace, writes } = syncUntilDone(inputFor(former));
    assert.deepEqual(told(namespace), levelled('restricted'));
    assert.deepEqual(
      writes.map((written) => told(written)[ENFORCE]),
      ['restricted', 'restricted'].slice(0, writes.length),
    );
    for (const key of ALL) {
      assert.deepEqual(ownersOf(getMetadataOwners(namespace.metadata) ?? [], key), [`${LABEL_SYNC_MANAGER}/Apply`]);
    }
    assert.deepEqual(ownersOf(getMetadataOwners(namespace.metadata) ?? [], 'other'), [
      `${FORMER_LABEL_SYNC_MANAGER}/Update`,
    ]);
  });

  test('is struck from the records where it has the right values already', () => {
    const values = Object.entries(levelled('restricted')).filter(([key]) => key !== 'level');
    const right = relabelAs(FORMER_LABEL_SYNC_MANAGER, namespaceWith(), Object.fromEntries(values));
    const { namespace, writes } = syncUntilDone(inputFor(right));
    assert.deepEqual(told(namespace), levelled('restricted'));
    assert.equal(writes.length, 2);
    assert.deepEqual(ownersOf(getMetadataOwners(namespace.metadata) ?? [], ENFORCE), [`${LABEL_SYNC_MANAGER}/Apply`]);
  });

  test('is given up where nothing is enforced', () => {
    const { namespace } = syncUntilDone(inputFor(former, { mode: 'Advise' }));
    const rest = without(levelled('restricted'), ENFORCE, ENFORCE_VERSION);
    assert.deepEqual(told(namespace), rest);
  });

  test('the patch fails if anybody was faster', () => {
    const { plans } = syncUntilDone(inputFor(former, { mode: 'Advise' }));
    const patch = plans.find((plan) => plan.patch)?.patch;
    assert.ok(patch);
    const [, version] = patch;
    assert.deepEqual(version, { op: 'replace', path: '/metadata/resourceVersion', value: '3' });
    assert.equal((applyJsonPatch(former, patch) as Namespace).metadata?.labels?.[ENFORCE], 'baseline');
  });
});

suite('run level zero', () => {
  for (const name of ['default', 'kube-system', 'kube-public']) {
    test(name, () => {
      const document = planRunLevelZero(namespaceWith({ [WARN]: 'privileged', [WARN_VERSION]: 'v1.30' }, name));
      assert.deepEqual(document?.metadata, {
        name,
        resourceVersion: '1',
        labels: { [ENFORCE]: 'privileged', [AUDIT]: 'privileged', [WARN]: 'privileged' },
      });
      assert.equal(planRunLevelZero({ metadata: { name, labels: document?.metadata?.labels ?? {} } }), undefined);
    });
  }

  test('no other namespace', () => {
    for (const name of ['kube-node-lease', 'demo']) assert.equal(planRunLevelZero(namespaceWith({}, name)), undefined);
  });
});

suite('what the default waits for', () => {
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

  test('a managed namespace without a label', () => assert.ok(isAwaitingLabel(state(bare), nowMs)));

  const cases: readonly (readonly [name: string, isAwaited: boolean])[] = [
    ['not managed', isAwaitingLabel(state(bare, false), nowMs)],
    ['no service account', isAwaitingLabel(state(bare, true, []), nowMs)],
    ['no range', isAwaitingLabel(state({ metadata: { ...bare.metadata, annotations: {} } }), nowMs)],
    ['a label of anybody', isAwaitingLabel(state(namespaceWith({ [ENFORCE]: 'baseline' })), nowMs)],
    ['on its way out', isAwaitingLabel(state({ ...bare, status: { phase: 'Terminating' } }), nowMs)],
    ['too young', isAwaitingLabel(state(bare), nowMs - 1)],
  ];
  for (const [name, isAwaited] of cases) test(name, () => assert.equal(isAwaited, false));
});
