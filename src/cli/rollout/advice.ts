import { LABEL_SYNC_LABEL } from '../../kube/label-sync.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type { Category, NamespaceEvaluation } from '../../policy/rollout/readiness.ts';

/** What to do about a namespace in which something would be refused, or that cannot be judged. */
export function stepsFor({ name, verdict, categories, level }: NamespaceEvaluation): readonly string[] {
  if (verdict === 'inconclusive') return ['See to it that the namespace can be judged.'];
  const place: Place = { name, weaker: level === 'baseline' ? 'privileged' : 'LEVEL' };
  return categories.map((category) => STEPS[category](place));
}

/** A namespace, and the level that would admit more than the one to come; where there are two, a placeholder. */
interface Place {
  readonly name: string;
  readonly weaker: string;
}

const STEPS: Readonly<Record<Category, (place: Place) => string>> = {
  runLevelZero: ({ name }) => `It belongs to the cluster: ${labelled({ name, weaker: 'privileged' })}.`,
  openshift: (place) =>
    `It belongs to the platform, whose labels are not kept by this program: ${labelled(place)}; or let them be kept: kubectl label namespace/${place.name} ${LABEL_SYNC_LABEL}=true.`,
  disabledSyncer: (place) =>
    `Its labels are not kept: let them be kept with kubectl label namespace/${place.name} ${LABEL_SYNC_LABEL}-; or give it a level: ${labelled(place)}.`,
  userSCC: ({ name }) =>
    `Pods got in by the rights of users: grant the SCC to their service account (portcullis scc plan -n ${name} --bindings FILE), or change the workloads.`,
  unknown: (place) => `Change the workloads; or give the namespace a weaker level: ${labelled(place)}.`,
};

function labelled({ name, weaker }: Place): string {
  const choice = weaker === 'LEVEL' ? ', LEVEL being baseline or privileged' : '';
  return `kubectl label namespace/${name} ${POD_SECURITY_LABELS.enforce}=${weaker}${choice}`;
}
