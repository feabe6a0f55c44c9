/**
 * Stores the playground's state in a URL fragment as compressed JSON, and opens the file to which a link refers. Both
 * are untrusted input.
 */
import { LIMITS } from '../kube/limits.ts';
import { isObject } from '../kube/types.ts';
import { isLevel, type Level, parseVersion, type Version } from '../policy/pss/index.ts';

/** The state that a link contains. */
export interface SharedState {
  readonly text: string;
  readonly level: Level;
  readonly version: Version;
}

/** Prefix of fragments in this format. */
const PREFIX = '#v1.';

/** Returns the fragment for a state, including the leading `#`. */
export async function encodeState(state: SharedState): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const chunks = await readAll(new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate-raw')));
  const base64 = btoa(chunks.flatMap((chunk) => Array.from(chunk, (byte) => String.fromCharCode(byte))).join(''));
  return (
    PREFIX +
    base64
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replace(/={1,2}$/, '')
  );
}

/** Returns the state in a fragment, or the reason why it cannot be read. */
export async function decodeState(fragment: string): Promise<SharedState | { readonly problem: string }> {
  if (!fragment.startsWith(PREFIX)) return invalid('its format is unknown');
  if (fragment.length > LIMITS.fragmentCharacters) return invalid('it is too long');
  let value: unknown;
  try {
    const base64 = fragment.slice(PREFIX.length).replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    // In JSON, a character such as \u0000 takes up to six bytes.
    const chunks = await readAll(stream, 6 * LIMITS.playgroundCharacters);
    value = JSON.parse(await new Blob(chunks).text());
  } catch {
    return invalid('it is damaged or incomplete');
  }
  const { text, level, version } = isObject(value) ? value : {};
  const known = typeof version === 'string' ? parseVersion(version) : undefined;
  if (typeof text !== 'string' || text.length > LIMITS.playgroundCharacters)
    return invalid('it contains no manifests, or too many');
  if (!isLevel(level) || known === undefined) return invalid('its level or its version is unknown');
  return { text, level, version: known };
}

/** Time limit of the request for a file. */
const TIMEOUT_MS = 10_000;

/**
 * Returns the text of a file, or the reason why it cannot be read. The location is an http, https or data URL, or a
 * path on the page's site.
 */
export async function openManifest(location: string, page: string): Promise<string | { readonly problem: string }> {
  const url = URL.canParse(location, page) ? new URL(location, page) : undefined;
  const unreadable = (reason: string): { readonly problem: string } => {
    const name = (url?.href ?? location).slice(0, 200);
    return { problem: `The file cannot be opened: ${name}: ${reason}.` };
  };
  if (url === undefined || !/^(?:https?|data):$/.test(url.protocol))
    return unreadable('manifest must be an http, https or data URL, or a path on the same site');
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const response = await fetch(url, { credentials: 'omit', signal });
    if (!response.ok) return unreadable(`the server returned status ${response.status}`);
    if (response.headers.get('content-type')?.startsWith('text/html') === true)
      return unreadable('it is a web page: use the URL of the file itself, such as its "raw" view');
    // In UTF-8, a character of a JavaScript string takes at most three bytes.
    const chunks = await readAll(response.body ?? new Blob([]).stream(), 3 * LIMITS.playgroundCharacters);
    const text = await new Blob(chunks).text();
    return text.length > LIMITS.playgroundCharacters ? unreadable(TOO_LARGE) : text;
  } catch (error) {
    if (error instanceof RangeError) return unreadable(TOO_LARGE);
    return unreadable(
      signal.aborted
        ? `the server did not respond within ${TIMEOUT_MS / 1000} seconds`
        : 'its server cannot be reached, or does not permit other sites to read the file',
    );
  }
}

const TOO_LARGE = `it has more than ${LIMITS.playgroundCharacters} characters: use portcullis check`;

function invalid(reason: string): { readonly problem: string } {
  return { problem: `The link cannot be read: ${reason}.` };
}

/** Reads a stream. Rejects once it exceeds `limit` bytes, because a few compressed bytes can expand to gigabytes. */
async function readAll(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  limit = Infinity,
): Promise<Uint8Array<ArrayBuffer>[]> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const reader = stream.getReader();
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > limit) {
      await reader.cancel();
      throw new RangeError('too long');
    }
    chunks.push(read.value);
  }
  return chunks;
}
