import { canUseScc } from '../../cluster/select.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import type { JsonObject, PodLike } from '../../kube/types.ts';
import { evaluatePod, LEVELS, type Level } from '../../policy/pss/index.ts';
import { changesOf } from '../../policy/scc/changes.ts';
import { explainScc, type ExplainedScc } from '../../policy/scc/explain.ts';
import { findNamespace } from '../inventory/find-namespace.ts';
import type { Inventory } from '../inventory/inventory.ts';
import { missingAccount } from '../inventory/missing-account.ts';
import { nameOf, namespaceOf } from '../report/identity.ts';
import { foretoldModeOf, type ForetoldSettings } from '../scc-options.ts';
import { podOf, type CreatedPod, type Creator } from './pod-of.ts';
import type { ExplainedObject, Explanation, SccRow } from './types.ts';

interface ExplainSettings {
  readonly settings: ForetoldSettings;
  /** Of objects that name none. */
  readonly namespace: string;
  /** Who creates the pods that no controller creates. */
  readonly creator: Creator;
}

/**
 * Explains what becomes of the pods of each object; those that no pods come from are left out.
 * @throws {UserError} for a namespace that does not exist
 */
export function explainObjects(
  objects: readonly ManifestObject[],
  { store, assumptions }: Inventory,
  { settings, namespace, creator }: ExplainSettings,
): Explanation {
  const brought = new Set(
    objects.filter(({ kind }) => kind === 'ServiceAccount').map(({ value }) => placeOf(value, namespace)),
  );
  const explained = objects.flatMap((object): ExplainedObject[] => {
    const created = podOf(object, { store, namespace, creator });
    if (created === undefined) return [];
    const explanation = explainPod(created, { store, settings });
    const place = created.namespace;
    const refusal = missingAccount(created.pod, place, (name) =>
      brought.has(`${place}/${name}`) ? {} : store.get('ServiceAccount', name, place),
    );
    return [
      { kind: object.kind, name: nameOf(object.value), ...(refusal === undefined ? {} : { refusal }), ...explanation },
    ];
  });
  return { objects: explained, assumptions };
}

/** `shop/builder` */
function placeOf(value: JsonObject, fallback: string): string {
  return `${namespaceOf(value) ?? fallback}/${nameOf(value)}`;
}

function explainPod(
  { pod, namespace: namespaceName, creator }: CreatedPod,
  { store, settings }: Pick<Inventory, 'store'> & { readonly settings: ForetoldSettings },
): Omit<ExplainedObject, 'kind' | 'name'> {
  const namespace = findNamespace(store, namespaceName);
  const { sccs, ...outcome } = explainScc({
    operation: 'CREATE',
    object: pod,
    namespace,
    userInfo: creator.user,
    sccs: store.list('SecurityContextConstraints'),
    canUse: canUseScc(store),
    compatibility: settings.compatibility,
    preferUserNamespaces: settings.preferUserNamespaces,
  });
  const account: unknown = pod.spec?.serviceAccountName;
  const admitted = outcome.decision.allowed ? (outcome.decision.object as PodLike) : undefined;
  return {
    namespace: namespaceName,
    mode: foretoldModeOf(namespace, settings),
    createdBy: creator.name,
    ...(typeof account === 'string' && account !== '' ? { serviceAccount: account } : {}),
    ...outcome,
    ...(admitted ? { level: levelOf(admitted) } : {}),
    sccs: sccs.map((scc) => rowOf(scc, pod)),
  };
}

function rowOf({ object, ...scc }: ExplainedScc, pod: unknown): SccRow {
  return object === undefined ? scc : { ...scc, changes: changesOf(pod, object) };
}

/** The strictest level that the pod keeps, by the newest version. */
function levelOf(pod: PodLike): Level {
  const strictest = LEVELS.findLast((level) => evaluatePod(pod, { level, version: 'latest' }).allowed);
  return strictest ?? 'privileged';
}
