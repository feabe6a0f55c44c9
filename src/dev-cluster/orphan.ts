import type { Core } from './core.ts';
import { omit } from './omit.ts';
import { metadataOf, type ApiObject } from './types.ts';
import { storageKey } from './views.ts';

/** Takes an owner away from its children, so that they outlive it. */
export function orphan(core: Core, owner: ApiObject): void {
  const { uid } = metadataOf(owner);
  for (const info of core.registry.list()) {
    const key = storageKey(info);
    for (const child of core.storage.list(key)) {
      const owners = metadataOf(child).ownerReferences ?? [];
      const others = owners.filter((reference) => reference.uid !== uid);
      if (others.length === owners.length) continue;
      const metadata = omit(child.metadata ?? {}, 'ownerReferences');
      const more = others.length === 0 ? {} : { ownerReferences: others };
      core.storage.replace(key, child, { ...child, metadata: { ...metadata, ...more } });
    }
  }
}
