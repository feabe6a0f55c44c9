/** Damage to the bytes of a review, as broken or malicious clients cause it. */
import fc, { type Arbitrary } from 'fast-check';

export type Damage =
  | { readonly kind: 'cut'; readonly where: number }
  | { readonly kind: 'twice'; readonly where: number }
  | { readonly kind: 'insert'; readonly where: number; readonly text: string }
  | { readonly kind: 'replace value'; readonly where: number; readonly text: string }
  | { readonly kind: 'around'; readonly before: string; readonly after: string }
  | { readonly kind: 'byte'; readonly where: number; readonly byte: number }
  | { readonly kind: 'encode'; readonly as: 'utf16le' | 'latin1' };

const where = fc.nat({ max: 100_000 });
const nest = (depth: number, open: string, close: string): string => open.repeat(depth) + '1' + close.repeat(depth);

/** Replacements of values. */
const VALUES: readonly string[] = [
  ...['null', 'true', '0', '-0', '1e999', '-1e-999', '9'.repeat(400), '1.0', '0x10', '01', 'NaN', "''", 'undefined'],
  ...['""', '"\\ud800"', '"\\u0000"', '"\t"', '"\\x"', '"', '[]', '{}', '[null]', '[[],[]]'],
  ...['{"__proto__":{"privileged":true}}', '{"constructor":null}', '{"a":1,"a":2}', '{"":{}}', '{"toString":1}'],
  ...[nest(100, '[', ']'), nest(1000, '{"a":', '}')],
];

/** Replacements that take a server some milliseconds each. */
const HUGE_VALUES: readonly string[] = [
  `"${'s'.repeat(1 << 19)}"`,
  ...[nest(20_000, '[', ']'), nest(200_000, '[', ']')],
  `[${'0,'.repeat(100_000)}0]`,
  `{${Array.from({ length: 20_000 }, (_, index) => `"k${index}":0`).join()}}`,
];

const value = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom(...VALUES) },
  { weight: 1, arbitrary: fc.constantFrom(...HUGE_VALUES) },
);

const INSERTS = ['{', '}', '[', ']', '"', ',', ':', '\\', '\0', '\u2028', '\ufeff', '/**/', ' '.repeat(1 << 16), '1'];

export const damage: Arbitrary<Damage> = fc.oneof(
  { weight: 2, arbitrary: where.map((position) => ({ kind: 'cut', where: position }) as const) },
  { weight: 3, arbitrary: where.map((position) => ({ kind: 'twice', where: position }) as const) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(where, fc.constantFrom(...INSERTS))
      .map(([position, text]) => ({ kind: 'insert', where: position, text }) as const),
  },
  {
    weight: 8,
    arbitrary: fc
      .tuple(where, value)
      .map(([position, text]) => ({ kind: 'replace value', where: position, text }) as const),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...[
        ['\ufeff', ''],
        [' \n\t\r', '\n'],
        ['', '\0'],
        ['', '{}'],
        ['[', ']'],
        ['/*', '*/'],
      ].map(([before = '', after = '']) => ({ kind: 'around', before, after }) as const),
    ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(where, fc.nat({ max: 255 }))
      .map(([position, byte]) => ({ kind: 'byte', where: position, byte }) as const),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('utf16le' as const, 'latin1' as const).map((as) => ({ kind: 'encode', as }) as const),
  },
);

/** Applies damages to a text. */
export function applyDamages(text: string, damages: readonly Damage[]): Buffer {
  let bytes: Buffer = Buffer.from(text);
  for (const damage of damages) bytes = applyDamage(bytes, damage);
  return bytes;
}

function applyDamage(bytes: Buffer, one: Damage): Buffer {
  switch (one.kind) {
    case 'cut':
      return bytes.subarray(0, one.where % (bytes.length + 1));
    case 'insert': {
      const index = one.where % (bytes.length + 1);
      return Buffer.concat([bytes.subarray(0, index), Buffer.from(one.text), bytes.subarray(index)]);
    }
    case 'byte': {
      const copy = Buffer.from(bytes);
      if (copy.length > 0) copy[one.where % copy.length] = one.byte;
      return copy;
    }
    case 'around':
      return Buffer.concat([Buffer.from(one.before), bytes, Buffer.from(one.after)]);
    case 'encode':
      return Buffer.from(bytes.toString(), one.as);
    case 'twice':
    case 'replace value': {
      const text = bytes.toString();
      const values = [
        ...text.matchAll(
          /"(?:[^"\\]|\\.){0,200}":(?:"(?:[^"\\]|\\.){0,200}"|true|false|null|-?\d[\d.e+-]*|\[\]|\{\})/g,
        ),
      ];
      const found = values[one.where % Math.max(1, values.length)];
      if (!found) return bytes;
      const member = found[0];
      const key = member.slice(0, member.indexOf('":') + 2);
      const added = 'text' in one ? key + one.text : `${member},${member}`;
      return Buffer.from(text.slice(0, found.index) + added + text.slice(found.index + member.length));
    }
  }
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
