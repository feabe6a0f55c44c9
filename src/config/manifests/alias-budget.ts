/** From here on documents must have ever fewer nodes that come from aliases, from 99 % down to 10 %. */
const FREE_NODES = 400_000;
const STRICT_NODES = 4_000_000;

/** Counts nodes while aliases are written out, and tells when a small text would become a large value. */
export interface AliasBudget {
  /** Counts a node; false once too many of all come from aliases. */
  spend(): boolean;
  /** Counts the nodes read meanwhile as coming from an alias. */
  within<T>(read: () => T): T;
  /** True while an alias is written out. */
  expanding(): boolean;
}

/**
 * The rule of go-yaml, which kubectl uses.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.0/decode.go
 */
export function createAliasBudget(): AliasBudget {
  let nodes = 0;
  let aliased = 0;
  let depth = 0;
  return {
    spend() {
      nodes++;
      if (depth > 0) aliased++;
      return aliased <= 100 || nodes <= 1000 || aliased / nodes <= allowedShare(nodes);
    },
    within(read) {
      depth++;
      const result = read();
      depth--;
      return result;
    },
    expanding: () => depth > 0,
  };
}

function allowedShare(nodes: number): number {
  if (nodes <= FREE_NODES) return 0.99;
  if (nodes >= STRICT_NODES) return 0.1;
  return 0.99 - 0.89 * ((nodes - FREE_NODES) / (STRICT_NODES - FREE_NODES));
}
