import { given, type Check, type NeededAccess } from '../facts.ts';

/** The service account may do what the replicas do. */
export const access: Check = {
  name: 'rights',
  judge: ({ lacking, namespace }) =>
    given(lacking, 'service account', (all) => {
      const where = 'service account';
      if (all.length === 0) return [{ severity: 'ok', where, what: 'may do all that the replicas do' }];
      return [
        {
          severity: 'problem',
          where,
          what: `may not ${summarize(all).join('; ')}`,
          why: 'replicas do not become ready, or controllers do not do their work',
          fix: `portcullis install${namespace === 'portcullis' ? '' : ` --namespace ${namespace}`} | kubectl apply --server-side -f -`,
        },
      ];
    }),
};

/** `list, watch pods`; `use securitycontextconstraints.security.openshift.io privileged, anyuid` */
function summarize(all: readonly NeededAccess[]): readonly string[] {
  const byObject = Map.groupBy(all, ({ group, resource, name, namespace }) =>
    JSON.stringify([group, resource, name, namespace]),
  );
  const lines = [...byObject.values()].map((items) => {
    const verbs = items
      .map(({ verb }) => verb)
      .toSorted()
      .join(', ');
    const [first] = items;
    const { group = '', resource = '', name, namespace } = first ?? {};
    const place = namespace === undefined ? '' : ` in ${namespace}`;
    return { key: `${verbs} ${resource}${group === '' ? '' : `.${group}`}${place}`, name };
  });
  return [...Map.groupBy(lines, ({ key }) => key)].map(([key, items]) => {
    const names = items.flatMap(({ name }) => name ?? []);
    return names.length === 0 ? key : `${key} (${names.join(', ')})`;
  });
}
