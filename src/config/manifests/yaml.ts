import { parseAllDocuments, type Document } from 'yaml';
import { TOO_DEEP, type Parsed } from './node.ts';
import { createYamlReader } from './yaml-reader.ts';

/** All but what YAML allows in a text. */
const CONTROL = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

/** Scalars are all strings to the library ("failsafe"): what they mean to kubectl is up to `scalar.ts`. */
const OPTIONS = { schema: 'failsafe', resolveKnownTags: false, uniqueKeys: false, prettyErrors: false } as const;

/** The library recurses; there is no other way to learn that it went too deep. */
const STACK_OVERFLOW = /call stack/;

/** Reads the YAML documents of a text; one that is broken gives a failure. */
export function readYaml(text: string): readonly Parsed[] {
  const control = text.search(CONTROL);
  if (control >= 0) return [failed(control, 'control characters are not allowed')];
  try {
    const documents: Document.Parsed[] = parseAllDocuments(text, OPTIONS);
    const wentTooDeep = documents.some(({ errors }) => errors.some(({ message }) => STACK_OVERFLOW.test(message)));
    return wentTooDeep ? [tooDeep(text)] : documents.map((document) => readYamlDocument(document));
  } catch (error) {
    if (error instanceof RangeError && STACK_OVERFLOW.test(error.message)) return [tooDeep(text)];
    throw error;
  }
}

function readYamlDocument(document: Document.Parsed): Parsed {
  const [error] = document.errors;
  if (error) return failed(error.pos[0], error.message);
  const reader = createYamlReader();
  const node = reader.read(document.contents);
  return { node, duplicateKeys: reader.duplicateKeys, failure: reader.failure() };
}

function tooDeep(text: string): Parsed {
  return failed(Math.max(text.search(/\S/), 0), TOO_DEEP);
}

function failed(offset: number, message: string): Parsed {
  return { node: { value: null, offset }, duplicateKeys: [], failure: { offset, message } };
}
