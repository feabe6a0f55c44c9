/** Parsed JSON, or the error of the parser. */
export type JsonText = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: string };

/** Parses the response of a webhook. */
export function readJson(text: string): JsonText {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    return { ok: false, error: (error as Error).message };
  }
}
