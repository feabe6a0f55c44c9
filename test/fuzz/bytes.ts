/** Damages the bytes of a review, as broken or malicious clients do. */
import fc, { type Arbitrary } from 'fast-check';

/** A kind of damage, its position modulo the length of the review, and the text to insert. */
export interface Damage {
  readonly kind: keyof typeof DAMAGES;
  readonly where: number;
  readonly text: string;
}

const where = fc.nat({ max: 100_000 });
const nest = (depth: number, open: string, close: string): string => open.repeat(depth) + '1' + close.repeat(depth);

/** Replacements of values. */
const VALUES: readonly string[] = [
  ...['null', 'true', '0', '-0', '1e999', '-1e-999', '9'.repeat(400), '1.0', '0x10', '01', 'NaN', "''", 'undefined'],
  ...['""', '"\\ud800"', '"\\u0000"', '"\t"', '"\\x"', '"', '[]', '{}', '[null]', '[[],[]]'],
  ...['{"__proto__":{"privileged":true}}', '{"constructor":null}', '{"a":1,"a":2}', '{"":{}}', '{"toString":1}'],
  ...[nest(100, '[', ']'), nest(1000, '{"a":', '}')],
];

/** Replacements that each cost a server some milliseconds. */
const HUGE_VALUES: readonly string[] = [
  `"${'s'.repeat(1 << 19)}"`,
  ...[nest(20_000, '[', ']'), nest(200_000, '[', ']')],
  `[${'0,'.repeat(100_000)}0]`,
  `{${Array.from({ length: 20_000 }, (_, index) => `"k${index}":0`).join()}}`,
];

const INSERTS = ['{', '}', '[', ']', '"', ',', ':', '\\', '\0', '\u2028', '\ufeff', '/**/', ' '.repeat(1 << 16), '1'];
const BYTES = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));

/** The weight of each kind of damage, and its texts. */
const KINDS: readonly (readonly [kind: Damage['kind'], weight: number, texts: readonly string[]])[] = [
  ['cut', 8, ['']],
  ['repeat member', 12, ['']],
  ['insert', 8, INSERTS],
  ['replace value', 30, VALUES],
  ['replace value', 1, HUGE_VALUES],
  ['prepend', 2, ['\ufeff', ' \n\t\r', '[', '/*']],
  ['append', 2, ['\n', '\0', '{}', ']', '*/']],
  ['replace byte', 8, BYTES],
  ['encode', 4, ['utf16le', 'latin1']],
];

export const damage: Arbitrary<Damage> = fc.oneof(
  ...KINDS.map(([kind, weight, texts]) => ({
    weight,
    arbitrary: fc.record({ kind: fc.constant(kind), where, text: fc.constantFrom(...texts) }),
  })),
);

const DAMAGES = {
  cut: (bytes: Buffer, where: number) => bytes.subarray(0, where % (bytes.length + 1)),
  insert(bytes: Buffer, where: number, text: string) {
    const index = where % (bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, index), Buffer.from(text), bytes.subarray(index)]);
  },
  'replace byte'(bytes: Buffer, where: number, text: string) {
    const copy = Buffer.from(bytes);
    if (copy.length > 0) copy[where % copy.length] = text.charCodeAt(0);
    return copy;
  },
  prepend: (bytes: Buffer, _where: number, text: string) => Buffer.concat([Buffer.from(text), bytes]),
  append: (bytes: Buffer, _where: number, text: string) => Buffer.concat([bytes, Buffer.from(text)]),
  encode: (bytes: Buffer, _where: number, text: string) => Buffer.from(bytes.toString(), text as BufferEncoding),
  'repeat member': (bytes: Buffer, where: number) => changeMember(bytes, where, (member) => `${member},${member}`),
  'replace value': (bytes: Buffer, where: number, text: string) =>
    changeMember(bytes, where, (member) => member.slice(0, member.indexOf('":') + 2) + text),
};

const MEMBER = /"(?:[^"\\]|\\.){0,200}":(?:"(?:[^"\\]|\\.){0,200}"|true|false|null|-?\d[\d.e+-]*|\[\]|\{\})/g;

function changeMember(bytes: Buffer, where: number, change: (member: string) => string): Buffer {
  const text = bytes.toString();
  const members = [...text.matchAll(MEMBER)];
  const found = members[where % Math.max(1, members.length)];
  if (!found) return bytes;
  const [member] = found;
  return Buffer.from(text.slice(0, found.index) + change(member) + text.slice(found.index + member.length));
}

export function applyDamages(text: string, damages: readonly Damage[]): Buffer {
  let bytes: Buffer = Buffer.from(text);
  for (const { kind, where: position, text: added } of damages) bytes = DAMAGES[kind](bytes, position, added);
  return bytes;
}

/** Returns the maximum nesting depth of objects and lists. */
export function maxDepth(text: string): number {
  let [depth, deepest] = [0, 0];
  for (const character of text) {
    if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
