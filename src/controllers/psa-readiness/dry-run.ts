import type { Cluster } from '../../cluster/port.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import type { Namespace } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type { DefaultLevel } from '../../policy/rollout/enforcement.ts';
import { verdictOfWarnings, type NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';

/** Dry runs are written under this name. */
export const DRY_RUN_MANAGER = 'pod-security-readiness-controller';

/** What an API server says of a level for a namespace. */
export interface DryRunVerdict extends Pick<NamespaceEvaluation, 'verdict'> {
  readonly error?: string;
}

/**
 * Asks the API server what it would warn of if the namespace were held to a level, without doing it; a namespace that is
 * gone violates nothing.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/blob/main/pkg/operator/podsecurityreadinesscontroller/violation.go
 */
export async function askByDryRun(
  cluster: Pick<Cluster, 'apply'>,
  { metadata }: Namespace,
  { level, currentEnforce }: { readonly level: Level; readonly currentEnforce: DefaultLevel },
): Promise<DryRunVerdict> {
  // Every call has a list of its own: what a call that failed has left behind says nothing about the next namespace.
  const warnings: string[] = [];
  const labels = { [POD_SECURITY_LABELS.enforce]: level };
  const asked = { apiVersion: apiVersionOf('Namespace'), kind: 'Namespace', metadata: identityOf(metadata, labels) };
  try {
    await cluster.apply('Namespace', asked, {
      fieldManager: DRY_RUN_MANAGER,
      dryRun: true,
      onWarning: (text) => void warnings.push(text),
    });
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return { verdict: 'clean' };
    return { verdict: 'inconclusive', error: `dry run: ${error instanceof Error ? error.message : String(error)}` };
  }
  const verdict = verdictOfWarnings(warnings, currentEnforce);
  return verdict === 'inconclusive' ? { verdict, error: errorOf(warnings, currentEnforce) } : { verdict };
}

/** Without the uid a namespace that is gone would be created. */
function identityOf(
  metadata: Namespace['metadata'],
  labels: Readonly<Record<string, string>>,
): NonNullable<Namespace['metadata']> {
  const { name = '', uid } = metadata ?? {};
  return { name, ...(uid === undefined ? {} : { uid }), labels };
}

function errorOf(warnings: readonly string[], currentEnforce: DefaultLevel): string {
  return currentEnforce === 'restricted'
    ? 'dry run: while namespaces are held to restricted already, a dry run says nothing'
    : `dry run: ${warnings.join('; ')}`;
}
