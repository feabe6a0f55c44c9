import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES, podSourcesOf, type PodSource } from '../../cluster/workloads.ts';
import type { Reach } from '../../policy/rollout/label-sync.ts';
import { isStricter } from '../../policy/psa/policy.ts';
import { templatePodOf, type TemplatePod, type TemplateSurroundings } from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';

/** The templates of namespaces as they would be admitted; each is admitted once, until something about it changes. */
export interface AdmittedTemplates {
  /** Those of a namespace that are still to be judged at the level. */
  in(store: Store, level: Level, surroundings: TemplateSurroundings): ToBeJudged;
  /** What was admitted there has to be admitted again. */
  forget(reach: Reach): void;
  /** Nothing is judged there any more. */
  leave(name: string): void;
  reset(): void;
}

/** Templates that have yet to be judged, and those that do not keep the level. */
export interface ToBeJudged {
  readonly templates: Iterable<TemplatePod>;
  /** Says that the one that was given last keeps the level. */
  onKept(): void;
}

/** What is kept of a template: a level that it keeps, for that is all that matters; else its pod. */
interface Memory {
  readonly epoch: number;
  keeps?: Level;
  template?: TemplatePod | undefined;
}

export const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

/** Makes a memory that knows nothing yet. */
export function createAdmittedTemplates(): AdmittedTemplates {
  const memories = new Map<string, ReadonlyMap<object, Memory>>();
  const epochs = new Map<string, number>();
  let epoch = 0;
  let allSince = 0;

  return {
    in(store, level, surroundings) {
      const name = surroundings.namespace.metadata?.name ?? '';
      const since = Math.max(allSince, epochs.get(name) ?? 0);
      let last: Memory | undefined;
      function* templates(): Generator<TemplatePod, void> {
        const known = memories.get(name);
        const seen = new Map<object, Memory>();
        for (const source of podSourcesOf(store, name, TEMPLATE_KINDS)) {
          const before = known?.get(source.object);
          const isGood = before?.epoch === since && (before.keeps === undefined || !isStricter(level, before.keeps));
          last = isGood ? before : { epoch: since, template: admitted(source, surroundings) };
          seen.set(source.object, last);
          if (last.template) yield last.template;
        }
        if (seen.size > 0) memories.set(name, seen);
        else memories.delete(name);
      }
      return {
        templates: { [Symbol.iterator]: templates },
        onKept() {
          if (last === undefined) return;
          last.keeps = level;
          last.template = undefined;
        },
      };
    },
    forget(reach) {
      epoch++;
      if (reach === 'all') {
        allSince = epoch;
        epochs.clear();
      } else for (const name of reach) epochs.set(name, epoch);
    },
    leave(name) {
      memories.delete(name);
      epochs.delete(name);
    },
    reset() {
      memories.clear();
      epochs.clear();
    },
  };
}

function admitted({ kind, object }: PodSource, surroundings: TemplateSurroundings): TemplatePod | undefined {
  return templatePodOf(kind, object, surroundings);
}
