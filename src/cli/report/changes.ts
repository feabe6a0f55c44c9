import type { Change } from '../../policy/scc/advice/suggestion.ts';

const OWNERS = /^(?:.*\.)?securityContext\./;

/**
 * Changes of a pod, those of one security context in one line:
 * `spec.securityContext: fsGroup=1 seccompProfile.type="RuntimeDefault"`.
 */
export function printChanges(changes: readonly Change[]): readonly string[] {
  const byOwner = Map.groupBy(changes, ({ path }) => OWNERS.exec(path)?.[0] ?? '');
  return [...byOwner].flatMap(([owner, ofOwner]) =>
    owner === ''
      ? ofOwner.map((change) => printChange(change))
      : [`${owner.slice(0, -1)}: ${ofOwner.map((change) => printChange(change, owner.length)).join(' ')}`],
  );
}

function printChange({ path, before, after }: Change, from = 0): string {
  const name = path.slice(from);
  if (after === undefined) return `${name} removed (was ${JSON.stringify(before)})`;
  return `${name}=${JSON.stringify(after)}${before === undefined ? '' : ` (was ${JSON.stringify(before)})`}`;
}
