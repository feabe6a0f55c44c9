import fc, { type Arbitrary } from 'fast-check';

/** Names with a special meaning in JavaScript. */
const BUILT_IN = ['__proto__', 'constructor', 'toString', 'valueOf', 'hasOwnProperty', 'length'];

/**
 * Generates JSON whose keys are the given keys and names of built-in properties, and whose values include the given
 * values.
 */
export function hostileJson(keys: readonly string[], values: readonly unknown[]): Arbitrary<unknown> {
  const key = fc.constantFrom(...keys, ...BUILT_IN);
  const leaf = fc.oneof(fc.constantFrom(null, true, 0, -1, 1e300, '', ...values), fc.string(), fc.double());
  return fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 6, depthSize: 'medium' },
      leaf,
      fc.array(tie('json'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('json')), { maxLength: 5 }).map(toObject),
    ),
  })).json;
}

/** Creates an own property for each key, as JSON.parse does. */
function toObject(members: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [name, value] of members) {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return object;
}
