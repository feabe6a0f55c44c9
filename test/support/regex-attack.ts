/**
 * Finds texts on which a regular expression takes more than linear time. The search builds the automaton of the pattern
 * and looks for ambiguous loops, which cause superlinear backtracking. It then measures the texts that exploit these
 * loops.
 */
import { setImmediate } from 'node:timers/promises';

/** Part of a pattern. Anchors, backreferences and lookbehinds are empty. A lookahead is an optional part. */
type Node =
  | { readonly type: 'character'; readonly source: string }
  | { readonly type: 'sequence' | 'choice'; readonly nodes: readonly Node[] }
  | { readonly type: 'loop'; readonly node: Node; readonly canSkip: boolean };

const EMPTY: Node = { type: 'sequence', nodes: [] };

/** Parses the source of a valid regular expression. */
function parse(source: string): Node {
  let at = 0;
  const eat = (text: string): boolean => {
    const isNext = source.startsWith(text, at);
    if (isNext) at += text.length;
    return isNext;
  };
  const match = (pattern: RegExp): string => {
    const [text = ''] = new RegExp(pattern, 'uy')[Symbol.match](source.slice(at)) ?? [];
    at += text.length;
    return text;
  };
  const parseChoice = (): Node => {
    const nodes = [parseSequence()];
    while (eat('|')) nodes.push(parseSequence());
    return { type: 'choice', nodes };
  };
  const parseSequence = (): Node => {
    const nodes: Node[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') nodes.push(quantify(parseAtom()));
    return { type: 'sequence', nodes };
  };
  const parseGroup = (): Node => {
    const isLookbehind = eat('?<=') || eat('?<!');
    const isLookahead = eat('?=') || eat('?!');
    if (!isLookbehind && !isLookahead) match(/\?(?::|<[^>]*>)/);
    const node = parseChoice();
    eat(')');
    if (isLookbehind) return EMPTY;
    return isLookahead ? { type: 'choice', nodes: [EMPTY, node] } : node;
  };
  const parseAtom = (): Node => {
    if (eat('(')) return parseGroup();
    if (match(/[\^$]|\\[bB]|\\[1-9]|\\k<[^>]*>/) !== '') return EMPTY;
    const text = match(/\[(?:[^\]\\]|\\.)*\]|\\(?:u\{[^}]*\}|u[\da-f]{4}|x[\da-f]{2}|[pP]\{[^}]*\}|c[A-Z]|.)|./is);
    return { type: 'character', source: text };
  };
  const quantify = (node: Node): Node => {
    const [, bounds = ''] = /^([*+?]|\{\d+(?:,\d*)?\})?/.exec(match(/[*+?]|\{\d+(?:,\d*)?\}/)) ?? [];
    if (bounds !== '') eat('?');
    if (bounds === '*' || bounds === '+') return { type: 'loop', node, canSkip: bounds === '*' };
    if (bounds === '?') return { type: 'choice', nodes: [node, EMPTY] };
    if (bounds === '') return node;
    const [low = '0', high = low] = bounds.slice(1, -1).split(',');
    // Two copies are as ambiguous as more copies.
    const copies = Array.from({ length: Math.min(Number(low), 2) }, () => node);
    if (high === '') return { type: 'sequence', nodes: [...copies, { type: 'loop', node, canSkip: true }] };
    const more = Math.min(Number(high) - Number(low), 2);
    const optional = Array.from({ length: more }, (): Node => ({ type: 'choice', nodes: [node, EMPTY] }));
    return { type: 'sequence', nodes: [...copies, ...optional] };
  };
  return parseChoice();
}

/**
 * Automaton with one state for each character of the pattern. If a successor occurs twice, it is reachable in two ways.
 */
interface Automaton {
  readonly sources: readonly string[];
  readonly first: readonly number[];
  readonly next: readonly (readonly number[])[];
}

function build(root: Node): Automaton {
  const sources: string[] = [];
  const next: number[][] = [];
  interface Part {
    readonly first: readonly number[];
    readonly last: readonly number[];
    readonly isEmpty: boolean;
  }
  const connect = (from: readonly number[], to: readonly number[]): void => {
    for (const state of from) next[state]?.push(...to);
  };
  const visit = (node: Node): Part => {
    if (node.type === 'character') {
      const state = sources.push(node.source) - 1;
      next.push([]);
      return { first: [state], last: [state], isEmpty: false };
    }
    if (node.type === 'loop') {
      const part = visit(node.node);
      connect(part.last, part.first);
      return { ...part, isEmpty: part.isEmpty || node.canSkip };
    }
    const parts = node.nodes.map(visit);
    if (node.type === 'choice') {
      const isEmpty = parts.some((part) => part.isEmpty);
      return { first: parts.flatMap(({ first }) => first), last: parts.flatMap(({ last }) => last), isEmpty };
    }
    return parts.reduce(
      (before, part) => {
        connect(before.last, part.first);
        return {
          first: before.isEmpty ? [...before.first, ...part.first] : before.first,
          last: part.isEmpty ? [...before.last, ...part.last] : part.last,
          isEmpty: before.isEmpty && part.isEmpty,
        };
      },
      { first: [], last: [], isEmpty: true },
    );
  };
  return { first: visit(root).first, sources, next };
}

const COMMON = ['a', 'Z', '0', '_', ' ', '\t', '\n', '-', '.', '/', '\\', '"', '[', ':', '\0', 'é', '\u2028', '😀'];

/** Texts of the form `prefix`, repeated `pump`, `suffix`. */
interface Attack {
  readonly prefix: string;
  readonly pump: string;
  readonly suffix: string;
}

/** Returns attacks for the ambiguous loops of a pattern, and for loops of each of its characters. */
export function findAttacks({ source, flags }: RegExp): readonly Attack[] {
  const automaton = build(parse(source));
  const isAnchored = source.startsWith('^') && !flags.includes('m') && !/^\^[^(]*\|/.test(source);
  const { sources, next, first } = addStart(automaton, isAnchored || flags.includes('y'));
  const literals = sources.map((one) => one.replace(/^\\/, '')).filter((one) => Array.from(one).length === 1);
  const plainFlags = flags.replace(/[gy]/g, '');
  const testers = new Map(
    [...new Set(sources)].map((one) => [one, new RegExp(`^(?:${one})$`, one === ANY ? 'su' : plainFlags)]),
  );
  const isAccepted = (one: string, character: string): boolean => testers.get(one)?.test(character) ?? false;
  // All parts of the pattern treat the characters of a set alike, so one character of each set suffices.
  const alike = Map.groupBy(new Set([...literals, ...COMMON]), (character) =>
    [...testers.keys()].map((one) => Number(isAccepted(one, character))).join(''),
  );
  const alphabet = [...alike.values()].flatMap(([character]) => character ?? []);
  const accepts = sources.map((one) => alphabet.filter((character) => isAccepted(one, character)));
  const graph: Graph = {
    successors: (state) =>
      (next[state] ?? []).flatMap((to) => (accepts[to] ?? []).map((character) => ({ to, character }))),
  };
  const pumps = new Map<string, string>();
  for (const character of alphabet) pumps.set(character, '');
  for (const state of sources.keys()) {
    const reachable = findReachable(next, state);
    if (!reachable.has(state)) continue;
    for (const other of reachable) {
      if (!findReachable(next, other).has(other)) continue;
      const pump = findPump(graph, state, other, next);
      if (pump !== undefined) pumps.set(pump, findWord(graph, first, accepts, state));
    }
  }
  const suffixes = ['', ...alphabet];
  return [...pumps].flatMap(([pump, prefix]) => suffixes.map((suffix) => ({ prefix, pump, suffix })));
}

const ANY = '[^]';

/** Adds the state that skips characters before a match, because the search starts at each position. */
function addStart(automaton: Automaton, isAnchored: boolean): Automaton {
  if (isAnchored) return automaton;
  const { sources, next, first } = automaton;
  const start = sources.length;
  return { sources: [...sources, ANY], next: [...next, [start, ...first]], first: [start, ...first] };
}

function findReachable(next: Automaton['next'], from: number): ReadonlySet<number> {
  const found = new Set<number>();
  const queue = [from];
  for (let state = queue.pop(); state !== undefined; state = queue.pop()) {
    for (const to of next[state] ?? []) {
      if (!found.has(to)) queue.push(to);
      found.add(to);
    }
  }
  return found;
}

interface Graph {
  successors(state: number): readonly { readonly to: number; readonly character: string }[];
}

/** Limits the search in large automata. */
const MAX_STATES = 20_000;

/**
 * Returns a text that leads from `p` to `p`, from `p` to `q`, and from `q` to `q`, so its repetitions can be split
 * between the loops in many ways. If `q` is `p`, the text leads from `p` to `p` in two ways.
 */
function findPump(graph: Graph, p: number, q: number, next: Automaton['next']): string | undefined {
  const inP = findReachable(next, p);
  type Triple = readonly [first: number, middle: number, last: number, isSplit: boolean, text: string];
  const queue: Triple[] = [[p, p, q, p !== q, '']];
  const seen = new Set<string>();
  for (const [a, b, c, isSplit, text] of queue) {
    if (queue.length > MAX_STATES) return undefined;
    const [nextA, nextB, nextC] = [graph.successors(a), graph.successors(b), graph.successors(c)];
    for (const [indexA, toA] of nextA.entries()) {
      if (!inP.has(toA.to)) continue;
      for (const [indexB, toB] of nextB.entries()) {
        if (toB.character !== toA.character) continue;
        const splits = isSplit || toA.to !== toB.to || (a === b && indexA !== indexB);
        for (const toC of p === q ? [toB] : nextC) {
          if (toC.character !== toA.character) continue;
          const state: Triple = [toA.to, toB.to, toC.to, splits, text + toA.character];
          if (splits && toA.to === p && toB.to === q && toC.to === q) return state[4];
          const key = state.slice(0, 4).join();
          if (!seen.has(key)) queue.push(state);
          seen.add(key);
        }
      }
    }
  }
  return undefined;
}

/** Returns a text that leads to a state. */
function findWord(
  graph: Graph,
  first: readonly number[],
  accepts: readonly (readonly string[])[],
  target: number,
): string {
  const queue = first.flatMap((state) => (accepts[state] ?? []).slice(0, 1).map((text) => ({ state, text })));
  const seen = new Set(first);
  for (const { state, text } of queue) {
    if (state === target) return text;
    for (const { to, character } of graph.successors(state)) {
      if (!seen.has(to)) queue.push({ state: to, text: text + character });
      seen.add(to);
    }
  }
  return '';
}

/** A linear match of the longest text takes less than a tenth of this time. */
const MAX_MS = 50;
/** Numbers of repetitions. The first numbers reveal exponential time before it becomes too long. */
const REPETITIONS = [8, 12, 16, 20, 24, 28, 32, 64, 512, 4096, 16_384, 32_768];

/** Returns the first text that takes more than linear time, with its time, or `undefined`. */
export async function findSlowText(pattern: RegExp): Promise<string | undefined> {
  for (const { prefix, pump, suffix } of findAttacks(pattern)) {
    for (const repetitions of REPETITIONS) {
      const text = prefix + pump.repeat(repetitions) + suffix;
      const timeMs = measure(pattern, text);
      if (timeMs <= MAX_MS) continue;
      // The measurement is repeated twice and the fastest time counts, because other programs may interrupt some
      // measurements.
      if (timeMs < 1000 && Math.min(measure(pattern, text), measure(pattern, text)) <= MAX_MS) continue;
      const [start, repeated, end] = [prefix, pump, suffix].map((part) => JSON.stringify(part));
      return `${start} + ${repeated}.repeat(${repetitions}) + ${end} takes ${Math.round(timeMs)} ms`;
    }
  }
  await setImmediate();
  return undefined;
}

function measure(pattern: RegExp, text: string): number {
  const startMs = performance.now();
  if (pattern.global || pattern.sticky) text.replaceAll(new RegExp(pattern, `${pattern.flags.replace('g', '')}g`), '');
  else pattern.exec(text);
  return performance.now() - startMs;
}
