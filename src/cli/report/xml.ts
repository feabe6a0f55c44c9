/** An element: its attributes, and what it holds. */
export interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly content: readonly Element[] | string;
}

export function element(name: string, attributes: Element['attributes'], content: Element['content'] = ''): Element {
  return { name, attributes, content };
}

/** Writes a whole document. */
export function printXml(root: Element): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${print(root, '')}\n`;
}

function print({ name, attributes, content }: Element, indent: string): string {
  const pairs = Object.entries(attributes).map(([key, value]) => ` ${key}="${escapeAttribute(String(value))}"`);
  const start = `${indent}<${name}${pairs.join('')}`;
  if (content.length === 0) return `${start}/>`;
  if (typeof content === 'string') return `${start}>${escape(content)}</${name}>`;
  return [`${start}>`, ...content.map((child) => print(child, `${indent}  `)), `${indent}</${name}>`].join('\n');
}

/** What XML 1.0 has no way to write, not even escaped. */
const IMPOSSIBLE = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/** Line ends in attributes would be read as spaces. */
function escapeAttribute(text: string): string {
  return escape(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;');
}

function escape(text: string): string {
  return text
    .replace(IMPOSSIBLE, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('\r', '&#13;');
}
