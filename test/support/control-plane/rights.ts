import { isObject, type JsonObject } from '../../../src/kube/types.ts';
import { REPLICA_USER } from './replica.ts';
import type { RecordedCall } from './types.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** No request is ever made with these: what somebody may pass on is compared with what they have. */
const HELD_ONLY = new Set(['use']);

/** What replicas asked for and were refused, in words; each once. */
export function refusedCalls(calls: readonly RecordedCall[]): string[] {
  const refused = calls.filter(({ user, isAuthorized }) => user === REPLICA_USER && !isAuthorized);
  return [...new Set(refused.map(printCall))].sort();
}

/** The rights that the manifests give and no replica has used, in words. */
export function unusedRights(objects: readonly JsonObject[], calls: readonly RecordedCall[]): string[] {
  const used = calls.filter(({ user, isAuthorized }) => user === REPLICA_USER && isAuthorized);
  return roles(objects).flatMap(({ namespace, rules }) =>
    rules.flatMap(({ apiGroups, resources, verbs, resourceNames }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((name) =>
          verbs
            .filter((verb) => !HELD_ONLY.has(verb))
            .filter((verb) => {
              const [resource = '', subresource = ''] = name.split('/');
              return !used.some(
                (call) =>
                  call.verb === verb &&
                  call.group === group &&
                  call.resource === resource &&
                  call.subresource === subresource &&
                  (namespace === undefined || call.namespace === namespace) &&
                  (resourceNames === undefined || resourceNames.includes(call.name)),
              );
            })
            .map((verb) => printRight(verb, name, group, resourceNames)),
        ),
      ),
    ),
  );
}

/** The roles of the replicas; those that people get have a label that aggregates them. */
function roles(objects: readonly JsonObject[]): { readonly namespace?: string; readonly rules: readonly Rule[] }[] {
  return objects
    .filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
    .filter(({ metadata }) => !JSON.stringify(metadata).includes('aggregate-to-'))
    .map(({ metadata, rules }) => {
      const namespace = isObject(metadata) ? metadata['namespace'] : undefined;
      return { ...(typeof namespace === 'string' ? { namespace } : {}), rules: rules as readonly Rule[] };
    });
}

function printCall({ verb, resource, subresource, group, namespace, name }: RecordedCall): string {
  const what = subresource === '' ? resource : `${resource}/${subresource}`;
  return `${printRight(verb, what, group, name === '' ? undefined : [name])}${namespace === '' ? '' : ` in ${namespace}`}`;
}

function printRight(verb: string, resource: string, group: string, names: readonly string[] | undefined): string {
  const what = group === '' ? resource : `${resource}.${group}`;
  if (names === undefined) return `${verb} ${what}`;
  return `${verb} ${what} named ${names.length > 1 ? `${names[0] ?? ''}, …` : (names[0] ?? '')}`;
}
