import assert from 'node:assert/strict';
import { getMetadataOwners } from '../../../src/kube/managed-fields.ts';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import { createRbac, readRoleRef } from '../../../src/policy/rbac/index.ts';
import {
  type AffectedNamespaces,
  createSccAccess,
  createSccLevels,
  findAffectedNamespaces,
  grantedSccs,
  isManaged,
  type LabelSyncInput,
  managementSettings,
  serviceAccountSubjects,
} from '../../../src/policy/rollout/index.ts';
import { prepareScc } from '../../../src/policy/scc/index.ts';
import { syncUntilDone } from '../namespace-writes.ts';
import { laxScc } from '../scc.ts';
import { type Area, area } from './cases.ts';
import { buildNamespace, type CaseNamespace } from './rollout.ts';

const SETTINGS = managementSettings({
  mode: 'enforce',
  exemptNamespaces: [],
  compatibility: 'openshift',
  preferUserNamespaces: false,
});

function isManagedCase(given: CaseNamespace): boolean {
  const namespace = buildNamespace(given);
  return isManaged(namespace, getMetadataOwners(namespace.metadata), SETTINGS);
}

interface CaseScc {
  readonly name: string;
}

function buildScc({ name, ...fields }: CaseScc): SecurityContextConstraints {
  return { ...laxScc({ name }), ...fields };
}

interface SyncCase {
  readonly syncedModes: readonly string[];
  readonly namespace: CaseNamespace & { readonly exists?: boolean };
  readonly constraints: readonly CaseScc[];
  readonly serviceAccounts: readonly {
    readonly namespace: string;
    readonly name: string;
    readonly usableConstraints: readonly string[];
  }[];
}

interface SyncExpect {
  readonly error: boolean;
  readonly writes: number;
  readonly labelsEqual?: Readonly<Record<string, string>>;
  readonly annotationsEqual?: Readonly<Record<string, string>>;
  readonly event?: string;
}

function syncInput({ syncedModes, namespace, constraints, serviceAccounts }: SyncCase): LabelSyncInput {
  const accounts = serviceAccounts.filter((account) => account.namespace === namespace.name);
  return {
    namespace: buildNamespace(namespace),
    serviceAccounts: accounts.map(({ name }) => name),
    sccLevels: createSccLevels(constraints.map(buildScc), { profile: 'accurate' }),
    access: {
      canUse: ({ username }, scc) =>
        accounts.some(
          ({ name, usableConstraints }) =>
            username === `system:serviceaccount:${namespace.name}:${name}` && usableConstraints.includes(scc),
        ),
    },
    mode: syncedModes.includes('enforce') ? 'Enforce' : 'Advise',
    settings: SETTINGS,
  };
}

const sync = area<SyncCase, SyncExpect>((given, expect) => {
  // The controller plans no changes to a namespace that does not exist.
  if (given.namespace.exists === false) {
    assert.equal(expect.writes, 0);
    return;
  }
  const input = syncInput(given);
  const isUnusable = expect.event === 'NoUsableSCC';
  // OpenShift fails and writes nothing. The expectation below applies to the default mode, in which the webhook warns.
  if (isUnusable) assert.equal(syncUntilDone(input).writes.length, 0);
  const scc = { ...SETTINGS.scc, compatibility: 'portcullis' } as const;
  const { namespace, plans, writes } = syncUntilDone(isUnusable ? { ...input, settings: { ...SETTINGS, scc } } : input);
  assert.equal(writes.length, expect.writes, 'writes');
  assert.equal(expect.error, false);
  const { annotations = {} } = namespace.metadata ?? {};
  const warn = isUnusable ? { 'pod-security.kubernetes.io/warn': 'restricted' } : {};
  const labels: Readonly<Record<string, string>> = { ...namespace.metadata?.labels, ...warn };
  if (isUnusable) assert.equal(namespace.metadata?.labels?.['pod-security.kubernetes.io/warn'], 'privileged');
  for (const [key, value] of Object.entries(expect.labelsEqual ?? {})) assert.equal(labels[key], value, key);
  for (const [key, value] of Object.entries(expect.annotationsEqual ?? {})) assert.equal(annotations[key], value, key);
  const reasons = plans.flatMap(({ events }) => events.map(({ reason }) => reason));
  if (expect.event !== undefined) assert.ok((reasons as readonly string[]).includes(expect.event), expect.event);
});

interface RoleCase {
  readonly namespace?: string;
  readonly name: string;
  readonly rules?: unknown;
}

function getObject({ namespace, name, ...rest }: RoleCase): KubeObject {
  return { ...rest, metadata: { name, ...(namespace === undefined || namespace === '' ? {} : { namespace }) } };
}

function printReach(reach: AffectedNamespaces): string | null {
  if (reach === 'all') return 'ALL';
  assert.ok(reach.size <= 1);
  return [...reach][0] ?? null;
}

/** Creates the role with a key of the form `<namespace>/<name>`. A ClusterRole has no namespace. */
function keyed(key: string, rules: unknown): { readonly kind: 'Role' | 'ClusterRole'; readonly object: KubeObject } {
  const slash = key.indexOf('/');
  const namespace = slash < 0 ? 'somewhere' : key.slice(0, slash);
  const object = getObject({ namespace, name: key.slice(slash + 1), rules });
  return { kind: namespace === '' ? 'ClusterRole' : 'Role', object };
}

/** Returns the rules of a role that grants only the given SCCs. */
function rulesFor(sccs: readonly string[]): unknown {
  if (sccs.length === 0) return [];
  return [
    {
      apiGroups: ['security.openshift.io'],
      resources: ['securitycontextconstraints'],
      verbs: ['use'],
      resourceNames: sccs,
    },
  ];
}

type Useful = Readonly<Record<string, readonly string[]>>;

function getContext(sccNames: readonly string[], findRole: (key: string) => KubeObject | undefined = () => undefined) {
  return { sccNames, findRole: (namespace: string, name: string) => findRole(`${namespace}/${name}`) };
}

function namesIn(useful: Useful): readonly string[] {
  return [...new Set(Object.values(useful).flat())];
}

interface Enqueue {
  readonly useful: Useful;
  readonly enqueue: string | null;
}

interface RelevanceCase {
  readonly useful: Useful;
  readonly roles: readonly RoleCase[];
  readonly clusterRoles: readonly RoleCase[];
  readonly binding: { readonly kind: 'RoleBinding' | 'ClusterRoleBinding'; readonly namespace: string };
}

export const LABEL_SYNC_AREAS: Readonly<Record<string, Area>> = {
  'syncer/is-managed': area<
    { readonly exists: boolean; readonly namespace: CaseNamespace },
    { readonly managed?: boolean; readonly error?: boolean }
  >(({ exists, namespace }, { managed }) => {
    // The controller does not evaluate a namespace that does not exist.
    if (exists) assert.equal(isManagedCase(namespace), managed);
  }),

  'syncer/enqueue': area<
    {
      readonly namespaces: readonly CaseNamespace[];
      readonly event: { readonly kind: 'SecurityContextConstraints' | 'Role' | 'ClusterRole' } & RoleCase;
    },
    { readonly queuedNamespaceCount: number }
  >(({ namespaces, event: { kind, ...object } }, { queuedNamespaceCount }) => {
    const after = getObject({
      ...object,
      ...(kind === 'SecurityContextConstraints' ? {} : { rules: rulesFor(['a']) }),
    });
    const reach = findAffectedNamespaces({ kind, after }, getContext(['a']));
    const queued = namespaces.filter(({ name }) => reach === 'all' || reach.has(name)).filter(isManagedCase);
    assert.equal(queued.length, queuedNamespaceCount);
  }),

  'syncer/sync-enforcing': sync,
  'syncer/sync-advising': sync,

  'syncer/label-owners': area<
    { readonly managedFields: readonly { manager: string; operation: string; fields: object }[] },
    { readonly labelsByManager: Readonly<Record<string, readonly string[]>> }
  >(({ managedFields }, { labelsByManager }) => {
    const entries = managedFields.map(({ fields, ...entry }) => ({
      ...entry,
      fieldsType: 'FieldsV1',
      fieldsV1: fields,
    }));
    const owners = getMetadataOwners({ managedFields: entries }) ?? [];
    assert.deepEqual(Object.fromEntries(owners.map(({ manager, labels }) => [manager, [...labels]])), labelsByManager);
  }),

  'syncer/usable-constraints': area<
    {
      readonly constraints: readonly CaseScc[];
      readonly serviceAccount: { readonly namespace: string; readonly name: string };
    } & Readonly<Record<'roles' | 'clusterRoles' | 'roleBindings' | 'clusterRoleBindings', readonly RoleCase[]>>,
    { readonly constraints: readonly string[] }
  >(({ constraints, serviceAccount: { namespace, name }, ...objects }, expect) => {
    const rbac = createRbac();
    for (const one of objects.roles) rbac.put('Role', getObject(one));
    for (const one of objects.clusterRoles) rbac.put('ClusterRole', getObject(one));
    for (const one of objects.roleBindings) rbac.put('RoleBinding', getObject(one));
    for (const one of objects.clusterRoleBindings) rbac.put('ClusterRoleBinding', getObject(one));
    const use = { verb: 'use', apiGroup: 'security.openshift.io', resource: 'securitycontextconstraints' };
    const mayUse = createSccAccess(name, namespace, {
      canUse: (user, scc) => rbac.allows(user, { ...use, name: scc, namespace }),
    });
    const usable = constraints.filter((scc) => mayUse(prepareScc(buildScc(scc))));
    assert.deepEqual(usable.map((scc) => scc.name).sort(), [...expect.constraints].sort());
  }),

  'syncer/resolve-role-ref': area<
    {
      readonly roles: readonly RoleCase[];
      readonly clusterRoles: readonly RoleCase[];
      readonly bindingNamespace: string;
      readonly roleRef: unknown;
    },
    { readonly error?: boolean; readonly resolved?: string }
  >(({ roles, clusterRoles, bindingNamespace, roleRef }, expect) => {
    const keys = [...roles, ...clusterRoles].map(({ namespace = '', name }) => `${namespace}/${name}`);
    const ref = readRoleRef(roleRef, bindingNamespace);
    const key = ref && `${ref.namespace}/${ref.name}`;
    const isFound = key !== undefined && keys.includes(key);
    assert.deepEqual(isFound ? { resolved: key } : { error: true }, expect);
  }),

  'syncer/binding-relevant': area<RelevanceCase, { readonly relevant: boolean }>((given, { relevant }) => {
    const { useful, roles, clusterRoles, binding } = given;
    const exists = new Set([...roles, ...clusterRoles].map(({ namespace = '', name }) => `${namespace}/${name}`));
    const findRole = (key: string) =>
      exists.has(key) ? keyed(key, rulesFor(Object.hasOwn(useful, key) ? (useful[key] ?? []) : [])).object : undefined;
    const { kind, namespace, ...rest } = binding;
    const subjects = [{ kind: 'ServiceAccount', namespace: 'ns', name: 'default' }];
    const object = { ...rest, subjects, ...getObject({ namespace, name: 'binding' }) };
    const reach = findAffectedNamespaces({ kind, after: object }, getContext(namesIn(useful), findRole));
    assert.equal(reach === 'all' || reach.size > 0, relevant);
  }),

  'syncer/binding-index-keys': area<
    { readonly binding: { readonly kind: 'RoleBinding' | 'ClusterRoleBinding'; readonly namespace: string } },
    { readonly keys: readonly string[] }
  >(({ binding: { kind, namespace, ...rest } }, { keys }) => {
    assert.deepEqual(serviceAccountSubjects(kind, { ...rest, ...getObject({ namespace, name: 'binding' }) }), keys);
  }),

  'syncer/role-changed': area<
    {
      readonly constraints: readonly string[];
      readonly priorUseful: Useful;
      readonly role: { readonly key: string; readonly rules: unknown };
    },
    Enqueue
  >(({ constraints, priorUseful, role: { key, rules } }, { useful, enqueue }) => {
    const { kind, object: after } = keyed(key, rules);
    const prior = Object.hasOwn(priorUseful, key) ? priorUseful[key] : undefined;
    const before = prior && keyed(key, rulesFor(prior)).object;
    assert.deepEqual({ [key]: grantedSccs(after, constraints) }, useful);
    assert.equal(printReach(findAffectedNamespaces({ kind, before, after }, getContext(constraints))), enqueue);
  }),

  'syncer/role-removed': area<{ readonly priorUseful: Useful; readonly removedRole: string }, Enqueue>(
    ({ priorUseful, removedRole: key }, { enqueue }) => {
      const { kind, object: before } = keyed(
        key,
        rulesFor(Object.hasOwn(priorUseful, key) ? (priorUseful[key] ?? []) : []),
      );
      assert.equal(printReach(findAffectedNamespaces({ kind, before }, getContext(namesIn(priorUseful)))), enqueue);
    },
  ),

  'syncer/constraint-removed': area<{ readonly priorUseful: Useful; readonly removed: string }, Enqueue>(
    ({ priorUseful, removed }, { useful, enqueue }) => {
      const left = namesIn(priorUseful).filter((name) => name !== removed);
      for (const [key, sccs] of Object.entries(priorUseful)) {
        assert.deepEqual(
          grantedSccs(keyed(key, rulesFor(sccs)).object, left).toSorted(),
          [...(useful[key] ?? [])].sort(),
        );
      }
      const before = { metadata: { name: removed } };
      assert.equal(
        printReach(findAffectedNamespaces({ kind: 'SecurityContextConstraints', before }, getContext(left))),
        enqueue,
      );
    },
  ),
};
