/**
 * Stores the subjects of a RoleBinding only while its role is stored, which is the case if the role permits the use of
 * SCCs. Subjects of other bindings are omitted because administrators of a namespace can create many large bindings. If
 * a role is stored after its bindings, the bindings are read again. Until then, they grant no access.
 */
import type { Kind, Kinds } from '../kube/kinds.ts';
import { resourcePath } from '../kube/resources.ts';
import type { RoleBinding } from '../kube/types.ts';
import { readRoleRef } from '../policy/rbac/index.ts';
import { type Clock, sleep } from './clock.ts';
import { readPages } from './lists.ts';
import { hasSubjects } from './projection.ts';
import { createBackoff, type ReflectorOptions } from './reflector.ts';
import type { StoreWriter } from './store-writer.ts';
import type { WritableStore } from './store.ts';

/** Kinds that are listed before RoleBindings, so bindings are not read twice. */
export const ROLE_KINDS: readonly Kind[] = ['Role', 'ClusterRole'];

interface BindingsOptions extends Pick<ReflectorOptions, 'connection' | 'parser' | 'random' | 'onFailure'> {
  readonly store: WritableStore;
  readonly clock: Clock;
  getWriter(): StoreWriter | undefined;
}

/** Creates the reader of bindings, which follows the roles in the store. */
export function createBindingReader(options: BindingsOptions) {
  const { store, connection, parser, clock, random, getWriter, onFailure } = options;
  const stopped = new AbortController();
  const { signal } = stopped;
  const backoff = createBackoff(clock, random);
  /** Namespaces whose bindings must be read again. `undefined` represents all namespaces. */
  const pending = new Set<string | undefined>();
  let running: Promise<void> = Promise.resolve();
  let isReading = false;

  const readNamespace = async (namespace: string | undefined): Promise<void> => {
    const request = { path: resourcePath('RoleBinding', namespace), kind: 'RoleBinding', parser, signal } as const;
    await readPages(connection, request, () => (items) => {
      for (const item of items) getWriter()?.restore(item);
    });
  };
  const readPending = async (): Promise<void> => {
    isReading = true;
    // The loop also visits namespaces that are added, or added again, in the meantime.
    for (const namespace of pending) {
      pending.delete(namespace);
      try {
        await readNamespace(namespace);
      } catch (error) {
        if (signal.aborted) break;
        pending.add(namespace);
        const delayMs = backoff.nextMs();
        onFailure(error, delayMs);
        await sleep(clock, delayMs, signal);
      }
    }
    isReading = false;
  };
  const unsubscribe = store.subscribe(({ kind, type, object: role, before }) => {
    if (!ROLE_KINDS.includes(kind) || (type === 'put' && before !== undefined)) return;
    const { name, namespace } = role.metadata ?? {};
    const bindings = store.list('RoleBinding', namespace).filter((binding) => {
      const ref = findRole(binding);
      return ref?.name === name && ref?.namespace === (namespace ?? '');
    });
    if (type === 'remove') {
      for (const binding of bindings) if (hasSubjects(binding)) store.put('RoleBinding', withoutSubjects(binding));
    } else if (bindings.some((binding) => !hasSubjects(binding))) {
      pending.add(namespace);
      if (!isReading) running = readPending();
    }
  });
  return {
    /** Returns a RoleBinding without its subjects if its role is not stored, and other objects unchanged. */
    limit(kind: Kind, object: Kinds[Kind]): Kinds[Kind] {
      if (kind !== 'RoleBinding') return object;
      const ref = findRole(object as RoleBinding);
      const roleKind = ref?.namespace === '' ? 'ClusterRole' : 'Role';
      const isStored = ref !== undefined && store.get(roleKind, ref.name, ref.namespace) !== undefined;
      return isStored ? object : withoutSubjects(object as RoleBinding);
    },
    async stop(): Promise<void> {
      unsubscribe();
      stopped.abort();
      await running;
    },
  };
}

function findRole({ metadata, roleRef }: RoleBinding) {
  return readRoleRef(roleRef, metadata?.namespace ?? '');
}

function withoutSubjects({ subjects: _subjects, ...rest }: RoleBinding): RoleBinding {
  return rest;
}
