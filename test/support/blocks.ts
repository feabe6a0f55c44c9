import { type Blocks, uniteBlocks } from '../../src/policy/uid-range/index.ts';

export function blockSet(indexes: readonly number[]): Blocks {
  return uniteBlocks(indexes.map((index) => ({ first: index, last: index })));
}

export function blockIndexes(blocks: Blocks): readonly number[] {
  return blocks.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, offset) => first + offset));
}
