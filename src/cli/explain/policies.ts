/** The decision of policies in the API server about the pods of an object, in a cluster without SCC admission. */
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { createPod, type PodCreator } from '../../kube/controller-pod.ts';
import type { ServiceAccount, UserInfo } from '../../kube/types.ts';
import { decodePod } from '../../policy/pod/pod.ts';
import { printFieldPath } from '../../policy/pod/templates.ts';
import { completeTemplate } from '../../policy/psa/defaults.ts';
import { DEFAULT_LIMITS, reviewPodSecurity } from '../../policy/psa/review.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { printable, printTable, type Style } from '../output/print.ts';

interface PolicyContext {
  readonly store: Store;
  readonly settings: Pick<Settings, 'podSecurity' | 'emulationVersion' | 'defaults' | 'scc'>;
  /** The creator of pods without a controller. */
  readonly creator: UserInfo;
  findAccount(name: string, namespace: string): ServiceAccount | undefined;
}

interface Subject {
  readonly source: PodCreator;
  readonly name: string;
  readonly namespace: string;
}

const PODS = { group: '', version: 'v1', resource: 'pods' };

/**
 * Explains the decision about the pods of an object; returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
export function explainPolicies({ source, name, namespace }: Subject, context: PolicyContext) {
  const { store, settings, creator } = context;
  const findAccount = (account: string) => context.findAccount(account, namespace);
  const created = createPod(source, { namespace, creator, findAccount });
  if (created === undefined) return undefined;
  const { pod, requester: userInfo, serviceAccount, denial } = created;
  const found = findNamespace(store, namespace);
  const decoded = decodePod(pod).pod;
  const object = decoded ? completeTemplate(decoded, found, settings).json : pod;
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const { decision } = reviewPodSecurity({
    request: { uid: '', operation: 'CREATE', kind, resource: PODS, namespace, userInfo, object },
    podSecurity: settings.podSecurity,
    emulationVersion: settings.emulationVersion ?? store.emulationVersion,
    findNamespace: () => found,
    listPods: () => [],
    limits: DEFAULT_LIMITS,
    now: () => 0,
  });
  const { exempt, 'enforce-policy': policy } = decision.auditAnnotations ?? {};
  // The pod has no name yet.
  const refusal = decision.allowed
    ? undefined
    : decision.status.message?.replace(/^pods (?:"[^"]*" )?is forbidden: /, '');
  const message = denial ?? refusal;
  const explained = {
    kind: source.kind,
    name,
    /** The path of the pod template of a custom resource. */
    template: source.template && printFieldPath(source.template),
    namespace,
    createdBy: userInfo.username ?? 'any authenticated user (set --as)',
    serviceAccount,
    /** The enforced policy; absent for an exempt pod. */
    policy,
    /** The reason of an exemption: `namespace`, `user` or `runtimeClass`. */
    exempt,
    allowed: message === undefined,
    /** The message of a denial. */
    message,
    warnings: decision.warnings ?? [],
  };
  return {
    outcome: message === undefined ? (exempt === undefined ? 'admitted' : 'ignored') : 'denied',
    explained,
  } as const;
}

type Explained = NonNullable<ReturnType<typeof explainPolicies>>['explained'];

/** Prints the decision of the policies about an object. */
export function printPolicyDecision(object: Explained, style: Style): string {
  const { kind, name, namespace, template, createdBy, serviceAccount, policy, exempt, allowed, message, warnings } =
    object;
  const path = template === undefined ? '' : ` (${template})`;
  const verdict = exempt === undefined ? (allowed ? 'admitted by' : 'denied by') : `exempt (${exempt}) from`;
  const facts = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ...(policy === undefined ? [] : [['Policy', policy]]),
    ...(message === undefined ? [] : [['Denied because', message]]),
  ];
  const title = `${kind} ${namespace}/${name || '(no name)'}${path}: ${verdict} the policies in the API server`;
  return [
    `${style('bold', printable(title))}\n`,
    printTable(facts, { indent: '  ', gap: '  ' }),
    ...warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}\n`),
  ].join('');
}
