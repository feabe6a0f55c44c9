/** The command that fixes the pod template of a workload in the cluster. */
import type { Store } from '../../cluster/store.ts';
import { fixPod, podSecurityViolations } from '../../config/fix.ts';
import { manifestObjects } from '../../config/objects.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import { diff } from '../../kube/json-patch.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { shellQuote } from '../../kube/text.ts';
import { isObject, withValueAt } from '../../kube/types.ts';
import type { ViolatingWorkload } from '../../policy/rollout/index.ts';
import type { ReportPatch } from '../../web/report-data.ts';
import { referenceName } from '../output/print.ts';

const START = { line: 1, column: 1 };

/**
 * Returns the patch of a denied workload, with the conditions to verify. Returns `undefined` if the API server does not
 * permit changes to its pods, or if the checks offer no fix.
 */
export function findPatch(
  source: PodCreator,
  { level, version, violations }: ViolatingWorkload,
  { emulationVersion }: Store,
): ReportPatch | undefined {
  const { kind, object: value } = source;
  const path = source.template ?? podTemplatePath(RESOURCES[source.kind].group, kind);
  const isComposed = source.template !== undefined && source.sourceField !== undefined;
  if (path === undefined || isComposed || kind === 'Pod' || kind === 'Job') return undefined;
  const place = { file: '', index: 0, line: 1, source: { start: 0, end: 0 }, repetitions: [] };
  const [object] = manifestObjects({ ...place, value, locate: () => START }).objects;
  if (object === undefined) return undefined;
  // Admission defaults fix the other violations of the template.
  const checks = new Set(violations.map(({ check }) => check));
  const { pod, changes } = fixPod({ object, path }, (violation) =>
    podSecurityViolations(violation, { level, version, emulationVersion }).filter(({ check }) => checks.has(check)),
  );
  const ops = diff(withoutEmpty(value), withoutEmpty(withValueAt(value, path, pod)));
  if (ops.length === 0) return undefined;
  const target = [referenceName(value), '-n', value.metadata?.namespace ?? ''].map(shellQuote).join(' ');
  return {
    command: `kubectl patch ${target} --type=json -p ${shellQuote(JSON.stringify(ops))}`,
    notes: [...new Set(changes.flatMap(({ note }) => note ?? []))],
  };
}

/** The API server sets empty objects only in built-in kinds, so patches must not depend on them. */
function withoutEmpty(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, member: unknown) =>
    isObject(member) && Object.keys(member).length === 0 ? undefined : member,
  );
}
