import { patternError, type Node, type Place, type Test } from './types.ts';

/** One step: take a character, go on if the place is right, or go on in several ways at once. */
type Step =
  | { readonly test: Test; readonly next: number }
  | { readonly place: Place; readonly next: number }
  | { to: readonly number[] };

/** A pattern as steps, the last of which is number 0: whoever comes there has found a match. */
export interface Program {
  readonly steps: readonly Step[];
  readonly start: number;
}

const MATCH = 0;
const MAX_STEPS = 10_000;

/** Makes the steps for a pattern. Throws SyntaxError if they would be too many. */
export function createProgram(node: Node, pattern: string): Program {
  const steps: Step[] = [{ to: [] }];
  const push = (step: Step): number => {
    if (steps.length >= MAX_STEPS) throw patternError('expression too large', pattern);
    return steps.push(step) - 1;
  };
  /** The step with which the part begins, when another one follows it. */
  const before = (part: Node, next: number): number => {
    switch (part.kind) {
      case 'character':
        return push({ test: part.test, next });
      case 'place':
        return push({ place: part.place, next });
      case 'sequence':
        return part.items.reduceRight((follower, item) => before(item, follower), next);
      case 'choice':
        return push({ to: part.items.map((item) => before(item, next)) });
      case 'repeat':
        return beforeRepeat(part.item, part.min, part.max, next);
    }
  };
  const beforeRepeat = (item: Node, min: number, max: number, next: number): number => {
    let start = next;
    if (max === Infinity) {
      const fork = { to: [next] };
      start = push(fork);
      fork.to = [before(item, start), next];
    } else {
      for (let count = min; count < max; count++) start = push({ to: [before(item, start), next] });
    }
    for (let count = 0; count < min; count++) start = before(item, start);
    return start;
  };
  return { steps, start: before(node, MATCH) };
}

/**
 * True if the pattern is found anywhere in the text. It follows all ways at once, so that the time grows with the text and
 * not with the number of ways.
 */
export function run({ steps, start }: Program, text: string): boolean {
  const reached = new Uint32Array(steps.length);
  let current: number[] = [];
  let round = 0;
  let before: number | undefined;
  let index = 0;
  for (;;) {
    round++;
    const after = text.codePointAt(index);
    const waiting = [...current, start];
    current = [];
    for (let step = waiting.pop(); step !== undefined; step = waiting.pop()) {
      if (step === MATCH) return true;
      if (reached[step] === round) continue;
      reached[step] = round;
      const one = steps[step];
      if (one === undefined) continue;
      if ('to' in one) waiting.push(...one.to);
      else if ('place' in one) {
        if (isAt(one.place, before, after)) waiting.push(one.next);
      } else if (after !== undefined && one.test(after)) current.push(one.next);
    }
    if (after === undefined) return false;
    index += after > 0xffff ? 2 : 1;
    before = after;
  }
}

const LINE_FEED = 10;

/** Undefined stands for the ends of the text. */
function isAt(place: Place, before: number | undefined, after: number | undefined): boolean {
  switch (place) {
    case 'text start':
      return before === undefined;
    case 'text end':
      return after === undefined;
    case 'line start':
      return before === undefined || before === LINE_FEED;
    case 'line end':
      return after === undefined || after === LINE_FEED;
    case 'word edge':
      return isWord(before) !== isWord(after);
    case 'no word edge':
      return isWord(before) === isWord(after);
  }
}

function isWord(codePoint: number | undefined): boolean {
  return codePoint !== undefined && /\w/.test(String.fromCodePoint(codePoint));
}
