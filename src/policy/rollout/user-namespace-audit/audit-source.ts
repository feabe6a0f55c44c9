import { podTemplateOf, podTemplatePath } from '../../../kube/pod.ts';
import { quote } from '../../../kube/quote.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import type { PodLike } from '../../../kube/types.ts';
import type { GuardedSccs } from './guarded-sccs.ts';
import { finding, type AuditFinding, type AuditSource } from './types.ts';

/** True to what it asks for, every pod of this object comes under an SCC that is at risk. */
export function auditSource(source: AuditSource, guarded: GuardedSccs): readonly AuditFinding[] {
  const name = templateOf(source)?.metadata?.annotations?.[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (guarded.get(name)?.risk !== 'at risk') return [];
  const message = `annotation ${POD_SCC_ANNOTATIONS.requiredScc} asks for SCC ${quote(name)}`;
  return [finding('UN002', { ...source, message })];
}

function templateOf({ kind, object }: AuditSource): PodLike | undefined {
  if (kind === 'Pod') return object;
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  return path && podTemplateOf(object, path);
}
