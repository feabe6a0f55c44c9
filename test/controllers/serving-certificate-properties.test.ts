import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CONFIGURATION_KINDS, type ConfigurationKind } from '../../src/api/webhooks.ts';
import { installedConfigurations } from '../../src/controllers/replica.ts';
import type { Kinds } from '../../src/kube/kinds.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { findTrustProblems } from '../../src/tls/trust.ts';
import {
  CONFIGURATIONS,
  createStage,
  DAY_MS,
  NAMES,
  NAMESPACE,
  SECRET,
  SERVICE,
  type Stage,
  type StagedLeader,
  type StagedReplica,
  TEST_MANAGER,
} from '../support/certificates.ts';

/** An event in an installation. */
type Happening =
  | { readonly type: 'time passes'; readonly ms: number; readonly stepMs: number }
  | { readonly type: 'a replica comes'; readonly lagMs: number }
  | { readonly type: 'a replica dies' | 'a replica leaves'; readonly which: number }
  | { readonly type: 'the leader dies'; readonly afterWrites: number; readonly lagMs: number }
  | { readonly type: 'rotation'; readonly word: string }
  | { readonly type: 'Secret deleted' }
  | { readonly type: 'Secret damaged'; readonly file: string; readonly by: string }
  | { readonly type: 'Secret of another installation' }
  | {
      readonly type: 'configuration edited';
      readonly which: number;
      readonly caBundle: 'none' | 'nonsense' | 'foreign';
    }
  | { readonly type: 'configuration created again'; readonly which: number };

const lagMs = fc.constantFrom(0, 0, 2_000, 8_000);
const which = fc.nat({ max: 5 });
const peaceful: fc.Arbitrary<Happening>[] = [
  fc.record({
    type: fc.constant('time passes' as const),
    ms: fc.constantFrom(1_000, 5_000, 20_000, 65_000, 65_000),
    stepMs: fc.constant(5_000),
  }),
  fc.record({
    type: fc.constant('time passes' as const),
    ms: fc.constantFrom(DAY_MS, 3 * DAY_MS, 5 * DAY_MS),
    stepMs: fc.constant(DAY_MS / 2),
  }),
  fc.record({ type: fc.constant('a replica comes' as const), lagMs }),
  fc.record({ type: fc.constantFrom('a replica dies' as const, 'a replica leaves' as const), which }),
  fc.record({ type: fc.constant('the leader dies' as const), afterWrites: fc.nat({ max: 4 }), lagMs }),
  fc.record({ type: fc.constant('rotation' as const), word: fc.constantFrom('ca', 'ca', 'serving') }),
];
const files = fc.constantFrom('ca.crt', 'ca.key', 'next-ca.crt', 'next-ca.key', 'tls.crt', 'tls.key');
const harmful: fc.Arbitrary<Happening>[] = [
  fc.record({ type: fc.constant('Secret deleted' as const) }),
  fc.record({
    type: fc.constant('Secret damaged' as const),
    file: files,
    by: fc.constantFrom('absence', 'nonsense', 'tls.crt', 'tls.key', 'ca.key'),
  }),
  fc.record({ type: fc.constant('Secret of another installation' as const) }),
  fc.record({
    type: fc.constant('configuration edited' as const),
    which,
    caBundle: fc.constantFrom('none' as const, 'nonsense' as const, 'foreign' as const),
  }),
  fc.record({ type: fc.constant('configuration created again' as const), which }),
];

/** Applies events to an installation and inspects its replicas. */
async function play(
  happenings: readonly Happening[],
  look: (stage: Stage, replica: StagedReplica) => void,
): Promise<void> {
  const stage = await createStage();
  const { cluster } = stage;
  let leader: StagedLeader = stage.leader();
  let replicas: StagedReplica[] = [];
  let born = 0;
  const come = (ms: number): void => void replicas.push(stage.replica(`r${born++}`, ms));
  let failure: unknown;
  let isEdited = false;
  // Callbacks must not throw, so the first failure is kept.
  const lookAt = (replica: StagedReplica): void => {
    try {
      look(stage, replica);
    } catch (error) {
      failure ??= error;
    }
  };
  const lookAtAll = (): void => {
    if (!isEdited) replicas.forEach(lookAt);
  };
  const takeOver = async (ms: number): Promise<void> => {
    await leader.die();
    leader = stage.leader(ms);
  };
  stage.onServed(lookAt);
  const unsubscribe = cluster.store.subscribe(({ kind }) => {
    if (CONFIGURATION_KINDS.some((one) => one === kind)) queueMicrotask(lookAtAll);
  });
  /** Edits a configuration. All replicas observe the edit immediately. */
  const edit = async (change: () => Promise<unknown>): Promise<void> => {
    isEdited = true;
    await change();
    for (const replica of replicas) replica.catchUp();
    isEdited = false;
  };
  const play: { [Type in Happening['type']]: (happening: Extract<Happening, { type: Type }>) => Promise<unknown> } = {
    async 'time passes'({ ms, stepMs }) {
      for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
        await stage.pass(Math.min(stepMs, ms - passedMs));
        lookAtAll();
      }
    },
    'a replica comes'({ lagMs: ms }) {
      if (replicas.length < 4) come(ms);
      return Promise.resolve();
    },
    'a replica dies': ({ which: index }) => part(index, 'die'),
    'a replica leaves': ({ which: index }) => part(index, 'leave'),
    async 'the leader dies'({ afterWrites, lagMs: ms }) {
      leader.dieAfter(afterWrites);
      await stage.pass(2_000);
      await takeOver(ms);
    },
    rotation: ({ word }) => (stage.secret() ? stage.askFor(word) : Promise.resolve()),
    'Secret deleted': () => (stage.secret() ? cluster.remove('Secret', SECRET, NAMESPACE) : Promise.resolve()),
    async 'Secret damaged'({ file, by }) {
      const others = Object.fromEntries(Object.entries(stage.texts()).filter(([name]) => name !== file));
      const text = by === 'absence' ? undefined : (others[by] ?? 'nonsense');
      await stage.setTexts(text === undefined ? others : { ...others, [file]: text });
    },
    async 'Secret of another installation'() {
      const validity = { now: stage.date(), days: 7 };
      const authority = createAuthority(validity);
      const serving = createServing(authority, NAMES, validity);
      const texts = {
        'ca.crt': authority.cert,
        'ca.key': authority.key,
        'tls.crt': serving.cert,
        'tls.key': serving.key,
      };
      await stage.setTexts(texts);
    },
    'configuration edited': ({ which: index, caBundle }) => edit(() => setBundle(index, caBundle)),
    'configuration created again': ({ which: index }) => edit(() => makeAnew(index)),
  };
  const part = async (index: number, way: 'die' | 'leave'): Promise<void> => {
    const replica = replicas[index % Math.max(1, replicas.length)];
    if (!replica || replicas.length === 1) return;
    replicas = replicas.filter((one) => one !== replica);
    await replica[way]();
  };
  const chosen = (index: number) => CONFIGURATIONS[index % CONFIGURATIONS.length] ?? CONFIGURATIONS[0];
  const setBundle = async (index: number, what: 'none' | 'nonsense' | 'foreign'): Promise<void> => {
    const [kind, { metadata }] = chosen(index);
    const known = cluster.store.get<ConfigurationKind>(kind, metadata?.name ?? '');
    const foreign = createAuthority({ now: stage.date(), days: 30 }).cert;
    const caBundle = { none: undefined, nonsense: btoa('nonsense'), foreign: btoa(foreign) }[what];
    const webhooks = known?.webhooks?.map(({ clientConfig: { service }, ...webhook }) => ({
      ...webhook,
      clientConfig: { ...(service ? { service } : {}), ...(caBundle === undefined ? {} : { caBundle }) },
    }));
    await cluster.update(kind, { ...known, webhooks } as Kinds[typeof kind], TEST_MANAGER).catch(() => undefined);
  };
  const makeAnew = async (index: number): Promise<void> => {
    const [kind, object] = chosen(index);
    await cluster.remove(kind, object.metadata?.name ?? '');
    await cluster.create(kind, object, TEST_MANAGER);
  };

  come(0);
  await stage.pass(60_000, 5_000);
  for (const happening of happenings) {
    await play[happening.type](happening as never);
    lookAtAll();
    if (failure !== undefined) throw failure as Error;
  }
  // After the last event, the installation recovers within five minutes.
  await takeOver(0);
  for (let passedMs = 0; passedMs < 300_000; passedMs += 10_000) {
    await stage.pass(10_000);
    lookAtAll();
  }
  if (failure !== undefined) throw failure as Error;
  const { 'ca.crt': authority = '', 'tls.crt': serving = '', ...others } = stage.texts();
  assert.deepEqual(Object.keys(others).sort(), ['ca.key', 'tls.key']);
  for (const replica of replicas) {
    assert.ok(replica.isReady(), `${replica.name} is not ready`);
    assert.equal(replica.current().cert, serving);
  }
  for (const { webhooks = [] } of installedConfigurations(cluster.store)) {
    for (const { clientConfig } of webhooks) assert.equal(atob(clientConfig.caBundle ?? ''), authority);
  }
  unsubscribe();
  await stage.stop();
}

test(
  'a ready replica serves a certificate that API servers trust after any sequence of events',
  { timeout: 120_000 },
  async () => {
    const happening = fc.oneof(...peaceful, ...harmful);
    let ready = 0;
    const isTrusted = (stage: Stage, replica: StagedReplica): void => {
      if (!replica.isReady()) return;
      ready++;
      const configurations = installedConfigurations(stage.cluster.store);
      const problems = findTrustProblems({
        pair: replica.current(),
        configurations,
        service: SERVICE,
        now: stage.date(),
      });
      assert.deepEqual(problems, [], replica.name);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 15 }), (happenings) => play(happenings, isTrusted)),
      { numRuns: 8, endOnFailure: true },
    );
    assert.ok(ready > 100, `only ${ready} checks found a ready replica`);
  },
);

test('no replica becomes unready in a sequence of events that damages no object', { timeout: 120_000 }, async () => {
  const happening = fc.oneof(...peaceful);
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 15 }), async (happenings) => {
      const known = new Set<string>();
      await play(happenings, (_stage, replica) => {
        if (replica.isReady()) known.add(replica.name);
        else assert.ok(!known.has(replica.name), `${replica.name} is no longer ready`);
      });
    }),
    { numRuns: 8, endOnFailure: true },
  );
});
