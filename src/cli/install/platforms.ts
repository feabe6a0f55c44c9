import type { ClusterFacts } from './facts.ts';

interface Platform {
  readonly name: string;
  isIt(facts: ClusterFacts): boolean;
  /** What somebody who installs there has to know. */
  readonly note: string;
}

const isVersioned = (pattern: RegExp) => (facts: ClusterFacts) => pattern.test(facts.version);
const isLabelled = (prefix: string) => (facts: ClusterFacts) =>
  facts.nodeLabels.some((label) => label.startsWith(prefix));

/** Clusters that others run, by what gives them away. */
const PLATFORMS: readonly Platform[] = [
  {
    name: 'Google Kubernetes Engine',
    isIt: isVersioned(/-gke\./),
    note: 'in a private cluster the firewall has to let the control plane reach TCP port 8443 of the nodes',
  },
  {
    name: 'Amazon EKS',
    isIt: isVersioned(/-eks-/),
    note: 'the security group of the nodes has to let the control plane reach TCP port 8443; with a network of pods that the control plane does not reach, run the replicas with hostNetwork',
  },
  {
    name: 'Azure Kubernetes Service',
    isIt: isLabelled('kubernetes.azure.com/'),
    note: 'the annotation admissions.enforcer/disabled keeps AKS from changing the namespace selectors',
  },
  {
    name: 'K3s or RKE2',
    isIt: isVersioned(/\+(?:k3s|rke2)/),
    note: 'defaults of Pod Security may be set in the configuration of the server, too: they count beside these',
  },
];

/** What is peculiar to the cluster, in words. */
export function platformNotes(facts: ClusterFacts): readonly string[] {
  return PLATFORMS.filter(({ isIt }) => isIt(facts)).map(({ name, note }) => `this looks like ${name}: ${note}`);
}
