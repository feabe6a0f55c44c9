import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import { FAIL_OPEN, TIER_LABEL } from '../../kube/installation.ts';
import type { Wire } from '../../kube/types.ts';

export type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Namespaces that are treated alike while nobody answers reviews. A selector cannot say "or": each tier has webhooks of
 * its own, and a namespace belongs to one tier only.
 */
export interface Tier {
  /** Before the name of the webhook. */
  readonly prefix: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly namespaces: readonly Requirement[];
}

/** By that label, which the API server sets, a selector knows namespaces by their names. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
const KUBE_SYSTEM = 'kube-system';

export function named(names: readonly string[]): Requirement {
  return { key: NAME_LABEL, operator: 'In', values: [...names] };
}

export function notNamed(names: readonly string[]): Requirement {
  return { key: NAME_LABEL, operator: 'NotIn', values: [...names] };
}

/** Nothing gets in unasked; but where networking, DNS and storage live, pods start while there is nobody to ask. */
export function tiersOf(namespaces: readonly Requirement[]): readonly Tier[] {
  const tier = (operator: 'In' | 'NotIn'): readonly Requirement[] => [
    ...namespaces,
    { key: TIER_LABEL, operator, values: [FAIL_OPEN] },
  ];
  return [
    { prefix: '', failurePolicy: 'Fail', namespaces: tier('NotIn') },
    { prefix: 'fail-open.', failurePolicy: 'Ignore', namespaces: tier('In') },
  ];
}

/**
 * The same where Pod Security counts in `kube-system`, too: a cold cluster starts there. The installation itself is
 * never asked about.
 */
export function podSecurityTiersOf(installation: string): readonly Tier[] {
  return [
    ...tiersOf([notNamed([KUBE_SYSTEM, installation])]),
    { prefix: `${KUBE_SYSTEM}.`, failurePolicy: 'Ignore', namespaces: [named([KUBE_SYSTEM])] },
  ];
}
