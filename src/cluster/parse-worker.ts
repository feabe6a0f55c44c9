/** Worker thread that parses large lists, watch events and reviews. */
import { parentPort } from 'node:worker_threads';
import { collectGarbage } from './bytes.ts';
import { parseAndFree, TooLargeError } from './json.ts';
import { type Parsed, parse } from './parse.ts';
import type { ParseMessage, ParseResult } from './parser.ts';
import { reduceReview } from './reviews.ts';

/** Size of the parts of a list, which the main thread parses one at a time. */
const PART_CHARACTERS = 64 * 1024;

function toResult({ head, items }: Parsed): ParseResult {
  const texts = items?.map((item) => JSON.stringify(item)) ?? [];
  const parts: string[][] = [];
  let length = Infinity;
  for (const text of texts) {
    if (length > PART_CHARACTERS) {
      parts.push([]);
      length = 0;
    }
    parts.at(-1)?.push(text);
    length += text.length;
  }
  const encoder = new TextEncoder();
  return { head, parts: items && parts.map((part) => encoder.encode(`[${part.join()}]`)) };
}

function run({ bytes, job }: ParseMessage): ParseResult {
  const parseBytes = (): unknown => parseAndFree(bytes);
  try {
    if (job.form !== 'review') return toResult(parse(parseBytes(), job));
    const { text, values } = reduceReview(parseBytes, job.isWhole);
    return { head: { values }, parts: [Uint8Array.from(text)] };
  } catch (error) {
    if (error instanceof TooLargeError) return { error: error.message, limit: error.limit };
    if (error instanceof SyntaxError) return { error: error.message };
    throw error;
  }
}

/**
 * Size above which garbage is collected after a text. Texts are not part of the heap, so V8 would keep up to 64 MiB of
 * them.
 */
const SMALL_BYTES = 1024 * 1024;

parentPort?.on('message', (message: ParseMessage) => {
  const isLarge = message.bytes.length > SMALL_BYTES;
  const result = run(message);
  const parts = 'parts' in result ? (result.parts ?? []) : [];
  parentPort?.postMessage(
    result,
    parts.map(({ buffer }) => buffer),
  );
  if (isLarge) collectGarbage({ type: 'major' });
});
