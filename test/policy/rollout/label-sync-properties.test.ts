/** What must hold for labels, whatever people and tools do to a namespace, in whatever order. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { FORMER_LABEL_SYNC_MANAGER, LABEL_SYNC_LABEL, LABEL_SYNC_MANAGER } from '../../../src/kube/well-known.ts';
import { getMetadataOwners } from '../../../src/kube/managed-fields.ts';
import type { Namespace } from '../../../src/kube/types.ts';
import type { SyncerMode } from '../../../src/policy/rollout/enforcement.ts';
import { createSccLevels, planLabels, type LabelSyncInput } from '../../../src/policy/rollout/label-sync.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { applyAs, ownersOf, relabelAs, syncUntilDone } from '../../support/namespace-writes.ts';

const PREFIX = 'pod-security.kubernetes.io/';
const MODES = ['enforce', 'audit', 'warn'];
const KEYS = MODES.flatMap((mode) => [`${PREFIX}${mode}`, `${PREFIX}${mode}-version`]);
const ENFORCE = `${PREFIX}enforce`;
const SCC_LEVELS = createSccLevels(
  STANDARD_SCCS.map(({ scc }) => scc),
  { profile: 'accurate' },
);
const SCC_OF = { restricted: 'restricted-v2', baseline: 'anyuid', privileged: 'privileged' } as const;

interface World {
  readonly namespace: Namespace;
  readonly mode: SyncerMode;
  readonly level: keyof typeof SCC_OF;
}

type Step = (world: World) => World;

const one = fc.constantFrom;
const value = one('privileged', 'baseline', 'restricted', 'latest', 'v1.24', 'odd');
const labels = fc.dictionary(one(...KEYS), value, { maxKeys: 6, noNullPrototype: true });

/** What may happen between two looks of the syncer. */
const step: fc.Arbitrary<Step> = fc.oneof(
  one('kubectl', 'gitops', FORMER_LABEL_SYNC_MANAGER).chain((manager) =>
    labels.map((given): Step => (world) => ({ ...world, namespace: relabelAs(manager, world.namespace, given) })),
  ),
  labels.map((given): Step => {
    const config = { metadata: { name: 'demo', labels: given } };
    return (world) => ({ ...world, namespace: applyAs('gitops', world.namespace, config) });
  }),
  one(...KEYS).map((key): Step => (world) => ({
    ...world,
    namespace: relabelAs('kubectl', world.namespace, { [key]: undefined }),
  })),
  one('true', 'false', undefined).map((asked): Step => (world) => ({
    ...world,
    namespace: relabelAs('kubectl', world.namespace, { [LABEL_SYNC_LABEL]: asked }),
  })),
  fc.constant<Step>((world) => ({
    ...world,
    namespace: { ...world.namespace, metadata: { ...world.namespace.metadata, managedFields: [] } },
  })),
  one<SyncerMode>('Enforce', 'Hold', 'Advise').map((mode): Step => (world) => ({ ...world, mode })),
  one('privileged', 'baseline', 'restricted').map((level): Step => (world) => ({ ...world, level })),
);

const START: World = {
  namespace: {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: 'demo',
      resourceVersion: '1',
      annotations: { 'openshift.io/sa.scc.uid-range': '1000660000/10000' },
    },
  },
  mode: 'Enforce',
  level: 'restricted',
};

function inputFor({ namespace, mode, level }: World): LabelSyncInput {
  return {
    namespace,
    serviceAccounts: ['default'],
    sccLevels: SCC_LEVELS,
    canUse: (_subject, name) => name === SCC_OF[level],
    mode,
    settings: { exemptNamespaces: new Set(), scc: { mode: 'enforce', exemptNamespaces: [] } },
  };
}

/** Those who own a label, but for the syncer; nobody's name does not count. */
function othersOf(namespace: Namespace, key: string): readonly string[] {
  const owners = ownersOf(getMetadataOwners(namespace.metadata) ?? [], key);
  return owners.filter((owner) => !owner.startsWith(LABEL_SYNC_MANAGER) && !owner.startsWith('before-first-apply'));
}

function valueOf({ metadata }: Namespace, key: string): string | undefined {
  return metadata?.labels?.[key];
}

function isAsked({ metadata }: Namespace): boolean {
  return metadata?.labels?.[LABEL_SYNC_LABEL] === 'true';
}

/** Tries every sequence of steps, with the syncer at work after each. */
function always(verify: (before: World, after: ReturnType<typeof syncUntilDone>) => void): void {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (steps) => {
      let world = START;
      for (const change of steps) {
        world = change(world);
        const after = syncUntilDone(inputFor(world));
        verify(world, after);
        world = { ...world, namespace: after.namespace };
      }
    }),
    { numRuns: 60 },
  );
}

suite('labels', () => {
  test('come to rest, soon', () => {
    always((_before, { writes }) => assert.ok(writes.length <= 3, `${writes.length} writes`));
  });

  test('of others are never touched, unless that is asked for', () => {
    always(({ namespace: before }, { namespace: after }) => {
      if (isAsked(before)) return;
      for (const key of KEYS) {
        const others = othersOf(before, key).filter((owner) => !owner.startsWith(FORMER_LABEL_SYNC_MANAGER));
        if (others.length > 0) assert.equal(valueOf(after, key), valueOf(before, key), key);
      }
    });
  });

  test('without a recorded owner are never deleted', () => {
    always(({ namespace: before }, { namespace: after }) => {
      const owners = getMetadataOwners(before.metadata) ?? [];
      for (const key of KEYS) {
        const isUnowned = valueOf(before, key) !== undefined && ownersOf(owners, key).length === 0;
        if (isUnowned) assert.notEqual(valueOf(after, key), undefined, key);
      }
    });
  });

  test('that enforce are not owned by the syncer once it only advises', () => {
    always(({ mode }, { namespace }) => {
      const owners = ownersOf(getMetadataOwners(namespace.metadata) ?? [], ENFORCE);
      if (mode === 'Advise') assert.ok(!owners.includes(`${LABEL_SYNC_MANAGER}/Apply`));
    });
  });

  test('that enforce are there after every write in between, if they were before', () => {
    always(({ mode, namespace: before }, { writes }) => {
      if (mode === 'Advise' || valueOf(before, ENFORCE) === undefined) return;
      for (const written of writes) assert.notEqual(valueOf(written, ENFORCE), undefined);
    });
  });

  test('of a managed namespace are right, each that nobody else has', () => {
    always((world, { namespace }) => {
      const { isManaged, need } = planLabels(inputFor({ ...world, namespace }));
      if (!isManaged || need === undefined) return;
      assert.equal(need.level, world.level);
      const enforced = world.mode === 'Enforce' ? MODES : ['audit', 'warn'];
      for (const mode of enforced) {
        const key = PREFIX + mode;
        const isOurs = ownersOf(getMetadataOwners(namespace.metadata) ?? [], key).includes(
          `${LABEL_SYNC_MANAGER}/Apply`,
        );
        assert.ok(isOurs ? valueOf(namespace, key) === world.level : valueOf(namespace, key) !== undefined, key);
      }
    });
  });
});
