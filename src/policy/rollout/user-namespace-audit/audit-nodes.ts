import type { Namespace, Node } from '../../../kube/types.ts';
import { compareKubeletVersions, parseKubeletVersion, parseVersion } from '../../kubelet/version.ts';
import { compareVersions } from '../../pss/version.ts';
import { resolvePolicies } from '../../psa/namespace-policy.ts';
import type { Policy } from '../../pss/types.ts';
import { finding, type AuditFinding } from './types.ts';

/** The oldest kubelet that refuses a pod rather than run it without the user namespace that it asks for. */
const OLDEST_SAFE_KUBELET = '1.30.0';
const DEFAULT: Policy = { level: 'privileged', version: 'latest' };

/** The nodes that are too old, unless all namespaces are held to standards from before these knew user namespaces. */
export function auditNodes(nodes: readonly Node[], namespaces: readonly Namespace[]): readonly AuditFinding[] {
  const isRelaxed = namespaces.length === 0 || namespaces.some(isRelaxedIn);
  return isRelaxed ? nodes.flatMap(auditNode) : [];
}

/** A namespace without a label has the policy of the cluster, which is not known. */
function isRelaxedIn({ metadata }: Namespace): boolean {
  const { enforce } = resolvePolicies(metadata?.labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  return compareVersions(enforce.version, 'v1.35') >= 0;
}

function auditNode(node: Node): readonly AuditFinding[] {
  const version: unknown = node.status?.nodeInfo?.kubeletVersion;
  // A node that is expected and has not come yet runs no pods.
  if (typeof version !== 'string' || version === '') return [];
  const problem = problemOf(version);
  return problem === undefined ? [] : [finding('UN006', { kind: 'Node', object: node, message: problem })];
}

function problemOf(version: string): string | undefined {
  const minimum = parseVersion(OLDEST_SAFE_KUBELET);
  const kubelet = parseKubeletVersion(version);
  const advice = `kubelets before ${OLDEST_SAFE_KUBELET} run pods without the user namespace that they ask for`;
  if ('error' in kubelet) return `kubelet version ${version} cannot be read (${kubelet.error}); ${advice}`;
  if ('error' in minimum || compareKubeletVersions(kubelet.value, minimum.value) >= 0) return undefined;
  return `kubelet version is ${version}; ${advice}`;
}
