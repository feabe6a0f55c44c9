import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES, podSourcesOf, type PodSource } from '../../cluster/workloads.ts';
import type { Reach } from '../../policy/psa/label-sync.ts';
import { isStricter } from '../../policy/psa/policy.ts';
import { templatePodOf, type TemplatePod, type TemplateSurroundings } from '../../policy/psa/readiness.ts';
import { evaluatePod } from '../../policy/pss/evaluate.ts';
import type { Level } from '../../policy/pss/types.ts';

/** The templates of namespaces as they would be admitted; each is admitted once, until something about it changes. */
export interface AdmittedTemplates {
  /** Those that have yet to be judged at the level, and those that do not keep it. */
  in(store: Store, level: Level, surroundings: TemplateSurroundings): Iterable<TemplatePod>;
  /** What was admitted there has to be admitted again. */
  forget(reach: Reach): void;
  reset(): void;
}

/** What is kept of a template: a level that it keeps, for that is all that matters; else its pod. */
interface Memory {
  readonly epoch: number;
  readonly keeps?: Level;
  readonly template?: TemplatePod | undefined;
}

export const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

/** Makes a memory that knows nothing yet. */
export function createAdmittedTemplates(): AdmittedTemplates {
  let memories = new WeakMap<object, Memory>();
  const epochs = new Map<string, number>();
  let epoch = 0;
  let allSince = 0;

  const admit = (source: PodSource, level: Level, surroundings: TemplateSurroundings, since: number): Memory => {
    const template = templatePodOf(source.kind, source.object, surroundings);
    const isKept = template === undefined || evaluatePod(template.pod, { level, version: 'latest' }).allowed;
    memories.set(source.object, isKept ? { epoch: since, keeps: level } : { epoch: since, template });
    return { epoch: since, template };
  };
  return {
    *in(store, level, surroundings) {
      const name = surroundings.namespace.metadata?.name ?? '';
      const since = Math.max(allSince, epochs.get(name) ?? 0);
      for (const source of podSourcesOf(store, name, TEMPLATE_KINDS)) {
        const known = memories.get(source.object);
        const isFresh = known?.epoch === since && (known.keeps === undefined || !isStricter(level, known.keeps));
        // One that has just been admitted is given in any case, so that whoever asks can pause after the work.
        const { template } = isFresh ? known : admit(source, level, surroundings, since);
        if (template) yield template;
      }
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
