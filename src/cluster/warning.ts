/** A warning: a code, the name of who warns, and the text in quotes; a date may follow. */
const WARNING = /^\s*,?\s*\d{3} \S+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?/;

/**
 * The texts of `Warning` headers, in their order; what is no warning, and all after it in the same header, says nothing.
 * @see https://www.rfc-editor.org/rfc/rfc7234#section-5.5
 */
export function readWarnings(headers: readonly string[]): readonly string[] {
  return headers.flatMap(readHeader);
}

function readHeader(header: string): readonly string[] {
  const texts: string[] = [];
  let rest = header;
  for (;;) {
    const match = WARNING.exec(rest);
    if (match === null) return texts;
    // Node reads a byte as a character.
    texts.push(Buffer.from((match[1] ?? '').replaceAll(/\\(.)/g, '$1'), 'latin1').toString('utf8'));
    rest = rest.slice(match[0].length);
  }
}
