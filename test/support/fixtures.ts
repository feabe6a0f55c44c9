import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

/** Reads a YAML file below `test/fixtures`. Anchors and merge keys are expanded. */
export function readFixture<T>(name: string): T {
  const text = readFileSync(new URL(`../fixtures/${name}`, import.meta.url), 'utf8');
  return parse(text, { merge: true }) as T;
}
