import { deleteObsolete } from '../../install/installed.ts';
import { type Check, evaluateFact, type NeededAccess, ok, problem, warning } from '../facts.ts';
import { applyManifests } from '../fix.ts';

const OBJECT = 'service account';

/**
 * Checks that the service account has the permissions that the replicas need, and no roles for features that are not
 * installed.
 */
export const permissions: Check = {
  name: 'permissions',
  evaluate: (facts) => [
    ...evaluateFact(facts.missingAccess, OBJECT, (missing) => {
      if (missing.length === 0) return [ok(OBJECT, 'has all permissions that the replicas need')];
      const impact = 'replicas do not become ready, or controllers fail';
      const message = `is not allowed to ${formatAccess(missing).join('; ')}`;
      return [problem(OBJECT, message, { impact, fix: applyManifests(facts) })];
    }),
    ...evaluateFact(facts.obsolete, 'roles', (unused) => {
      if (unused.length === 0) return [];
      const impact = 'the replicas have permissions that they do not need';
      const fix = { commands: [deleteObsolete(facts.namespace, unused)] };
      return [warning('roles', `${unused.join(', ')} remain from other settings`, { impact, fix })];
    }),
  ],
};

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
