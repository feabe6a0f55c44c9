import type { EventNote } from '../cluster/port.ts';
import { apiVersionOf } from '../kube/resources.ts';
import type { Kind, KubeObject } from '../kube/types.ts';

/** Something to tell about an object for as long as it holds. */
export interface Remark {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Remembers what has been told, so that each remark is told once for as long as it holds. */
export interface Remarks {
  /** True if anything among them has yet to be told. */
  areNew(name: string, remarks: readonly Remark[]): boolean;
  /** Those that have yet to be told, as notes about the object; from now on these and no others hold. */
  take(name: string, object: KubeObject, remarks: readonly Remark[]): readonly Omit<EventNote, 'reportingController'>[];
}

/** Makes a memory for objects of a kind. */
export function createRemarks(kind: Kind, action: string): Remarks {
  const told = new Map<string, ReadonlySet<string>>();
  const isNew = (name: string, { message }: Remark): boolean => told.get(name)?.has(message) !== true;
  return {
    areNew: (name, remarks) => remarks.some((remark) => isNew(name, remark)),
    take(name, object, remarks) {
      const fresh = remarks.filter((remark) => isNew(name, remark));
      if (remarks.length === 0) told.delete(name);
      else told.set(name, new Set(remarks.map(({ message }) => message)));
      const regarding = { apiVersion: apiVersionOf(kind), kind, ...object };
      return fresh.map(({ type, reason, message }) => ({ regarding, type, reason, action, note: message }));
    },
  };
}
