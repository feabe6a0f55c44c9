/**
 * What Go's JSON decoder says of a value with a wrong type, as users know it from the API server. `field` is the name of
 * the Go struct, a dot and the path; empty for the value as a whole.
 * @see https://pkg.go.dev/encoding/json#UnmarshalTypeError
 */
export function unmarshalError(value: unknown, field: string, type: string): string {
  const target = field === '' ? 'value' : `struct field ${field}`;
  // A number that does not fit its integer type is named itself.
  const found = typeof value === 'number' && type.startsWith('int') ? `number ${value}` : jsonTypeOf(value);
  return `json: cannot unmarshal ${found} into Go ${target} of type ${type}`;
}

/** The JSON type as Go names it: `string`, `number`, `bool`, `array` or `object`. */
export function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
