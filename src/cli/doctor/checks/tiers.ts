import { FAIL_OPEN, TIER_LABEL } from '../../../kube/well-known.ts';
import { afterBreakGlass, tierOf } from '../matching.ts';
import { given, type Check, type Facts, type Remark } from '../facts.ts';

/** What a cluster needs before anything else starts lies in namespaces that do not wait for Portcullis. */
export const tiers: Check = {
  name: 'tiers',
  judge: (facts) =>
    given(facts.namespaces, 'namespaces', (namespaces) => {
      const configurations = afterBreakGlass(facts.configurations);
      const closed = namespaces.filter((one) => tierOf(configurations, one) === 'fail-closed');
      const remarks = closed.flatMap(({ name }) => judgeNamespace(name, facts));
      const where = 'namespaces';
      const what = 'none that looks like networking, DNS or storage fails closed';
      return remarks.length > 0 ? remarks : [{ severity: 'ok', where, what }];
    }),
};

function judgeNamespace(name: string, { settings }: Facts): readonly Remark[] {
  const isIssuer = settings.certificates === 'cert-manager' && name === 'cert-manager';
  const needed = isIssuer ? CERTIFICATES : NEEDED.find(({ names }) => names.test(name));
  if (!needed) return [];
  return [
    {
      severity: needed.severity,
      where: `namespace ${name}`,
      what: `looks like ${needed.what}, and fails closed`,
      why: needed.why,
      fix: `kubectl label namespace ${name} ${TIER_LABEL}=${FAIL_OPEN}`,
    },
  ];
}

interface Needed {
  readonly what: string;
  readonly names: RegExp;
  readonly severity: 'problem' | 'warning';
  readonly why: string;
}

const CERTIFICATES: Needed = {
  what: 'cert-manager',
  names: /^$/,
  severity: 'warning',
  why: 'it makes the serving certificate, and cannot start while that is missing',
};

/** Where projects are installed by their own instructions. */
const NEEDED: readonly Needed[] = [
  {
    what: 'networking',
    names:
      /^(?:calico|cilium|antrea|kube-flannel|kube-ovn|kube-router|kube-proxy|metallb|multus|nsx|ovn-kubernetes|romana|submariner|tigera|weave|openshift-(?:multus|network|ovn|sdn))/,
    severity: 'problem',
    why: 'after a cold start its pods wait for Portcullis, and Portcullis for the network',
  },
  {
    what: 'DNS',
    names: /^(?:coredns|kube-dns|node-local-dns|openshift-dns)/,
    severity: 'warning',
    why: 'after a cold start names do not resolve until Portcullis runs',
  },
  {
    what: 'storage',
    names:
      /^(?:ceph|democratic-csi|juicefs|linbit|linstor|local-path-storage|local-storage|longhorn|mayastor|nfs-|openebs|openshift-(?:cluster-csi|local-storage|storage)|piraeus|portworx|px-|robin-storage|rook|stork|topolvm|trident|vmware-system-csi)|(?:^|-)csi(?:-|$)/,
    severity: 'warning',
    why: 'after a cold start what needs volumes waits until Portcullis runs',
  },
];
