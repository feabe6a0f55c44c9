/**
 * Regular expressions as Go knows them. Those of JavaScript know more (lookaheads, backreferences) and can be made to take
 * longer than anybody lives, by whoever writes the pattern together with whoever writes the text.
 */
import { parsePattern } from './parse.ts';
import { createProgram, run, type Program } from './program.ts';

export type Pattern =
  { readonly ok: true; matches(text: string): boolean } | { readonly ok: false; readonly error: string };

const known = new Map<string, Pattern>();
const MAX_KNOWN = 500;

/** Reads a pattern; the error is that of Go. Patterns that were read before are remembered. */
export function readPattern(text: string): Pattern {
  let pattern = known.get(text);
  if (pattern) return pattern;
  pattern = read(text);
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(text, pattern);
  return pattern;
}

/** Steps times characters: what goes beyond would take seconds. */
const MAX_WORK = 20_000_000;

function read(text: string): Pattern {
  let program: Program;
  try {
    program = createProgram(parsePattern(text), text);
  } catch (error) {
    if (error instanceof SyntaxError) return { ok: false, error: error.message };
    throw error;
  }
  const { steps } = program;
  return { ok: true, matches: (value) => value.length * steps.length <= MAX_WORK && run(program, value) };
}
