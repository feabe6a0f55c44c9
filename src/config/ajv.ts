import { Ajv2020, type ErrorObject, type SchemaObject } from 'ajv/dist/2020.js';

/** Tells what is wrong with a value, in one line that names the field; `undefined` if it has the shape. */
export type SchemaCheck = (value: unknown) => string | undefined;

/** Makes a check from a JSON schema. The value is only looked at: nothing is coerced, defaulted or removed. */
export function compileSchema(schema: SchemaObject): SchemaCheck {
  const validate = new Ajv2020({ strict: true, allErrors: false }).compile(schema);
  return (value) => (validate(value) ? undefined : describeError(validate.errors?.[0]));
}

function describeError(error: ErrorObject | undefined): string {
  if (!error) return 'it does not have the expected shape';
  const path = error.instancePath.slice(1).replaceAll('/', '.');
  const params = error.params as { allowedValues?: readonly unknown[]; additionalProperty?: string };
  const message = params.allowedValues
    ? `must be one of ${params.allowedValues.map((value) => JSON.stringify(value)).join(', ')}`
    : (error.message ?? 'is wrong');
  return path === '' ? message : `${path}: ${message}`;
}
