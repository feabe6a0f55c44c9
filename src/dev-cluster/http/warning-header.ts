/**
 * A warning as an HTTP header. Header values are bytes, and Node writes one per character: so the characters are the
 * bytes of the UTF-8 form.
 * @see https://www.rfc-editor.org/rfc/rfc7234#section-5.5
 */
export function warningHeader(text: string): string {
  const quoted = text.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
  return `299 - "${Buffer.from(quoted, 'utf8').toString('latin1')}"`;
}
