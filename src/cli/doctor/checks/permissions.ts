import { shellQuote } from '../../../kube/text.ts';
import { evaluateFact, ok, problem, warning, type Check, type Facts, type NeededAccess } from '../facts.ts';
import { deleteObsolete } from '../../install/installed.ts';
import { rolesWith } from '../gather.ts';

const OBJECT = 'service account';

/** The service account has the permissions that the replicas need, and no roles of features that the settings do not use. */
export const permissions: Check = {
  name: 'permissions',
  evaluate: ({ missingAccess, obsolete, namespace, settings }) => [
    ...evaluateFact(missingAccess, OBJECT, (missing) =>
      missing.length === 0
        ? [ok(OBJECT, 'has all permissions that the replicas need')]
        : [
            problem(OBJECT, `is not allowed to ${formatAccess(missing).join('; ')}`, {
              impact: 'replicas do not become ready, or controllers fail',
              fix: formatGrant(settings, missing),
            }),
          ],
    ),
    ...evaluateFact(obsolete, 'roles', (unused) =>
      unused.length === 0
        ? []
        : [
            warning('roles', `${unused.join(', ')} remain from other settings`, {
              impact: 'the replicas have permissions that they do not need',
              fix: deleteObsolete(namespace, unused),
            }),
          ],
    ),
  ],
};

/** The command adds what is missing to roles and bindings. It removes nothing. */
function formatGrant(settings: Facts['settings'], missing: readonly NeededAccess[]): string {
  const list = { apiVersion: 'v1', kind: 'List', items: rolesWith(settings, missing) };
  return `printf %s ${shellQuote(JSON.stringify(list))} | kubectl auth reconcile -f -`;
}

/** Access grouped by object and verbs: `list, watch pods`, `use securitycontextconstraints.security.openshift.io (anyuid)`. */
function formatAccess(missing: readonly NeededAccess[]): readonly string[] {
  const byObject = Map.groupBy(missing, ({ group, resource, name, namespace }) =>
    JSON.stringify([group, resource, name, namespace]),
  );
  const lines = [...byObject.values()].flatMap((items) => {
    const [first] = items;
    if (!first) return [];
    const { group, resource, name, namespace } = first;
    const verbs = items.map(({ verb }) => verb).toSorted();
    const scope = namespace === undefined ? '' : ` in ${namespace}`;
    return [{ text: `${verbs.join(', ')} ${resource}${group === '' ? '' : `.${group}`}${scope}`, name }];
  });
  return [...Map.groupBy(lines, ({ text }) => text)].map(([text, items]) => {
    const names = items.flatMap(({ name }) => name ?? []);
    return names.length === 0 ? text : `${text} (${names.join(', ')})`;
  });
}
