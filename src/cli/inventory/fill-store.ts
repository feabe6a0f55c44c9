import type { ManifestObject, Path } from '../../config/manifests.ts';
import type { WritableStore } from '../../cluster/store.ts';
import { completePod } from '../../kube/controller-pod.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { quote } from '../../kube/quote.ts';
import { apiVersionOf, RESOURCES } from '../../kube/resources.ts';
import { draft, isObject, type JsonObject, type Kind, type Kinds, type KubeObject } from '../../kube/types.ts';
import { defaultScc } from '../../policy/scc/default-scc.ts';
import type { Remark } from '../report/types.ts';

/**
 * Puts the objects of known kinds into a store, as an API server would keep them; returns what no API server would
 * take. Other kinds are left out.
 */
export function fillStore(store: WritableStore, objects: readonly ManifestObject[], namespace: string): Remark[] {
  // What a pod is completed with depends on its service account.
  const ordered = objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'));
  return ordered.flatMap((object) => {
    const kind = Object.hasOwn(RESOURCES, object.kind) ? (object.kind as Kind) : undefined;
    if (kind === undefined) return [];
    if (object.apiVersion !== apiVersionOf(kind)) return mistakenVersion(object);
    const named = withNames(object.value, RESOURCES[kind].scope === 'Cluster' ? undefined : namespace);
    if ('message' in named) return [remarkOn(object, named.path, named.message)];
    store.put(kind, completed(kind, named.value, store));
    return [];
  });
}

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

/** An object with its name and namespace, or what is wrong with them and where. */
type Named = { readonly value: KubeObject } | { readonly path: Path; readonly message: string };

/** What lies in no namespace by its kind gets none; what names none by mistake gets the default. */
function withNames(value: JsonObject, defaultNamespace: string | undefined): Named {
  const metadata = value['metadata'] ?? {};
  if (!isObject(metadata)) return { path: ['metadata'], message: 'metadata must be an object' };
  const { name, generateName, namespace, ...others } = withoutNulls(metadata);
  for (const [field, text] of Object.entries({ name, generateName, namespace })) {
    if (text !== undefined && typeof text !== 'string') {
      return { path: ['metadata', field], message: `metadata.${field} must be a string` };
    }
  }
  for (const field of ['labels', 'annotations'] as const) {
    if (!isTexts(others[field])) return { path: ['metadata', field], message: `metadata.${field} must hold strings` };
  }
  // What has no name yet goes by the beginning of it.
  const given = filled(name) ?? filled(generateName);
  if (given === undefined) return { path: ['metadata'], message: NAMELESS };
  const place = defaultNamespace === undefined ? {} : { namespace: filled(namespace) ?? defaultNamespace };
  return { value: { ...value, metadata: { ...others, name: given, ...place } } };
}

const NAMELESS = 'metadata.name: Required value: name or generateName is required';

/** Null is as good as absent; what is stored has none of it. */
function withoutNulls(metadata: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== null));
}

function isTexts(map: unknown): boolean {
  return map === undefined || (isObject(map) && Object.values(map).every((value) => typeof value === 'string'));
}

function filled(text: unknown): string | undefined {
  return typeof text === 'string' && text !== '' ? text : undefined;
}

/** The object as it is stored: with what is filled in on its way. */
function completed(kind: Kind, object: KubeObject, store: WritableStore): Kinds[Kind] {
  if (kind === 'Pod')
    return completePod(object, (name) => store.get('ServiceAccount', name, object.metadata?.namespace));
  const complete = draft(object) as Record<string, unknown>;
  applyDefaults(complete);
  return kind === 'SecurityContextConstraints' ? defaultScc(complete) : complete;
}
