import { decodeScc, type SccFields } from './decode/scc.ts';
import { scoreOf } from './score.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from './strategies/index.ts';
import type { ContainerRule, PodRule } from './strategies/types.ts';

/** An SCC as decisions use it. */
export interface PreparedScc {
  readonly name: string;
  readonly fields: SccFields;
  /** Its first field of a wrong type, as a message. */
  readonly problem: string | undefined;
  /** The higher, the laxer. */
  readonly score: number;
  /** Built when first tried. */
  rules(): Rules;
}

export interface Rules {
  readonly pod: readonly PodRule[];
  readonly container: readonly ContainerRule[];
}

const prepared = new WeakMap<object, PreparedScc>();

/** What an SCC amounts to; remembered for as long as the object lives, which must not change. */
export function prepareScc(scc: unknown): PreparedScc {
  if (typeof scc !== 'object' || scc === null) return prepare(scc);
  let known = prepared.get(scc);
  if (known === undefined) prepared.set(scc, (known = prepare(scc)));
  return known;
}

function prepare(scc: unknown): PreparedScc {
  const { fields, problem } = decodeScc(scc);
  let rules: Rules | undefined;
  return { name: fields.name, fields, problem, score: scoreOf(fields), rules: () => (rules ??= rulesOf(fields)) };
}

function rulesOf(fields: SccFields): Rules {
  return {
    pod: POD_STRATEGIES.map((strategy) => strategy(fields)).filter((rule) => rule !== undefined),
    container: CONTAINER_STRATEGIES.map((strategy) => strategy(fields)).filter((rule) => rule !== undefined),
  };
}
