/**
 * Records the levels and versions of namespaces before break-glass in an annotation on a webhook configuration. Clients
 * that may change namespaces can change labels with the same levels, but not this record.
 */
import type { Target } from '../../install/break-glass-state.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { sortedSet } from '../../kube/text.ts';
import type { KubeObject, Namespace, ObjectMeta } from '../../kube/types.ts';
import { FORMER_LEVELS_ANNOTATION, INSTALLATION } from '../../kube/well-known.ts';
import { isStricter, printPolicy } from '../../policy/psa/index.ts';
import { compareVersions, isLevel, parseVersion } from '../../policy/pss/index.ts';
import { labeledPolicy, type ObjectWrite } from '../../policy/rollout/index.ts';
import { type BreakGlassRun, changeObject, type FormerLevels, type LevelRecord } from './break-glass-labels.ts';

const KIND = 'ValidatingWebhookConfiguration';

/** Opens the record in the last webhook configuration that `off` activates. If there is none, nothing is recorded. */
export function openRecord(run: BreakGlassRun, targets: readonly Target[]): LevelRecord {
  const target = targets.find(({ kind }) => kind === KIND);
  const write = async (change: (before: FormerLevels) => FormerLevels): Promise<string | undefined> => {
    if (!target || run.dryRun !== 'none') return undefined;
    const plan = ({ metadata }: KubeObject): ObjectWrite | undefined => {
      const text = formatLevels(change(readLevels(metadata)));
      if (text === (metadata?.annotations?.[FORMER_LEVELS_ANNOTATION] ?? null)) return undefined;
      const annotations = { [FORMER_LEVELS_ANNOTATION]: text };
      const document = { metadata: { resourceVersion: metadata?.resourceVersion, annotations } };
      return { type: 'merge-patch', fieldManager: INSTALLATION.name, document };
    };
    // Reads the object again, because the command has changed it. Replicas have permission only to list objects.
    const [current] = await run.client.list(RESOURCES[KIND], { name: target.name });
    return current && (await changeObject(run, RESOURCES[KIND], current, { plan })).error;
  };
  return {
    levels: readLevels(target?.metadata),
    add: (namespaces) => write((before) => addLevels(before, namespaces)),
    remove: () => write(() => new Map()),
  };
}

/** A recorded level is only replaced by a stricter one, and a recorded version by a newer one. */
function addLevels(before: FormerLevels, namespaces: readonly Namespace[]): FormerLevels {
  const levels = new Map(before);
  for (const namespace of namespaces) {
    const name = objectName(namespace);
    const { level, version } = labeledPolicy(namespace);
    const recorded = levels.get(name) ?? { level, version };
    levels.set(name, {
      level: isStricter(level, recorded.level) ? level : recorded.level,
      version: compareVersions(version, recorded.version) > 0 ? version : recorded.version,
    });
  }
  return levels;
}

function readLevels(metadata: ObjectMeta | undefined): FormerLevels {
  const groups = metadata?.annotations?.[FORMER_LEVELS_ANNOTATION]?.split(';') ?? [];
  return new Map(
    groups.flatMap((group) => {
      const [policy = '', names = ''] = group.split('=');
      const [level, text = ''] = policy.split(':');
      const version = parseVersion(text) ?? 'latest';
      return isLevel(level) ? names.split(',').map((name) => [name, { level, version }] as const) : [];
    }),
  );
}

function formatLevels(levels: FormerLevels): string | null {
  const groups = Map.groupBy(levels, ([, policy]) => printPolicy(policy));
  const texts = Array.from(groups, ([policy, all]) => `${policy}=${sortedSet(all.map(([name]) => name)).join()}`);
  return texts.length === 0 ? null : texts.sort().join(';');
}
