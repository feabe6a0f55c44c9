import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES, podSourcesOf, type PodSource } from '../../cluster/workloads.ts';
import type { Reach } from '../../policy/psa/label-sync.ts';
import { isStricter } from '../../policy/psa/policy.ts';
import { templatePodOf, type TemplatePod, type TemplateSurroundings } from '../../policy/psa/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';

/** The templates of namespaces as they would be admitted; each is admitted once, until something about it changes. */
export interface AdmittedTemplates {
  /** Those that have yet to be judged at the level, and those that do not keep it. */
  in(store: Store, level: Level, surroundings: TemplateSurroundings): Iterable<TemplatePod>;
  /** One of them keeps the level. */
  kept(template: TemplatePod, level: Level): void;
  /** What was admitted there has to be admitted again. */
  forget(reach: Reach): void;
  reset(): void;
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
  let memories = new WeakMap<object, Memory>();
  const judged = new WeakMap<TemplatePod, Memory>();
  const epochs = new Map<string, number>();
  let epoch = 0;
  let allSince = 0;

  const admit = ({ kind, object }: PodSource, surroundings: TemplateSurroundings, since: number): Memory => {
    const template = templatePodOf(kind, object, surroundings);
    const memory = { epoch: since, template };
    memories.set(object, memory);
    if (template) judged.set(template, memory);
    return memory;
  };
  return {
    *in(store, level, surroundings) {
      const name = surroundings.namespace.metadata?.name ?? '';
      const since = Math.max(allSince, epochs.get(name) ?? 0);
      for (const source of podSourcesOf(store, name, TEMPLATE_KINDS)) {
        const known = memories.get(source.object);
        const isFresh = known?.epoch === since && (known.keeps === undefined || !isStricter(level, known.keeps));
        const { template } = isFresh ? known : admit(source, surroundings, since);
        if (template) yield template;
      }
    },
    kept(template, level) {
      const memory = judged.get(template);
      if (memory === undefined) return;
      memory.keeps = level;
      memory.template = undefined;
    },
    forget(reach) {
      epoch++;
      if (reach === 'all') {
        allSince = epoch;
        epochs.clear();
      } else for (const name of reach) epochs.set(name, epoch);
    },
    reset() {
      memories = new WeakMap();
      epochs.clear();
    },
  };
}
