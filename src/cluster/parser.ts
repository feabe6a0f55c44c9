/**
 * Collects the bytes of lists and watch events, and parses them. Parses large texts, including large reviews, in a
 * worker thread.
 */
import type { Worker } from 'node:worker_threads';
import { type LimitName, LIMITS } from '../kube/limits.ts';
import type { JsonObject } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';
import { createBytes, ownBytes } from './bytes.ts';
import { createSlots, type Slots } from './clock.ts';
import { parseAndFree, parseJson, TooLargeError } from './json.ts';
import { type Parsed, parse, type ParseJob } from './parse.ts';
import { reduceReview } from './reviews.ts';
import { createWorkerClient, isOutOfMemory, startWorker } from './worker-client.ts';

/** A message to the worker. Its bytes are transferred. */
export interface ParseMessage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly job: ParseJob | ReviewJob;
}

interface ReviewJob {
  readonly form: 'review';
  /** True if the objects of the review remain complete. */
  readonly isWhole: boolean;
}

/** The part of a large review that decisions read. */
interface ReducedReview {
  readonly text: Buffer;
  /** Number of JSON values. */
  readonly values: number;
}

/** The worker's response. Each part is the JSON text of a list of objects. */
export type ParseResult =
  | { readonly head: JsonObject; readonly parts: readonly Uint8Array<ArrayBuffer>[] | undefined }
  | { readonly error: string; readonly limit?: LimitName };

/** A parsed list or watch event. */
export interface ParsedParts extends Pick<Parsed, 'head'> {
  /** Functions that return the objects of each part. Each function takes only a few milliseconds. */
  readonly parts: readonly (() => readonly JsonObject[])[] | undefined;
}

/** Complete bytes, which must be released once they are parsed. */
interface Collected {
  readonly bytes: Buffer;
  release(): void;
}

export interface Parser {
  /**
   * Reads a body. Rejects with a TooLargeError as soon as it exceeds the limit, and with the error of the stream.
   */
  collect(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Collected>;
  /** Yields the lines of a body. A line is released when the next line is requested. */
  lines(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void>;
  /**
   * Parses bytes. Rejects with a SyntaxError if the text is not JSON, and with a TooLargeError if it exceeds a limit.
   */
  parse(bytes: Buffer, job: ParseJob): Promise<ParsedParts>;
  /**
   * Reduces a large review to the parts that decisions read. Rejects with the same errors as `parse`. The bytes are
   * transferred, so the buffer is empty afterwards.
   */
  reduceReview(bytes: Buffer, isWhole: boolean): Promise<ReducedReview>;
  close(): Promise<void>;
}

/** Heap limits of the worker in MiB. Objects that API servers store need at most half of this memory. */
const HEAP_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };

export function startParseWorker(): Worker {
  return startWorker('parse-worker', import.meta.url, HEAP_LIMITS);
}

/**
 * Maximum size of unfinished bodies and lines that do not need a slot, so several of them may exist at the same time.
 */
const SMALL_BYTES = 256 * 1024;

/** Creates a parser. Without a worker, it parses all texts in the main thread, as commands do. */
export function createParser(start?: () => Worker): Parser {
  const worker = start && createWorkerClient<ParseMessage, ParseResult>(start);
  const large = createSlots(1);
  return {
    async collect(body, maxBytes) {
      const buffer = createBuffer(maxBytes, large);
      try {
        for await (const chunk of body) await buffer.add(chunk);
        return { bytes: buffer.take(), release: buffer.release };
      } catch (error) {
        buffer.release();
        throw error;
      }
    },
    async *lines(body) {
      const buffer = createBuffer(LIMITS.responseBytes, large);
      try {
        for await (const chunk of body) {
          let start = 0;
          for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
            await buffer.add(chunk.subarray(start, end));
            yield buffer.take();
            buffer.release();
            start = end + 1;
          }
          await buffer.add(chunk.subarray(start));
        }
      } finally {
        buffer.release();
      }
    },
    async parse(bytes, job) {
      if (worker === undefined || bytes.length <= LIMITS.mainThreadBytes) {
        const { head, items } = parse(parseJson(bytes), job);
        return { head, parts: items && [() => items] };
      }
      const { head, parts } = await send(bytes, job, worker);
      return {
        head,
        parts: parts?.map((part) => () => parseAndFree(part) as JsonObject[]),
      };
    },
    async reduceReview(bytes, isWhole) {
      if (worker === undefined) return reduceReview(() => parseJson(bytes), isWhole);
      const { head, parts } = await send(bytes, { form: 'review', isWhole }, worker);
      const [text = new Uint8Array()] = parts ?? [];
      return { text: Buffer.from(text.buffer), values: Number(head['values']) };
    },
    close: async () => worker?.close(),
  };
}

type ParseWorker = ReturnType<typeof createWorkerClient<ParseMessage, ParseResult>>;

/** Sends bytes to the worker, which parses them. The bytes are transferred. */
async function send(bytes: Buffer, job: ParseMessage['job'], worker: ParseWorker) {
  const own = ownBytes(bytes);
  const result = await worker.send({ bytes: own, job }, [own.buffer]).catch((error: unknown) => {
    throw isOutOfMemory(error)
      ? new TooLargeError('jsonValues', 'the parser ran out of memory', { cause: error })
      : error;
  });
  if (!('error' in result)) return result;
  if (result.limit === undefined) throw new SyntaxError(result.error);
  // An exceeded limit of a review is counted elsewhere, with its decision.
  if (job.form !== 'review') countExceeded(result.limit);
  throw new TooLargeError(result.limit, result.error);
}

const NEWLINE = 0x0a;

/** Creates a buffer, which occupies a slot while it is larger than `SMALL_BYTES`. */
function createBuffer(maxBytes: number, large: Slots) {
  const bytes = createBytes(maxBytes);
  let leave: (() => void) | undefined;
  return {
    async add(chunk: Buffer): Promise<void> {
      const length = bytes.length() + chunk.length;
      if (length > maxBytes) {
        const limit = maxBytes === LIMITS.pageBytes ? 'pageBytes' : 'responseBytes';
        countExceeded(limit);
        throw new TooLargeError(limit, `more than ${maxBytes} bytes`);
      }
      if (length > SMALL_BYTES) leave ??= await large.take();
      bytes.add(chunk);
    },
    take: bytes.take,
    release(): void {
      bytes.take();
      leave?.();
      leave = undefined;
    },
  };
}
