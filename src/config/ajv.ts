import { Ajv2020, type ErrorObject, type SchemaObject } from 'ajv/dist/2020.js';

/** Returns the first error of a value in one line, or `undefined` if the value is valid. */
export type SchemaCheck = (value: unknown) => string | undefined;

/** Compiles a JSON schema. The check does not change the value: nothing is coerced, defaulted or removed. */
export function compileSchema(schema: SchemaObject): SchemaCheck {
  const validate = new Ajv2020({ strict: true, allErrors: false }).compile(schema);
  return (value) => (validate(value) ? undefined : describeError(validate.errors?.[0]));
}

function describeError(error: ErrorObject | undefined): string {
  if (!error) return 'does not match the schema';
  const path = error.instancePath.slice(1).replaceAll('/', '.');
  const params = error.params as { allowedValues?: readonly unknown[]; additionalProperty?: string };
  const message = params.allowedValues
    ? `must be one of ${params.allowedValues.map((value) => JSON.stringify(value)).join(', ')}`
    : (error.message ?? 'is invalid');
  return path === '' ? message : `${path}: ${message}`;
}
