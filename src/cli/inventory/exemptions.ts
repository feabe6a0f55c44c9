/**
 * Lists exemptions for auditors. The list contains the objects that are exempt from policies, and the start time and
 * number of uses of each exemption.
 */
import { CONFIGURATION_NAME, FAIL_OPEN, TIER_LABEL } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { defined } from '../../kube/defined.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { hasFinished } from '../../kube/pod.ts';
import { objectName } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { compareBytes } from '../../kube/text.ts';
import { type JsonObject, type KubeObject, type Namespace, type Pod, valueAt } from '../../kube/types.ts';
import { KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { type PodSecurity, type PreparedException, psaLevel, resolvePolicies } from '../../policy/psa/index.ts';
import { matchesUser } from '../../policy/rbac/index.ts';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL, sccMode, type SccSettings } from '../../policy/scc/index.ts';
import type { ExemptionUses } from '../../views/exemptions.ts';
import { type GrantSource, printGrantSource, sccGrants } from '../../views/scc-grants.ts';
import type { PolicyExemption } from '../../web/report-data.ts';

/** Input for the list of exemptions. It contains plain data, so no requests to an API server are necessary. */
interface ExemptionsInput {
  /** Must contain namespaces, pods, SCCs, roles and bindings. Workloads such as ReplicaSets are not read. */
  readonly store: Store;
  /** The effective Pod Security configuration. */
  readonly podSecurity: Pick<PodSecurity, 'configuration' | 'defaults'>;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** Installation namespace. */
  readonly namespace: string;
  /** True if the settings come from a file, so the field times in the PortcullisConfiguration do not apply. */
  readonly isFromFile?: boolean;
  /** False if there are no webhooks, for example because no server is installed. Defaults to true. */
  readonly hasWebhooks?: boolean;
  /** Usage counts that the replicas report. Absent if unknown. */
  readonly uses?: ExemptionUses | undefined;
  /** Exceptions that apply to new pods. */
  readonly exceptions?: readonly PreparedException[];
}

/**
 * Lists all exemptions, which are defaults, namespaces, users, runtime classes, and SCCs with their grants. Each group
 * is sorted by name. Omits the `system:masters` group, because the API server grants it every permission.
 */
export function listExemptions(input: ExemptionsInput): readonly PolicyExemption[] {
  const pods = input.store.list('Pod').filter((pod) => !hasFinished(pod));
  const podsByNamespace = new Map<string, number>();
  for (const { metadata } of pods) increment(podsByNamespace, metadata?.namespace ?? '');
  const context = { ...input, pods, podsByNamespace };
  const { hasWebhooks = true } = input;
  return [
    ...listDefaults(context),
    ...listNamespaces(context).filter(({ policy }) => hasWebhooks || policy !== 'webhook'),
    ...listNames(context, 'user'),
    ...listNames(context, 'runtimeClass'),
    ...listSccs(context),
    ...listExceptions(context),
  ];
}

interface Context extends ExemptionsInput {
  /** Pods that have not completed. */
  readonly pods: readonly Pod[];
  readonly podsByNamespace: ReadonlyMap<string, number>;
}

function increment<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

// Start times of exemptions.

type Since = Pick<PolicyExemption, 'since' | 'sinceSource'>;

function createdAt({ metadata }: KubeObject): Since {
  const since = metadata?.creationTimestamp;
  return since == null ? {} : { since, sinceSource: 'creationTimestamp' };
}

/** Returns the time of the last change to a field in the settings or, if unknown, of the object's creation. */
function settingSince({ store, isFromFile = false }: Context, path: readonly string[]): Since {
  const object = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  if (isFromFile || object === undefined) return {};
  const entries: readonly JsonObject[] = object.metadata?.managedFields ?? [];
  const isOwner = ({ fieldsV1 }: JsonObject): boolean =>
    valueAt(fieldsV1, ['f:spec', ...path.map((name) => `f:${name}`)]) !== undefined;
  return latest(entries.filter(isOwner).map(({ time }) => time)) ?? createdAt(object);
}

function latest(times: readonly unknown[]): Since | undefined {
  const [since] = times
    .filter((time) => typeof time === 'string' && time !== '')
    .sort()
    .reverse();
  return typeof since === 'string' ? { since, sinceSource: 'managedFields' } : undefined;
}

function listDefaults(context: Context): readonly PolicyExemption[] {
  const { store, podSecurity, scc, podsByNamespace } = context;
  const count = (namespaces: readonly Namespace[]) => ({
    namespaces: namespaces.length,
    pods: namespaces.reduce((sum, exempt) => sum + (podsByNamespace.get(objectName(exempt)) ?? 0), 0),
  });
  const all = store.list('Namespace');
  const unlabeled = all.filter(
    ({ metadata }) =>
      metadata?.labels?.[POD_SECURITY_LABELS.enforce] === undefined &&
      resolvePolicies(metadata?.labels, podSecurity.defaults).enforce.level === 'privileged',
  );
  const unset = all.filter(
    (namespace) => sccMode(namespace, { ...scc, mode: 'enforce' }).mode !== sccMode(namespace, scc).mode,
  );
  return [
    ...(podSecurity.defaults.enforce.level !== 'privileged'
      ? []
      : [
          {
            kind: 'default',
            name: 'privileged',
            policy: 'Pod Security',
            source: 'default level of namespaces without an enforce label',
            ...settingSince(context, ['podSecurity', 'defaults', 'enforce']),
            ...count(unlabeled),
          } as const,
        ]),
    ...(scc.mode === 'enforce'
      ? []
      : [
          {
            kind: 'default',
            name: scc.mode,
            policy: 'SCC',
            source: 'spec.scc.mode',
            ...settingSince(context, ['scc', 'mode']),
            ...count(unset),
          } as const,
        ]),
  ];
}

/**
 * Lists one entry per cause, because a namespace may be exempt from several policies or excluded by webhook selectors.
 */
function listNamespaces(context: Context): readonly PolicyExemption[] {
  const { store, podSecurity, scc, podsByNamespace, uses } = context;
  const exempt = podSecurity.configuration.exemptions.namespaces;
  const setting = ['podSecurity', 'exemptions', 'namespaces'];
  const listed = (name: string, policy: 'Pod Security' | 'SCC', path: readonly string[]): PolicyExemption => ({
    kind: 'namespace',
    name,
    policy,
    source: `spec.${path.join('.')}`,
    ...settingSince(context, path),
    pods: podsByNamespace.get(name) ?? 0,
    ...(policy === 'SCC' ? {} : countUses(uses, 'namespace', name)),
  });
  const selected = [
    { name: context.namespace, source: 'namespace of the installation: never reviewed' },
    { name: KUBE_SYSTEM, source: 'admitted without review while no replica responds' },
  ].flatMap(({ name, source }): readonly PolicyExemption[] => {
    const namespace = store.get('Namespace', name);
    const pods = podsByNamespace.get(name) ?? 0;
    return namespace ? [{ kind: 'namespace', name, policy: 'webhook', source, ...createdAt(namespace), pods }] : [];
  });
  return [
    ...selected,
    ...exempt.map((name) => listed(name, 'Pod Security', setting)),
    ...(scc.mode === 'off' ? [] : scc.exemptNamespaces)
      .filter((name) => store.get('Namespace', name) !== undefined)
      .map((name) => listed(name, 'SCC', ['scc', 'exemptNamespaces'])),
    ...store.list('Namespace').flatMap((namespace): readonly PolicyExemption[] =>
      exemptingLabels(namespace, context).map(({ policy, key }) => ({
        kind: 'namespace',
        name: objectName(namespace),
        policy,
        source: `label ${key}=${namespace.metadata?.labels?.[key]}`,
        ...labelSince(namespace, key),
        pods: podsByNamespace.get(objectName(namespace)) ?? 0,
      })),
    ),
  ].sort((a, b) => compareBytes(a.name, b.name));
}

/**
 * Returns the labels that exempt a namespace, each with its policy. Labels on a namespace that is exempt by name are
 * ignored.
 */
function exemptingLabels(
  namespace: Namespace,
  { podSecurity, scc }: Context,
): readonly (Pick<PolicyExemption, 'policy'> & { readonly key: string })[] {
  const name = objectName(namespace);
  const { labels } = namespace.metadata ?? {};
  const enforced = resolvePolicies(labels, podSecurity.defaults).enforce.level;
  const isLabeled = labels?.[POD_SECURITY_LABELS.enforce] !== undefined;
  const isExempt = podSecurity.configuration.exemptions.namespaces.includes(name);
  const isSccOff = scc.mode === 'off' || scc.exemptNamespaces.includes(name);
  const sccLabel = [RUN_LEVEL_LABEL, DISABLE_LABEL, SCC_MODE_LABEL].find((key) => {
    const alone = { metadata: { name, labels: { [key]: labels?.[key] ?? '' } } };
    return labels?.[key] !== undefined && sccMode(alone, { ...scc, mode: 'enforce' }).mode !== 'enforce';
  });
  return [
    ...(isLabeled && !isExempt && enforced === 'privileged'
      ? [{ policy: 'Pod Security', key: POD_SECURITY_LABELS.enforce } as const]
      : []),
    ...(!isSccOff && sccLabel !== undefined ? [{ policy: 'SCC', key: sccLabel } as const] : []),
    ...(labels?.[TIER_LABEL] === FAIL_OPEN ? [{ policy: 'webhook', key: TIER_LABEL } as const] : []),
  ];
}

/** Returns the time of the last change to a label or, if unknown, of the namespace's creation. */
function labelSince(namespace: Namespace, key: string): Since {
  const owners = getMetadataOwners(namespace.metadata)?.filter(({ labels }) => labels.has(key)) ?? [];
  return latest(owners.map(({ time }) => time)) ?? createdAt(namespace);
}

const NAME_SETTINGS = { user: 'usernames', runtimeClass: 'runtimeClasses' } as const;

/** Lists the exempt users or runtime classes. */
function listNames(context: Context, kind: keyof typeof NAME_SETTINGS): readonly PolicyExemption[] {
  const setting = NAME_SETTINGS[kind];
  const path = ['podSecurity', 'exemptions', setting];
  const since = settingSince(context, path);
  return context.podSecurity.configuration.exemptions[setting].toSorted(compareBytes).map((name) => ({
    kind,
    name,
    policy: 'Pod Security',
    source: `spec.${path.join('.')}`,
    ...since,
    ...(kind === 'user' ? {} : { pods: context.pods.filter(({ spec }) => spec?.runtimeClassName === name).length }),
    ...countUses(context.uses, kind, name),
  }));
}

// Exemptions through SCCs and their grants.

/** Example namespace with an ordinary UID range. No other property of a namespace affects the level of an SCC. */
const EXAMPLE: Namespace = { metadata: { name: 'any', annotations: { 'openshift.io/sa.scc.uid-range': '1/1' } } };

/** Lists each granted SCC that is less strict than the restricted level, followed by its grants. */
function listSccs(context: Context): readonly PolicyExemption[] {
  const { store, pods, uses } = context;
  const options = { profile: 'accurate', version: store.emulationVersion } as const;
  return store
    .list('SecurityContextConstraints')
    .toSorted((a, b) => compareBytes(objectName(a), objectName(b)))
    .flatMap((scc): readonly PolicyExemption[] => {
      const name = objectName(scc);
      const { level = 'privileged' } = psaLevel(scc, EXAMPLE, options);
      if (level === 'restricted') return [];
      const admitted = pods.filter(({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] === name);
      const grants = listGrants(scc, admitted, store);
      if (grants.length === 0) return [];
      const own = { kind: 'scc', name, policy: 'SCC', source: 'SecurityContextConstraints', level } as const;
      return [{ ...own, ...createdAt(scc), pods: admitted.length, ...countUses(uses, 'scc', name) }, ...grants];
    });
}

function listGrants(
  scc: SecurityContextConstraints,
  admitted: readonly Pod[],
  store: Store,
): readonly PolicyExemption[] {
  const accounts = new Map<string, number>();
  for (const { metadata, spec } of admitted) {
    increment(accounts, `${metadata?.namespace ?? ''}:${spec?.serviceAccountName ?? 'default'}`);
  }
  const users = [...accounts].map(([account, count]) => ({
    namespace: account.split(':')[0],
    user: impersonatedUser(`system:serviceaccount:${account}`, []),
    count,
  }));
  return sccGrants(store, scc)
    .filter(({ subject }) => !(subject.kind === 'Group' && subject.name === 'system:masters'))
    .map(({ subject, namespace, through, during }) => ({
      kind: 'grant',
      name: `${subject.kind} ${subject.namespace === undefined ? '' : `${subject.namespace}/`}${subject.name}`,
      policy: 'SCC',
      source: printGrantSource(through),
      scc: objectName(scc),
      ...defined({ namespace, during }),
      ...grantSince(through, scc, store),
      pods: users
        .filter((user) => (namespace ?? user.namespace) === user.namespace && matchesUser(subject, user.user))
        .reduce((sum, { count }) => sum + count, 0),
    }));
}

function grantSince(through: GrantSource, scc: SecurityContextConstraints, store: Store): Since {
  if (!('binding' in through)) return createdAt(scc);
  const { name, namespace } = through.binding;
  const binding =
    namespace === undefined ? store.get('ClusterRoleBinding', name) : store.get('RoleBinding', name, namespace);
  return binding ? createdAt(binding) : {};
}

function listExceptions({ exceptions = [], store, uses }: Context): readonly PolicyExemption[] {
  return exceptions.map(({ name, namespace, spec, approval }) => {
    const checks = [...new Set(spec.allow.map(({ check }) => check))].join(', ');
    const { workloads } = store.get('PodSecurityException', name, namespace)?.status ?? {};
    return {
      kind: 'exception',
      name: `${namespace}/${name}`,
      policy: 'Pod Security',
      source: `${checks} for ServiceAccount ${spec.serviceAccountName} until ${spec.expiresAt}, approved by ${approval?.by ?? 'no user'}: ${spec.reason}`,
      ...(approval === undefined ? {} : { since: approval.at }),
      ...defined({ workloads }),
      ...countUses(uses, 'exception', `${namespace}/${name}`),
    };
  });
}

function countUses(uses: ExemptionUses | undefined, kind: string, name: string): Pick<PolicyExemption, 'uses'> {
  return uses ? { uses: uses.counts.get(`${kind}/${name}`) ?? 0 } : {};
}
