import type { ManifestObject, Path } from '../../config/manifests.ts';
import type { WritableStore } from '../../cluster/store.ts';
import { completePod } from '../../kube/controller-pod.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { quote } from '../../kube/quote.ts';
import { apiVersionOf, RESOURCES } from '../../kube/resources.ts';
import { draft, type Kind, type Kinds, type KubeObject } from '../../kube/types.ts';
import { defaultScc } from '../../policy/scc/default-scc.ts';
import type { Remark } from '../report/types.ts';
import { readMetadata } from './metadata.ts';

/**
 * Puts the objects of known kinds into a store, as an API server would keep them; returns what no API server would
 * take. Other kinds are left out.
 */
export function fillStore(store: WritableStore, objects: readonly ManifestObject[], namespace: string): Remark[] {
  // What a pod is completed with depends on its service account.
  const ordered = objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'));
  return ordered.flatMap((object) => {
    const kind = Object.hasOwn(RESOURCES, object.kind) ? (object.kind as Kind) : undefined;
    if (kind === undefined || UNREAD.has(kind)) return [];
    if (object.apiVersion !== apiVersionOf(kind)) return mistakenVersion(object);
    const read = readMetadata(object.value, RESOURCES[kind].scope === 'Cluster' ? undefined : namespace);
    if ('message' in read) return [remarkOn(object, read.path, read.message)];
    store.put(kind, completed(kind, { ...object.value, metadata: read.metadata }, store));
    return [];
  });
}

/** Of kinds that the server alone reads, and no command. */
const UNREAD: ReadonlySet<Kind> = new Set([
  'ConfigMap',
  'Lease',
  'MutatingWebhookConfiguration',
  'Secret',
  'ValidatingWebhookConfiguration',
]);

/** The groups that have, or had, these kinds. Other groups may have kinds of the same names. */
const GROUPS: ReadonlySet<string> = new Set([...Object.values(RESOURCES).map(({ group }) => group), 'extensions']);

function mistakenVersion(object: ManifestObject): Remark[] {
  const { apiVersion, kind } = object;
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const message = `no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  return GROUPS.has(group) ? [remarkOn(object, ['apiVersion'], message)] : [];
}

function remarkOn(object: ManifestObject, path: Path, message: string): Remark {
  return { file: object.document.file, ...object.positionOf(path), message };
}

/** The object as it is stored: with what is filled in on its way. */
function completed(kind: Kind, object: KubeObject, store: WritableStore): Kinds[Kind] {
  const { namespace } = object.metadata ?? {};
  if (kind === 'Pod') return completePod(object, (name) => store.get('ServiceAccount', name, namespace));
  const complete = draft(object) as Record<string, unknown>;
  applyDefaults(complete);
  return kind === 'SecurityContextConstraints' ? defaultScc(complete) : complete;
}
