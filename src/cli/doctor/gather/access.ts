import type { Connection } from '../../../cluster/connect.ts';
import { reviewAccess } from '../../../cluster/reviews.ts';
import type { Role, RoleBinding, UserInfo } from '../../../kube/types.ts';
import { manifestsOf, type Manifest, type ManifestSettings } from '../../../install/index.ts';
import type { Fact, NeededAccess } from '../types.ts';
import { look } from './look.ts';

/** Asked at the same time. */
const AT_ONCE = 8;

/** What the service account of an installation is not allowed although it needs it. */
export async function lookAtAccess(
  connection: Connection,
  settings: ManifestSettings,
  serviceAccount: string,
  signal: AbortSignal,
): Promise<Fact<readonly NeededAccess[]>> {
  const { namespace } = settings;
  const user: UserInfo = {
    username: `system:serviceaccount:${namespace}:${serviceAccount}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
  return await look(async () => {
    const left = [...neededAccess(settings)];
    const lacking: NeededAccess[] = [];
    const ask = async (): Promise<void> => {
      for (let needed = left.shift(); needed; needed = left.shift()) {
        const { group: apiGroup, ...attributes } = needed;
        if (!(await reviewAccess(connection, user, { apiGroup, ...attributes }, signal))) lacking.push(needed);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, ask));
    return lacking;
  });
}

/** All that the manifests grant to the service account, one by one. */
export function neededAccess(settings: ManifestSettings): readonly NeededAccess[] {
  const manifests = manifestsOf(settings);
  return manifests.filter(isBinding).flatMap(({ roleRef, metadata }) => {
    const role = manifests.find(({ kind, metadata: { name } }) => kind === roleRef.kind && name === roleRef.name);
    return ((role as Role | undefined)?.rules ?? []).flatMap((rule) => accessOf(rule, metadata.namespace));
  });
}

function isBinding(manifest: Manifest): manifest is Manifest & RoleBinding {
  return manifest.kind === 'RoleBinding' || manifest.kind === 'ClusterRoleBinding';
}

type Rule = NonNullable<Role['rules']>[number];

function accessOf(rule: Rule, namespace: string | undefined): readonly NeededAccess[] {
  const names = rule.resourceNames ?? [undefined];
  return (rule.apiGroups ?? []).flatMap((group) =>
    (rule.resources ?? []).flatMap((resource) =>
      rule.verbs.flatMap((verb) =>
        names.map((name) => ({
          verb,
          group,
          resource,
          ...(name === undefined ? {} : { name }),
          ...(namespace === undefined ? {} : { namespace }),
        })),
      ),
    ),
  );
}
