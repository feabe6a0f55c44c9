import { scanJson } from '../../fields/json-text.ts';

/** Parsed JSON, or what is wrong with the text in Go's words. */
export type JsonText = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: string };

/** Parses what a webhook has sent. */
export function readJson(text: string): JsonText {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    return { ok: false, error: scanJson(text).error ?? String(error) };
  }
}
