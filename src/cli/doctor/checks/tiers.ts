import { FAIL_OPEN, TIER_LABEL } from '../../../api/names.ts';
import { type DoctorCheck, type CheckResult, evaluateFact, type Facts, ok } from '../facts.ts';
import { commandFix } from '../fix.ts';
import { closedNamespaces } from '../matching.ts';

/** Checks that the namespaces that a cluster needs to start do not fail closed. */
export const tiers: DoctorCheck = {
  name: 'tiers',
  evaluate: (facts) =>
    evaluateFact(facts.namespaces, 'namespaces', () => {
      const results = closedNamespaces(facts).flatMap(({ name }) => evaluateNamespace(name, facts));
      return results.length > 0
        ? results
        : [ok('namespaces', 'no namespace for networking, DNS or storage fails closed')];
    }),
};

function evaluateNamespace(name: string, { settings }: Facts): readonly CheckResult[] {
  const isIssuer = settings.certificates === 'cert-manager' && name === 'cert-manager';
  const component = isIssuer ? CERT_MANAGER : COMPONENTS.find(({ namespaces }) => namespaces?.test(name));
  if (!component) return [];
  const { purpose, severity, impact } = component;
  return [
    {
      severity,
      object: `namespace ${name}`,
      message: `fails closed, and its name indicates ${purpose}`,
      impact,
      fix: {
        ...commandFix('kubectl', 'label', 'namespace', name, `${TIER_LABEL}=${FAIL_OPEN}`, '--overwrite'),
        // A user may have chosen the name of the namespace, so the name alone proves nothing.
        note: 'only if cluster administrators alone can create pods in it',
      },
    },
  ];
}

interface Component {
  readonly purpose: string;
  /** Matches the namespace names in common installation guides. */
  readonly namespaces?: RegExp;
  readonly severity: 'problem' | 'warning';
  readonly impact: string;
}

const CERT_MANAGER: Component = {
  purpose: 'cert-manager',
  severity: 'warning',
  impact: 'it issues the serving certificate, and cannot start without it',
};

const COMPONENTS: readonly Component[] = [
  {
    purpose: 'networking',
    namespaces:
      /^(?:calico|cilium|antrea|kube-flannel|kube-ovn|kube-router|kube-proxy|metallb|multus|nsx|ovn-kubernetes|romana|submariner|tigera|weave|openshift-(?:multus|network|ovn|sdn))/,
    severity: 'problem',
    impact: 'after a cold start, its pods wait for Portcullis, and Portcullis waits for the network',
  },
  {
    purpose: 'DNS',
    namespaces: /^(?:coredns|kube-dns|node-local-dns|openshift-dns)/,
    severity: 'warning',
    impact: 'after a cold start, names do not resolve until Portcullis runs',
  },
  {
    purpose: 'storage',
    namespaces:
      /^(?:ceph|democratic-csi|juicefs|linbit|linstor|local-path-storage|local-storage|longhorn|mayastor|nfs-|openebs|openshift-(?:cluster-csi|local-storage|storage)|piraeus|portworx|px-|robin-storage|rook|stork|topolvm|trident|vmware-system-csi)|(?:^|-)csi(?:-|$)/,
    severity: 'warning',
    impact: 'after a cold start, pods with volumes wait until Portcullis runs',
  },
];
